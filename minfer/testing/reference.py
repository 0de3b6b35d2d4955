"""The mathematics of the model's slots in float64, written for reading, not for speed: what every part is compared with.

The functions have the signatures of `minfer/parts.py`. They take tensors of any dtype and give float64. They never write into
their inputs, but for `write_kv`, which fills the cache.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from minfer.parts import KV
from minfer.testing.properties import Differs, expect
from minfer.types import Batch

# Largest error, relative to the largest value of the reference, that rounding in this dtype may explain.
TOLERANCES = {torch.float64: 1e-12, torch.float32: 2e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def assert_close(
    actual: torch.Tensor,
    expected: torch.Tensor,
    slack: float = 1.0,
    place: Callable[[tuple[int, ...]], str] = str,
) -> None:
    """Fail where `actual` is further from the float64 `expected` than TOLERANCES (times `slack`) allows, or is not finite.

    place: from the index of an element to how the message calls it.

    Raises:
        Differs: with the worst element, its error and the limit.
    """
    expect(actual.shape == expected.shape, f"the shape {tuple(expected.shape)}", tuple(actual.shape))
    if not expected.numel():
        return
    ours, theirs = actual.double().cpu(), expected.double().cpu()
    limit = slack * TOLERANCES[actual.dtype] * max(1.0, theirs.abs().max().item())
    error = (ours - theirs).abs().nan_to_num(nan=float("inf"))  # an infinite one is as bad as a NaN
    if error.max() <= limit:
        return
    index = tuple(int(i) for i in torch.unravel_index(error.argmax(), error.shape))
    wrong = int((error > limit).sum())
    digits = 6 if f"{theirs[index]:.6g}" != f"{ours[index]:.6g}" else 9
    off = f"off by {error[index]:.1e}"
    if ours[index].isnan():
        off = "which comes of 0 / 0, of inf - inf, or of reading what nobody has written"
    raise Differs(
        f"{theirs[index]:.{digits}g} at {place(index)}, to within {limit:.1e}",
        f"{ours[index]:.{digits}g}, {off}; {wrong} of {error.numel()} values are wrong, this one the most"
        f"{_common_factor(ours[index[:-1]], theirs[index[:-1]], limit)}",
    )


def _common_factor(ours: torch.Tensor, theirs: torch.Tensor, limit: float) -> str:
    """Says so where all values of the worst one's last dimension [D] are wrong by one factor: weights that do not sum to 1, say."""
    if theirs.numel() < 3 or not ours.any() or not ours.isfinite().all():
        return ""
    factor = (ours @ theirs / (theirs @ theirs)).item()
    if not (ours - factor * theirs).abs().max() <= min(limit, 0.01 * ours.abs().max().item()):
        return ""
    return f"; all {theirs.numel()} values beside it are {factor:.{3 if abs(factor - 1) > 0.005 else 6}g} times what is expected"


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """x [T, I], weight [O, I], bias [O] or None → [T, O]."""
    out = x.double() @ weight.double().T
    return out if bias is None else out + bias.double()


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x / sqrt(mean(x²) + eps) * weight over the last dimension."""
    x = x.double()
    return x / ((x * x).mean(-1, keepdim=True) + eps).sqrt() * weight.double()


def norm(x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """See `minfer.parts.Norm`. The sum is rounded to x's dtype, since that is what a part carries on."""
    summed = x if residual is None else (x.double() + residual.double()).to(x.dtype)
    return rms_norm(summed, weight, eps), summed.double()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Each pair (x[i], x[i + D / 2]) is a complex number, turned by its angle. x [T, heads, D], cos and sin [T, D / 2]."""
    half = x.shape[-1] // 2
    turned = torch.complex(x[..., :half].double(), x[..., half:].double()) * torch.complex(cos.double(), sin.double())[:, None]
    return torch.cat((turned.real, turned.imag), dim=-1)


def write_kv(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    kv: KV,
    slots: torch.Tensor,
    q_norm: torch.Tensor | None,
    k_norm: torch.Tensor | None,
    eps: float,
) -> torch.Tensor:
    """See `minfer.parts.WriteKV`. The caches may be float64."""
    q = q if q_norm is None else rms_norm(q, q_norm, eps)
    k = rotate(k if k_norm is None else rms_norm(k, k_norm, eps), cos, sin)
    keys, values = kv
    for token, slot in enumerate(slots.tolist()):
        block, offset = divmod(slot, keys.shape[1])
        keys[block, offset] = k[token].to(keys.dtype)
        values[block, offset] = v[token].to(values.dtype)
    return rotate(q, cos, sin)


def attention(q: torch.Tensor, kv: KV, batch: Batch, scale: float, window: int | None) -> torch.Tensor:
    """See `minfer.parts.Attention`. One token at a time, token by token out of the pages."""
    block_size, Hkv = kv[0].shape[1:3]
    _, Hq, D = q.shape
    out = torch.zeros(q.shape, dtype=torch.float64)
    token = 0
    for row, (queries, context) in enumerate(zip(batch.query_lens, batch.contexts, strict=True)):
        if context == 0:  # padding
            token += queries
            continue
        table = batch.block_tables[row].tolist()
        keys, values = (
            torch.stack([cache[table[at // block_size], at % block_size] for at in range(context)]).double().cpu() for cache in kv
        )
        for last in range(context - queries, context):
            seen = slice(max(0, last - window + 1) if window else 0, last + 1)
            heads = q[token].double().cpu().view(Hkv, Hq // Hkv, D)  # neighbouring query heads share a K/V head
            weights = (torch.einsum("hgd,khd->hgk", heads, keys[seen]) * scale).softmax(-1)
            out[token] = torch.einsum("hgk,khd->hgd", weights, values[seen]).reshape(Hq, D)
            token += 1
    return out


def activation(gate_up: torch.Tensor) -> torch.Tensor:
    """[T, 2 I] → silu(first half) * second half, [T, I]."""
    gate, up = gate_up.double().chunk(2, dim=-1)
    return gate / (1 + (-gate).exp()) * up
