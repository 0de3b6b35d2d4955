# Chapter 1, The baseline. Edit this file: it is your sample for the slot sample.
#
#   task1, 2 points: The greedy choice
#   task2, 2 points: Edits, on logits wide enough
#   task3, 6 points: The race
#
#   minfer check ch01              what is right so far, and your points
#   minfer check ch01 -k task1     one task only
#   minfer hint ch01 task1         a hint; --more for the next one
#
# A starter of minfer 0.1.0, text cdc151cb.

"""The `sample` part in plain PyTorch: from logits to the next tokens, without making the device wait for the host.

From: the model's logits, and the parameters that `sampling_tensors` gathered for the batch. To: the runner, as the next ids.
"""

from __future__ import annotations

import torch

from minfer.sample.edits import edit_logits
from minfer.sample.filters import apply_filters, distances
from minfer.sample.noise import log_arrivals
from minfer.sample.torch import _random_rows
from minfer.types import Batch


def sample(logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    """logits [S, V], any float dtype, may be written to → ids [S] int64, as batch.sampling asks.

    The order is vLLM's: logit_bias, min_tokens, penalties; then the greedy rows take the largest, and the others go through
    temperature, min_p, top_k, top_p and noise. A row's id depends on its own logits, parameters, seed and position only. Of
    equal logits the lowest id is the greedy choice. A row without any possible token (-inf throughout) gives some valid id.
    """
    sampling = batch.sampling
    if sampling.edits:
        # ch01 task2: carry the edits out, on logits wide enough for them
        raise NotImplementedError("ch01 task2: carry the edits out, on logits wide enough for them")
    # ch01 task1: ids [S], the greedy choice of every row
    raise NotImplementedError("ch01 task1: ids [S], the greedy choice of every row")
    if sampling.all_greedy:
        return ids
    # ch01 task3: d [R, V] float32, the distances of the R random rows; `rows` says which they are
    raise NotImplementedError("ch01 task3: d [R, V] float32, the distances of the R random rows; `rows` says which they are")
    if sampling.any_filter:
        apply_filters(d, sampling.top_k[rows], sampling.top_p[rows], sampling.min_p[rows])
    # ch01 task3: the race; its winners replace the greedy ids of the random rows
    raise NotImplementedError("ch01 task3: the race; its winners replace the greedy ids of the random rows")
    return ids
