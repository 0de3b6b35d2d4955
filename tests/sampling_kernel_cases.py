"""Inputs of kernels for the slot `sample`, and what their ids must be. As `kernel_cases.py`."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from kernel_cases import poison

from minfer.params import SamplingParams
from minfer.sample.noise import log_arrivals
from minfer.sample.torch import sample as torch_sample
from minfer.sample.torch import sampling_tensors
from minfer.testing.sampling import row as asked_row


def check_sample(sample, case: tuple[torch.Tensor, SimpleNamespace]) -> None:
    """The ids of the PyTorch part, or ones that arrive at the same time but for rounding."""
    logits, batch = case
    with poison():
        ids = sample(logits.clone(), batch)
    assert ids.dtype == torch.int64
    expected = torch_sample(logits.clone(), batch)
    sampling, rows = batch.sampling, torch.arange(len(logits))
    noise = log_arrivals(sampling.seeds.cpu(), sampling.positions.cpu(), logits.shape[1]).double()
    greedy = sampling.temperature.cpu() == 0
    scores = logits.cpu().double() / torch.where(greedy, 1, sampling.temperature.cpu().double())[:, None]
    times = torch.where(greedy[:, None], 0, noise) - scores
    behind = times[rows, ids.cpu()] - times[rows, expected.cpu()]
    assert not ((ids != expected).cpu() & (greedy | (behind > 1e-5))).any(), f"{ids.tolist()} instead of {expected.tolist()}"


def sample_case(
    rows: int, vocab: int, dtype: torch.dtype, seed: int = 0, device: str = "cpu", spread: float = 3.0
) -> tuple[torch.Tensor, SimpleNamespace]:
    """(logits, batch): every third row is greedy, the others are random with temperatures of their own."""
    generator = torch.Generator().manual_seed(seed)
    logits = (torch.randn(rows, vocab, generator=generator) * spread).to(device, dtype)
    seeds = torch.randint(-(2**62), 2**62, (rows,), generator=generator).tolist()
    params = [SamplingParams(temperature=(0, 0.6, 1.0)[i % 3]) for i in range(rows)]
    asked = [asked_row(each, seed=seeds[i], position=i) for i, each in enumerate(params)]
    return logits, SimpleNamespace(sampling=sampling_tensors(asked, vocab, device))
