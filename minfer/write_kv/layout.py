"""How the K/V cache lies in memory, as kernels see it: `write_kv` writes it, `attention` reads it."""

from __future__ import annotations

from minfer.errors import MinferError
from minfer.parts import KV


def strides(kv: KV) -> tuple[int, int, int]:
    """Elements from block to block, token to token and head to head of both caches.

    Raises:
        MinferError: K and V do not lie alike, or the values of a head are not neighbours.
    """
    k, v = kv
    block, token, head, value = k.stride()
    if v.stride() != k.stride() or value != 1:
        raise MinferError(
            f"K and V have the strides {k.stride()} and {v.stride()}; the kernels need the same for both, and 1 as the last: "
            "make them as slices of one tensor, as minfer.executor.kv_cache does"
        )
    return block, token, head
