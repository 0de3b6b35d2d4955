"""Bug museum, chapter 15: a team with one fault of a kind that engines have had. Find it before you read on.

    minfer check ch15 museum.py
"""

from __future__ import annotations

from typing import Any

from minfer.executor import ray as reference

needs = {"ray"}


class RayTeam(reference.RayTeam):
    """The actors, and the references to what they were asked."""

    def result(self, rank: int, number: int) -> Any:
        """What a rank's call gave."""
        self._check()
        value = self._get(rank, self.asked[rank].pop(number))
        self._sweep(number)
        self._check()
        return value


class RayExecutor(reference.RayExecutor):
    """An actor for each rank."""

    @staticmethod
    def team_on(ray: Any, size: int, on_gpu: bool) -> RayTeam:
        return RayTeam(ray, size, on_gpu)
