"""The side of the submission: does what the grader asks of the submitted part, call by call, and says what came of it.

It runs no test and knows no expected value; a submission that gains control of it can give wrong answers and nothing else.

From: `worker.py`, with the submission's file. To: `remote.py` in the grader.
"""

from __future__ import annotations

import sys
import traceback
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from minfer.config import make_config
from minfer.course.classroom.frames import Closed, Pipe
from minfer.course.classroom.mirrors import Mirrors
from minfer.course.classroom.outside import Outside, OutsideBlocks, OutsideExecutor, OutsideScheduler, blocks_state
from minfer.course.classroom.wire import Other, pack_reply, storage_bytes, unpack_request
from minfer.engine import Engine
from minfer.resolve import resolve
from minfer.stages import Stage
from minfer.testing.stubs import unwritten
from minfer.types import Sequence

ENGINE_PARTS = "minfer_submitted_parts"  # where the engine finds the parts


class Server:
    """One process, the parts of one file, and at most one stateful object made of them at a time."""

    def __init__(self, pipe: Pipe, interpreted: bool):
        self.pipe, self.lift = pipe, frozenset({"cuda"}) if interpreted else frozenset()
        self.file = Path()
        self.parts: dict[str, Any] = {}
        self.made: Any = None
        self.kept: list[Any] = []  # objects that the grader knows by number
        self.mirrors = Mirrors()
        self.id = 0

    def serve(self) -> None:
        """Until the grader goes."""
        try:
            while True:
                request, storages = unpack_request(self.pipe.receive(), self.mirrors)
                self.id = request["id"]
                before = [storage_bytes(storage) for storage in storages]
                try:
                    answer = {"ok": getattr(self, f"do_{request['do']}")(*request["args"])}
                except BaseException as error:
                    answer = {"error": self.describe(error)}
                after = [storage_bytes(storage) for storage in storages]
                answer["written"] = {i: new for i, (old, new) in enumerate(zip(before, after, strict=True)) if new != old}
                self.send(answer)
        except Closed:
            return

    def send(self, answer: dict) -> None:
        answer |= {"id": self.id, "sequences": self.mirrors.changed()}
        if hasattr(self.made, "num_free"):
            answer["blocks"] = blocks_state(self.made)
        self.pipe.send(pack_reply(answer, self.mirrors))

    def ask(self, what: str, *args: Any) -> Any:
        """A call in the other direction: an object that the part works with lives in the grader.

        Raises:
            Outside: it raised there.
        """
        self.send({"ask": what, "args": list(args)})
        answer, _ = unpack_request(self.pipe.receive(), self.mirrors)
        if "raised" in answer:
            raise Outside(answer["raised"])
        return answer["answer"]

    def describe(self, error: BaseException) -> dict:
        """In a few words: what was raised, and at which line of the file."""
        if isinstance(error, Outside):
            return {"outside": error.number}
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == self.file]
        where = f"line {frames[-1].lineno}: {frames[-1].line}" if frames else ""
        kinds = [kind.__name__ for kind in type(error).__mro__]
        text = str(error).strip().partition("\n")[0][:300]
        return {"kinds": kinds, "text": text, "where": where[:200], "unwritten": unwritten(error)}

    # What the grader asks

    def do_load(self, file: str, names: dict[str, str]) -> None:
        self.file = Path(file).resolve()
        for slot, name in names.items():
            self.parts[slot] = resolve(slot, f"{file}:{name}", lift=self.lift)

    def do_forget(self) -> None:
        """Before a new run."""
        if self.made is not None and hasattr(self.made, "tape"):
            self.made.close()
        self.made, self.kept, self.mirrors = None, [], Mirrors()

    def do_call(self, slot: str, *args: Any) -> Any:
        return self.parts[slot](*args)

    def do_static(self, slot: str, name: str, *args: Any) -> Any:
        return getattr(self.parts[slot], name)(*args)

    def do_make(self, slot: str, *args: Any) -> None:
        self.made = self.parts[slot](*args)

    def do_make_scheduler(self, config: SimpleNamespace, blocks: dict, policy: str, preemption: str, host_blocks: int) -> None:
        outside = OutsideBlocks(self.ask, blocks)
        policy, preemption = resolve("policy", policy), resolve("preemption", preemption)
        self.made = self.parts["scheduler"](config, outside, policy, preemption(host_blocks))

    def do_blocks_method(self, copies: list, name: str, *args: Any) -> Any:
        if self.made.copies != copies:
            self.made.copies[:] = copies
        return getattr(self.made, name)(*args)

    def do_method(self, name: str, *args: Any) -> Any:
        return getattr(self.made, name)(*args)

    def do_schedule(self) -> Any:
        plan = self.made.schedule()
        self.kept.append(plan)
        return [len(self.kept) - 1, plan]

    def do_commit(self, number: int, sampled: Any) -> Any:
        return self.made.commit(self.kept[number], sampled)

    def do_policy(self, seq: Sequence, served: dict[str, int], sizes: dict[str, int]) -> Any:
        blocks = SimpleNamespace(**sizes, lookup=lambda seq: self.ask("lookup", seq))
        return self.parts["policy"](seq, SimpleNamespace(blocks=blocks, served=served))

    def do_policy_changes(self) -> bool:
        return bool(getattr(self.parts["policy"], "changes", False))

    def do_make_loop(self, scheduler: bool, executor: bool) -> None:
        outside = OutsideScheduler(self.ask) if scheduler else None, OutsideExecutor(self.ask) if executor else None
        self.made = iter(self.parts["loop"](*outside))

    def do_next(self) -> list:
        """[what it yielded], or nothing at its end."""
        for moved in self.made:
            return [moved if isinstance(moved, list) else Other(type(moved).__name__)]
        return []

    def do_inputs_method(self, name: str, *args: Any) -> list:
        """[number of the batch, the batch]. A batch that came from here is named by ("kept", its number)."""
        values = [self.kept[each[1]] if isinstance(each, tuple) and each[:1] == ("kept",) else each for each in args]
        batch = getattr(self.made, name)(*values)
        self.kept.append(batch)
        return [len(self.kept) - 1, batch]

    def do_make_runner(self, config: SimpleNamespace, kv: list, recorded: bool) -> None:
        from minfer.course.classroom.runner_bench import Bench  # builds on other slots' parts, which other chapters may lack

        self.made = Bench(self.parts["runner"], config, kv, recorded)

    def do_run(self, batch: Any, hidden: torch.Tensor, kv: list) -> list:
        return self.made.run(batch, hidden, kv)

    def do_engine(self, stage: Stage, names: dict[str, str], sizes: dict[str, Any], asks: list) -> list:
        """The tokens of each request (prompt, params), from a whole engine with the parts in it."""
        module = ModuleType(ENGINE_PARTS)
        module.__spec__ = ModuleSpec(ENGINE_PARTS, None, origin=ENGINE_PARTS)
        for slot in names:
            setattr(module, slot, self.parts[slot])
        sys.modules[ENGINE_PARTS] = module
        mix = stage.with_parts(**{slot: f"{ENGINE_PARTS}:{slot}" for slot in names})
        engine = Engine(make_config(Path("dummy:tiny"), dtype="float32", device="cpu", seed=0, **sizes), mix)
        for i, (prompt, params) in enumerate(asks):
            engine.add_request(str(i), prompt, params, stream=False)
        done: dict[str, list[int]] = {}
        while engine.has_unfinished():
            done |= {output.request_id: list(output.outputs[0].token_ids) for output in engine.step()}
        engine.close()
        return [done[str(i)] for i in range(len(asks))]
