"""What is new since the last look: queues, block tables, cached blocks and plans, as the edits that a trace holds.

From: `recorder.py`, which looks after each plan. To: the entries of a trace.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from minfer.trace.edits import edit_of, table_edit, without_empty
from minfer.types import Plan, Sequence, Status

QUEUES = {Status.HELD: "held", Status.WAITING: "waiting", Status.RUNNING: "running"}
BY_RANK = attrgetter("rank")
PROMPT_CHARS = 120  # of a prompt's text that a trace keeps


class Look:
    """What was seen last, by sequence, and how to say what has changed since."""

    def __init__(self, blocks):
        self.blocks = blocks
        self.sequences: dict[int, dict[str, Any]] = {}  # a trace's entries, by id
        self.live: dict[int, Sequence] = {}
        self.queues: dict[str, list[int]] = {name: [] for name in QUEUES.values()}
        self.tables: dict[int, list[int]] = {}
        self.swapped: dict[int, list[int]] = {}
        self.preemptions: dict[int, int] = {}
        self.next_start: dict[int, tuple[int, int]] = {}  # by sequence: its row, and where a decode would go on
        self.half_way: set[int] = set()  # had K/V already when they were met, and have had no work since
        self.last_work: list[int] = []
        self.cached: set[int] = set()
        self.num_free: int | None = None
        if hasattr(blocks, "changed"):
            blocks.changed = set(blocks.cached)

    def end(self) -> None:
        """Look no more."""
        if hasattr(self.blocks, "changed"):
            self.blocks.changed = None

    def meet(self, seq: Sequence, now: int) -> None:
        """A sequence that has arrived, or that is there when a recording begins."""
        parent = seq.parent.seq_id if seq.parent is not None else None
        text = seq.request.prompt[:PROMPT_CHARS] if seq.request.prompt is not None else None
        entry = {"id": seq.seq_id, "request": seq.request.request_id, "index": seq.index, "num_prompt": seq.num_prompt}
        entry |= {"limit": seq.limit, "arrived": now, "parent": parent, "prompt": text, "num_output": seq.num_output or None}
        self.sequences[seq.seq_id] = without_empty(entry)
        self.live[seq.seq_id] = seq
        self.preemptions[seq.seq_id] = seq.num_preemptions
        if seq.num_computed:
            self.half_way.add(seq.seq_id)

    def changes(self) -> dict[str, Any]:
        """Queues, block tables and cached blocks, as edits of what they were when this was last asked for."""
        queues: dict[Status, list[Sequence]] = {status: [] for status in QUEUES}
        tables, swapped, preempted, gone = [], [], [], []
        for seq_id, seq in self.live.items():
            if seq.status is Status.FINISHED:
                gone.append(seq_id)
            else:
                queues[seq.status].append(seq)
            if seq.num_preemptions != self.preemptions[seq_id]:
                self.preemptions[seq_id] = seq.num_preemptions
                self.next_start.pop(seq_id, None)
                preempted.append(seq_id)
            for kind, now, known in ((tables, seq.block_table, self.tables), (swapped, seq.host_blocks, self.swapped)):
                if now != known.get(seq_id, []):
                    kind.append([seq_id, *table_edit(known.get(seq_id, []), now)])
                    known[seq_id] = now[:]
        for seq_id in gone:
            self.sequences[seq_id]["finish"] = self.live.pop(seq_id).finish_reason or "unknown"
        changes: dict[str, Any] = {"tables": tables, "swapped": swapped, "preempted": preempted}
        for status, name in QUEUES.items():
            queue = queues[status] if status is Status.HELD else sorted(queues[status], key=BY_RANK)  # equals: the oldest first
            order = [seq.seq_id for seq in queue]
            if order != self.queues[name]:
                changes[name] = edit_of(self.queues[name], order)
                self.queues[name] = order
        if self.blocks.num_free != self.num_free:
            self.num_free = changes["free"] = self.blocks.num_free
        if getattr(self.blocks, "changed", self) is None:  # begun anew after an error: what was cached is no more
            self.blocks.changed = {*self.cached, *self.blocks.cached}
        if getattr(self.blocks, "changed", None):
            toggled = sorted(block for block in self.blocks.changed if (block in self.blocks.cached) != (block in self.cached))
            self.cached.symmetric_difference_update(toggled)
            self.blocks.changed.clear()
            changes["cached"] = toggled
        return changes

    def planned(self, plan: Plan) -> dict[str, Any]:
        """The plan. A sequence that goes on by one token which it samples is its id only; any other work is written out."""
        works: list[Any] = []
        hits: list[list[int]] = []
        expected = self.next_start
        brought_back = {copy.dst for copy in plan.copies if copy.kind == "in"}  # from host memory, so not found in the cache
        for work in plan.work:
            before = expected.get(work.seq_id)
            if before == (work.row, work.start) and work.num_new == 1 and work.samples:
                works.append(work.seq_id)
            else:
                works.append([work.seq_id, work.row, work.start, work.num_new, int(work.samples)])
                if before is None and work.start and work.seq_id not in self.half_way and not self._holds(work.seq_id, brought_back):
                    hits.append([work.seq_id, work.start])
            expected[work.seq_id] = work.row, work.start + work.num_new
        self.half_way.difference_update(expected)
        same = works == self.last_work
        self.last_work = [work.seq_id for work in plan.work]
        return {"work": None if same else works, "hits": hits, "copies": [list(copy) for copy in plan.copies]}

    def _holds(self, seq_id: int, blocks: set[int]) -> bool:
        """Whether any of these blocks is in its table."""
        return bool(blocks) and not blocks.isdisjoint(self.tables.get(seq_id, ()))
