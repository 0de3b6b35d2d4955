"""Fault: a decode row leaves out its last page where that page is not full."""

from __future__ import annotations

from dataclasses import replace

import torch

from minfer.attention.torch import attention


def mutant(q, kv, batch, scale, window):
    size = kv[0].shape[1]
    full = [n if i >= batch.num_decode or n < size else n // size * size for i, n in enumerate(batch.contexts)]
    return attention(q, kv, replace(batch, contexts=full, context_lens=torch.tensor(full, dtype=torch.int32)), scale, window)
