"""What is said to cross between devices is what does: counted at the sums of a small model, and at a process's socket."""

from __future__ import annotations

import pickle

import pytest
import torch

from minfer import traffic
from minfer.course.toy_run import plans_of
from minfer.executor.shorthand import Reader
from minfer.model_config import ModelConfig
from minfer.scheduler.chunked import ChunkedScheduler
from minfer.shard import Shard
from minfer.testing.checkpoints import make_checkpoint
from minfer.testing.decoding import TORCH_FUNCTIONS, compute_logits
from minfer.weights import load_decoder


class Counting:
    """A group that adds nothing up, and counts."""

    def __init__(self):
        self.summed = self.gathered = 0

    def all_reduce(self, x: torch.Tensor) -> torch.Tensor:
        self.summed += x.numel() * x.element_size()
        return x

    def gather(self, x: torch.Tensor, width: int) -> torch.Tensor:
        self.gathered += len(x) * width * x.element_size()
        return x.repeat(1, 2)


@pytest.mark.parametrize("tokens", [1, 5])
def test_sums_and_logits(tmp_path, tokens):
    """One step with so many tokens, all of which are sampled from."""
    path = make_checkpoint(tmp_path, "llama", vocab_size=51)
    model, group = ModelConfig.load(path), Counting()
    shard = Shard(model, 0, 2)
    decoder = load_decoder(path, shard, TORCH_FUNCTIONS, torch.float32, "cpu", 64)
    shard.connect(decoder, group)
    compute_logits(decoder, [[3] * tokens], [[tokens]])
    assert group.summed == traffic.sum_bytes(model, tokens, 4)
    assert group.gathered == traffic.logit_bytes(model, tokens, 2, 4)


def test_plans():
    """The messages that `processes.py` and Ray pickle; the sampling of a sequence goes with its first work only."""
    plans = plans_of(ChunkedScheduler, [(0, 8, 6)] * 16, rows=16)
    sizes = traffic.plan_bytes(plans)
    assert len(sizes) == len(plans)
    assert sizes[-1] < sizes[0]
    reader = Reader()
    for plan in plans:
        assert reader.read(plan) == plan
    assert sizes[1] < len(pickle.dumps(plans[1])) + 200, "no more than the plan and the call around it"
