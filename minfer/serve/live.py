"""What an engine is doing right now, for the page that shows it: queues, block tables, and the batch of the last step.

From: the engine, between two of its steps. To: `worker.py`, which sends it on when asked. `page/live.mjs` draws it.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from minfer.engine import Engine
from minfer.serve.messages import Load
from minfer.types import Plan, Sequence

QUEUES = ("held", "waiting", "running")
BY_RANK = attrgetter("rank")


class Watched:
    """The engine's executor, with the last plan kept."""

    def __init__(self, executor):
        self.executor = executor
        self.plan: Plan | None = None

    def launch(self, plan: Plan):
        self.plan = plan
        return self.executor.launch(plan)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.executor, name)


class Live:
    """Looks at an engine. Schedulers that keep no such queues as `scheduler/base.py` does are shown without."""

    def __init__(self, engine: Engine):
        self.engine = engine
        engine.executor = self.watched = Watched(engine.executor)

    def stop(self) -> None:
        if self.engine.executor is self.watched:
            self.engine.executor = self.watched.executor

    def load(self) -> Load:
        """How busy it is, in numbers."""
        held, waiting, running = (len(getattr(self.engine.scheduler, name, ())) for name in QUEUES)
        blocks = self.engine.blocks
        used = blocks.num_total - blocks.num_free
        return Load(running, waiting + held, used, blocks.num_total, self.engine.scheduler.num_preemptions)

    def look(self) -> dict[str, Any]:
        """All of it, as JSON: `sequences` by id; the queues and the tables name ids and blocks."""
        scheduler, blocks, config = self.engine.scheduler, self.engine.blocks, self.engine.config
        plan = self.watched.plan if scheduler.has_work() else None
        held, waiting, running = (self._queue(name) for name in QUEUES)
        return {
            "engine": {
                "stage": self.engine.stage.name,
                "block_size": blocks.block_size,
                "num_blocks": blocks.num_total,
                "max_num_seqs": config.max_num_seqs,
                "max_num_batched_tokens": config.max_num_batched_tokens,
                "max_model_len": self.engine.max_len,
            },
            "sequences": [_describe(seq) for seq in (*held, *waiting, *running)],
            "held": [seq.seq_id for seq in held],
            "waiting": [seq.seq_id for seq in waiting],
            "running": [seq.seq_id for seq in running],
            "free": blocks.num_free,
            "cached": sorted(getattr(blocks, "cached", ())),  # blocks whose content a new prompt could find
            "num_steps": scheduler.num_steps,
            "num_preemptions": scheduler.num_preemptions,
            "step": plan.step if plan is not None else None,
            "work": [[work.seq_id, work.row, work.start, work.num_new, work.samples] for work in plan.work] if plan else [],
        }

    def _queue(self, name: str) -> list[Sequence]:
        queue = getattr(self.engine.scheduler, name, ())
        seqs = list(queue.values()) if isinstance(queue, dict) else list(queue)
        return seqs if name == "held" else sorted(seqs, key=BY_RANK)


def _describe(seq: Sequence) -> dict[str, Any]:
    return {
        "id": seq.seq_id,
        "index": seq.index,
        "num_prompt": seq.num_prompt,
        "num_output": seq.num_output,
        "num_computed": seq.num_computed,
        "table": list(seq.block_table),
    }
