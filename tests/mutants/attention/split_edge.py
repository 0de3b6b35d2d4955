"""Fault: contexts are cut into parts of 64 keys, and a last part of a single key is forgotten."""

from __future__ import annotations

from dataclasses import replace

import torch

from minfer.attention.torch import attention


def mutant(q, kv, batch, scale, window):
    cut = [n - 1 if n > 64 and n % 64 == 1 and i < batch.num_decode else n for i, n in enumerate(batch.contexts)]
    return attention(q, kv, replace(batch, contexts=cut, context_lens=torch.tensor(cut, dtype=torch.int32)), scale, window)
