"""The K/V cache's memory: blocks on the device, and blocks in host memory for sequences that gave way.

One tensor holds every layer, [L, 2, N, block_size, Hkv, D], so that a block's K/V of all layers move with one indexed copy.
"""

from __future__ import annotations

import torch

from minfer.parts import KV
from minfer.types import Copy


class KVCache:
    """N = num_blocks blocks on the device, block 0 the padding block; num_host_blocks in host memory."""

    def __init__(self, config, num_blocks: int, num_host_blocks: int, block_size: int):
        model = config.model

        def pool(blocks: int, **where) -> torch.Tensor:
            shape = (model.num_layers, 2, blocks, block_size, model.num_kv_heads, model.head_dim)
            return torch.zeros(shape, dtype=config.dtype, **where)

        self.device_pool = pool(num_blocks, device=config.device)
        self.host_pool = pool(num_host_blocks, pin_memory=config.device.type == "cuda" and num_host_blocks > 0)

    def layers(self) -> list[KV]:
        """Each layer's K and V, [N, block_size, Hkv, D] each."""
        return [(layer[0], layer[1]) for layer in self.device_pool]

    def copy(self, copies: list[Copy]) -> None:
        """Carry them out in order: a block may be copied out and then written to."""
        pools = {
            "copy": (self.device_pool, self.device_pool),
            "out": (self.device_pool, self.host_pool),
            "in": (self.host_pool, self.device_pool),
        }
        for kind, src, dst in copies:
            source, target = pools[kind]
            target[:, :, dst].copy_(source[:, :, src], non_blocking=True)
