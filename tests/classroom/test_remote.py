"""Parts in a process of their own pass and fail the suites just as they do here; and what they say of themselves is not believed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from kit import LIMITS

import minfer
from minfer.course.classroom import library
from minfer.course.classroom.process import Process
from minfer.course.classroom.remote_parts import remote
from minfer.testing.checking import check
from minfer.testing.suites import suite_of

PACKAGE = Path(minfer.__file__).parent
PARTS = {
    "norm": "norm.torch:add_rms_norm",
    "write_kv": "write_kv.torch:write_kv",
    "attention": "attention.torch:attention",
    "activation": "activation.torch:silu_mul",
    "linear": "linear.torch:linear",
    "sample": "sample.torch:sample",
    "blocks": "blocks.prefix:PrefixBlocks",
    "scheduler": "scheduler.chunked:ChunkedScheduler",
    "loop": "loop.overlapped:loop",
    "inputs": "inputs.resident:ResidentInputs",
    "runner": "runner.cuda_graph:CudaGraphRunner",
    "policy": "policy.fair_share:policy",
}
EXAMPLES = 8


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """minfer as it is, with nothing taken out."""
    folder = tmp_path_factory.mktemp("library")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "generate", lambda chapter: "")
        patch.setattr(library, "references", lambda chapter: [])
        library.make_library(SimpleNamespace(id="none"), folder)
    for place in (folder, folder.parent, folder.parent.parent):
        place.chmod(0o755)
    return folder


@pytest.fixture
def submitted(whole):
    """Starts a part → its proxy."""
    processes = []

    def start(slot: str, text: str, name: str):
        process = Process(whole, text, False, replace(LIMITS, call_seconds=30.0), [str(PACKAGE)])
        processes.append(process)
        process.start()
        part = remote(process, slot)
        part.ask("load", str(process.file), {slot: name})
        return part

    yield start
    for process in processes:
        process.close()


def failures(slot: str, part, examples: int) -> dict[str, str]:
    """Property → what was wrong. A large cache is gigabytes, which are not sent to another process."""
    results = [check(prop, part, examples=examples, shrink=False) for prop in suite_of(slot) if prop.name != "large-cache"]
    return {result.prop.name: str(result.error) for result in results if not result.passed}


@pytest.mark.parametrize("slot", PARTS)
def test_right_parts(submitted, slot):
    """Everything that a suite asks of a part reaches it, and comes back."""
    if slot == "runner":
        pytest.importorskip("minfer.testing.recordable")
    module, name = PARTS[slot].split(":")
    text = (PACKAGE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    assert failures(slot, submitted(slot, text, name), EXAMPLES) == {}


def test_a_leak(submitted):
    """The blocks of a scheduler are the grader's, so what it does not give back is missing there."""
    text = """
from minfer.scheduler.chunked import ChunkedScheduler
class Leaks(ChunkedScheduler):
    def _finish(self, seq, reason, stop_reason=None):
        kept, self.blocks.__dict__["free"] = self.blocks, lambda seq: seq.block_table.clear()
        super()._finish(seq, reason, stop_reason)
        del kept.__dict__["free"]
"""
    found = failures("scheduler", submitted("scheduler", text, "Leaks"), 30)
    assert "blocks free once nothing is alive" in found["tokens"] or "room" in found["tokens"] or "end within" in found["tokens"]


def test_tokens_out_of_thin_air(submitted):
    """A scheduler that knows the toy model, and writes the right tokens without having them computed."""
    text = """
from minfer.scheduler.chunked import ChunkedScheduler
class Invents(ChunkedScheduler):
    def commit(self, plan, sampled):
        moved = super().commit(plan, sampled)
        for seq in moved:
            if not seq.finished:
                seq.token_ids.append(seq.token_ids[-1])
        return moved
"""
    found = failures("scheduler", submitted("scheduler", text, "Invents"), 10)
    assert "the tokens that were sampled for it" in found["tokens"]


def test_who_gave_way_is_counted_here(submitted):
    """The first sequence gives way all the time, and the scheduler says that nobody did."""
    text = """
from minfer.scheduler.chunked import ChunkedScheduler
class Denies(ChunkedScheduler):
    def schedule(self):
        if len(self.running) > 1 and self.num_steps % 3 == 2 and not self.running[0].num_pending and self.num_steps < 60:
            self._preempt(self.running[0])
        plan = super().schedule()
        for seq in self.live.values():
            seq.num_preemptions = 0
        self.num_preemptions = 0
        return plan
"""
    found = failures("scheduler", submitted("scheduler", text, "Denies"), 60)
    assert "never to give way" in found["oldest"]


def test_a_loop_that_makes_up_what_moved(submitted):
    """It yields numbers of its own for objects of the grader."""
    text = """
from minfer.course.classroom.wire import Handle
def loop(scheduler, executor):
    while scheduler.has_work():
        plan = scheduler.schedule()
        yield [Handle(0), Handle(10**9)]
"""
    part = submitted("loop", text, "loop")
    prop = next(prop for prop in suite_of("loop") if prop.name == "traffic")
    assert not check(prop, part, examples=5, shrink=False).passed


def test_written_tensors_come_back(submitted):
    """A part that writes where it must not is caught, though it writes in another process."""
    text = """
import torch
def add_rms_norm(x, residual, weight, eps):
    from minfer.norm.torch import add_rms_norm as right
    result = right(x, residual, weight, eps)
    weight.add_(1)
    return result
"""
    found = failures("norm", submitted("norm", text, "add_rms_norm"), 5)
    assert "weight as it was" in found["normalised"]


def test_layouts_arrive(submitted):
    """Strides and shared storage are the same there: K and V side by side, heads before tokens, a query cut out of a product."""
    text = """
def attention(q, kv, batch, scale, window):
    k, v = kv
    raise ValueError((q.stride(), k.stride(), v.storage_offset(), k.untyped_storage().data_ptr() == v.untyped_storage().data_ptr()))
"""
    from minfer.testing.attention_cases import build

    part = submitted("attention", text, "attention")
    case = {
        "rows": [[1, 5]], "block_size": 4, "group": 2, "kv_heads": 2, "head_dim": 8, "dtype": "float32", "window": None,
        "scale": None, "layout": "k and v of a block side by side", "spare_columns": 0, "strided_q": True, "seed": 0,
    }  # fmt: skip
    q, kv, batch = build(case)
    with pytest.raises(Exception, match="ValueError") as error:
        part(q, kv, batch, 1.0, None)
    wanted = (q.stride(), kv[0].stride(), kv[1].storage_offset(), True)
    assert str(wanted) in str(error.value)
