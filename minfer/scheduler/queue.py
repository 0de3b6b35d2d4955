"""The waiting queue: who is next, by the policy's key.

A policy whose keys never change gets a heap, O(log n) a push and a pop. One whose keys change while a sequence waits is asked
about everyone each time, O(n).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from minfer.types import Sequence


class WaitingQueue:
    """Sequences that could run now if there were room."""

    def __init__(self, policy, context):
        self._policy = policy
        self._context = context
        self._changes = getattr(policy, "changes", False)
        self._members: dict[int, Sequence] = {}
        self._heap: list[tuple[tuple, int]] = []  # (rank, seq_id); entries of removed members are skipped

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._members.values())

    def push(self, seq: Sequence) -> None:
        self._members[seq.seq_id] = seq
        if not self._changes:
            seq.rank = self._policy(seq, self._context)
            heapq.heappush(self._heap, (seq.rank, seq.seq_id))

    def remove(self, seq: Sequence) -> None:
        self._members.pop(seq.seq_id, None)  # it may not be there: an error or Ctrl-C came while it was added

    def first(self) -> Sequence | None:
        """The next one to admit; it stays in the queue."""
        if not self._members:
            return None
        if self._changes:
            for seq in self:
                seq.rank = self._policy(seq, self._context)
            return min(self, key=lambda seq: seq.rank)
        while self._heap[0][1] not in self._members:
            heapq.heappop(self._heap)
        return self._members[self._heap[0][1]]
