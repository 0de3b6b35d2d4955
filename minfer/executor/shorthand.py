"""Plans on their way to other processes: how a sequence is sampled is sent once, with the first work of its row.

A plan of 256 decodes would otherwise carry 256 sets of sampling parameters in every step.

From: `parallel.py` writes. To: `rank.py` reads.
"""

from __future__ import annotations

from dataclasses import replace

from minfer.types import Plan, Sampling

Short = Plan  # whose works have no sampling where the reader knows it


class Writer:
    """Remembers which sequence's sampling the reader has, for each row."""

    def __init__(self):
        self.sent: dict[int, int] = {}  # row → seq_id

    def write(self, plan: Plan) -> Short:
        work = [each._replace(sampling=None) if self.sent.get(each.row) == each.seq_id else each for each in plan.work]
        self.sent.update((each.row, each.seq_id) for each in plan.work)
        return replace(plan, work=work)


class Reader:
    """Remembers the sampling of each row's sequence."""

    def __init__(self):
        self.known: dict[int, Sampling] = {}  # row → how it is sampled

    def read(self, plan: Short) -> Plan:
        self.known.update((each.row, each.sampling) for each in plan.work if each.sampling is not None)
        work = [each if each.sampling is not None else each._replace(sampling=self.known[each.row]) for each in plan.work]
        return replace(plan, work=work)
