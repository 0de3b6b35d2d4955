"""Fault: where three query heads share a K/V head, they are taken from all over q instead of from neighbours."""

from __future__ import annotations

import torch

from minfer.attention.torch import attention


def mutant(q, kv, batch, scale, window):
    kv_heads = kv[0].shape[2]
    if q.shape[1] != 3 * kv_heads:
        return attention(q, kv, batch, scale, window)
    order = torch.arange(q.shape[1]).view(3, kv_heads).T.flatten()
    return attention(q[:, order], kv, batch, scale, window)[:, order.argsort()]
