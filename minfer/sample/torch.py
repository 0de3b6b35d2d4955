"""The `sample` part in plain PyTorch: from logits to the next tokens, without making the device wait for the host.

From: the model's logits, and the parameters that `sampling_tensors` gathered for the batch. To: the runner, as the next ids.
"""

from __future__ import annotations

import torch

from minfer.sample.edits import edit_logits
from minfer.sample.filters import apply_filters, distances
from minfer.sample.noise import log_arrivals
from minfer.types import Batch, Sampling, SamplingTensors


def sample(logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    """logits [S, V], any float dtype, may be written to → ids [S] int64, as batch.sampling asks.

    The order is vLLM's: logit_bias, min_tokens, penalties; then the greedy rows take the largest, and the others go through
    temperature, min_p, top_k, top_p and noise. A row's id depends on its own logits, parameters, seed and position only. Of
    equal logits the lowest id is the greedy choice. A row without any possible token (-inf throughout) gives some valid id.
    """
    sampling = batch.sampling
    if sampling.edits:
        # ch01 task2: carry the edits out, on logits wide enough for them
        logits = logits.float()
        edit_logits(logits, sampling.edits)
        # end of ch01 task2
    # ch01 task1: ids [S], the greedy choice of every row
    ids = logits.argmax(-1)
    # end of ch01 task1
    if sampling.all_greedy:
        return ids
    # ch01 task3: d [R, V] float32, the distances of the R random rows; `rows` says which they are
    rows = _random_rows(sampling.temperature)
    temperature = sampling.temperature[rows]
    is_random = temperature > 0
    d = distances(logits[rows].float(), torch.where(is_random, temperature, 1.0))
    # end of ch01 task3
    if sampling.any_filter:
        apply_filters(d, sampling.top_k[rows], sampling.top_p[rows], sampling.min_p[rows])
    # ch01 task3: the race; its winners replace the greedy ids of the random rows
    d += log_arrivals(sampling.seeds[rows], sampling.positions[rows], d.shape[1])
    ids[rows] = torch.where(is_random, d.argmin(-1), ids[rows])
    # end of ch01 task3
    return ids


def _random_rows(temperature: torch.Tensor) -> torch.Tensor | slice:
    """The rows that need noise; all of them where finding out would make the host wait for the device."""
    return temperature.nonzero()[:, 0] if temperature.device.type == "cpu" else slice(None)


def sampling_tensors(
    rows: list[tuple[Sampling, int, list[int] | None]], vocab_size: int, device: torch.device | str
) -> SamplingTensors:
    """The parameters of S sampled rows as tensors on `device`.

    Args:
        rows: per row its sampling, the index in its sequence of the token to be sampled, and its known tokens (needed only
            where a penalty is on).
        vocab_size: V of the logits; a larger top_k is the same as none.
    """
    temperature, top_k, top_p, min_p, seeds, positions = [], [], [], [], [], []
    edits: list[tuple[int, Sampling, list[int]]] = []
    any_filter = False
    for row, (sampling, position, history) in enumerate(rows):
        params = sampling.params
        k = min(params.top_k, vocab_size) if params.top_k > 0 else vocab_size
        temperature.append(0.0 if params.greedy else params.temperature)
        top_k.append(k)
        top_p.append(params.top_p)
        min_p.append(params.min_p)
        seeds.append(sampling.seed)
        positions.append(position)
        any_filter |= not params.greedy and (k < vocab_size or params.top_p < 1 or params.min_p > 0)
        if params.edits_logits and (edit := edit_of(sampling, position, history)):
            edits.append((row, *edit))

    def on_device(values: list, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    return SamplingTensors(
        temperature=on_device(temperature, torch.float32),
        top_k=on_device(top_k, torch.int64),
        top_p=on_device(top_p, torch.float32),
        min_p=on_device(min_p, torch.float32),
        seeds=on_device(seeds, torch.int64),
        positions=on_device(positions, torch.int64),
        all_greedy=not any(temperature),
        any_filter=any_filter,
        edits=edits,
    )


def edit_of(sampling: Sampling, position: int, history: list[int] | None) -> tuple[Sampling, list[int]] | None:
    """What `edits` says of a row that samples the token at `position`; None where nothing is to be done.

    `stop_ids` of the returned sampling are the tokens that are banned now: none once min_tokens are sampled.
    """
    params = sampling.params
    early = position - sampling.num_prompt < params.min_tokens
    if not early:
        sampling = sampling._replace(stop_ids=())
    if params.needs_history or params.logit_bias or early:
        return sampling, history if params.needs_history else []
    return None
