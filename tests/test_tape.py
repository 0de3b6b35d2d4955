"""The tape that stands in for CUDA's graphs: what a replay repeats, what it does not, and what cannot be recorded."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.testing.tape import Tape, on_tape

numbers = st.lists(st.integers(-9, 9).map(float), min_size=4, max_size=4)


@settings(deadline=None, max_examples=30)
@given(numbers, numbers)
def test_a_replay_computes_on_what_the_memory_holds_now(first, second):
    """New results lie where the recorded ones did: through views, in-place operations, and writes to other memory."""
    x, memory = torch.tensor(first), torch.zeros(4)

    def step() -> torch.Tensor:
        y = x.view(2, 2).t().clone()
        y += 1
        memory.index_copy_(0, torch.arange(2), y[0])
        return y.flatten().cumsum(0)

    tape = Tape()
    with torch.inference_mode(), tape:
        result = step()
    x.copy_(torch.tensor(second))
    tape.replay()
    replayed, written = result.clone(), memory.clone()
    assert torch.equal(replayed, step())
    assert torch.equal(written, memory)


def test_a_replay_runs_no_python():
    """What Python decided while the tape ran stays decided."""
    x, calls, tape = torch.ones(2), [], Tape()
    with tape:
        calls.append(1)
        result = x * len(calls)
    calls += [2, 3]
    tape.replay()
    assert calls == [1, 2, 3]
    assert result.tolist() == [1, 1]


@pytest.mark.parametrize("ask", [lambda x: x.sum().item(), lambda x: int(x[0]), lambda x: bool(x[0] > 0), lambda x: x[x > 0]])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_value_on_the_host_is_refused(ask, mode):
    with mode(), Tape(), pytest.raises(RuntimeError, match="on the host"):
        ask(torch.ones(3))


def test_graphs_are_tapes_only_within():
    """And torch.cuda is as it was afterwards."""
    before = torch.cuda.CUDAGraph, torch.cuda.graph
    with on_tape():
        graph, x = torch.cuda.CUDAGraph(), torch.ones(2)
        with torch.cuda.graph(graph, pool=None, stream=torch.cuda.Stream()):
            y = x + 1
        x += 1
        graph.replay()
    assert y.tolist() == [3, 3]
    assert (torch.cuda.CUDAGraph, torch.cuda.graph) == before
