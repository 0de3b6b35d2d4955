"""Sampling in one pass over the logits, with the noise made where it is needed.

Layouts
    logits [S, V], any float dtype, contiguous rows; temperature [S] float32, seeds and positions [S] int64
    largest, time [S, slices] float32, token [S, slices] int32: the best of each slice of the vocabulary
    ids [S] int64

Grid of `race`: (slices, S), one warp a program, which walks through its slice tile by tile. Grid of `pick`: (S,); it takes the best
of a row's slices. A greedy row keeps the largest logit. A random row runs the race of `noise.py`: a token of distance d arrives at
E exp(d), with E = -log(1 - v) and v a uniform hash of (seed, position, token), and the first to arrive is taken.

Exact times cost far more than reading the logits, and so would a pass of its own for the row's largest one. A tile is therefore first
asked whether it can matter: since E > v, no token of it arrives before v exp(d). Only where that beats the best time so far are the
exact times computed. A slice counts distances from the largest logit that it has met in such a tile, and its best time grows with
that, as in an online softmax.

From: the model's logits. To: the runner, as the next ids. Batches with filters or edits take the PyTorch part.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from minfer.launch import overlap
from minfer.sample import torch as torch_sample
from minfer.types import Batch

needs = {"cuda", "triton"}

TILE, GREEDY_TILE = 256, 1024  # a small one is more often passed over; without noise there is nothing to pass over
PROGRAMS = 4096  # enough to fill the card
LIMIT = tl.constexpr(torch.finfo(torch.float32).max)
LOG2E = tl.constexpr(1.4426950408889634)
COLDEST = tl.constexpr(1e-30)  # so that 1 / temperature is finite


@triton.jit
def mix(x):
    """`minfer.sample.noise.mix`, on uint32."""
    x ^= x >> 16
    x *= 0x7FEB352D
    x ^= x >> 15
    x *= 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def below(word):
    """At most the `v` that the word stands for, and so at most -log(1 - v): its first 23 bits, put into a float without converting."""
    return ((word >> 9) | 0x3F800000).to(tl.float32, bitcast=True) - 1.0


@triton.jit
def arrival(word):
    """-log(1 - v), with v as in `minfer.sample.noise.log_arrivals`. It is exact for small v too: the rounding of u = 1 - v is taken
    back by v / (1 - u) (Goldberg, "What every computer scientist should know about floating-point arithmetic", 1991, theorem 4)."""
    v = tl.minimum((word.to(tl.float32) + 0.5) * 2.0**-32, 1 - 2.0**-24)
    u = 1 - v
    return tl.where(u == 1, v, -tl.log(u) * (v / tl.where(u == 1, 1.0, 1 - u)))


@triton.jit
def race(
    logits, temperature, seeds, positions, largest_of, time_of, token_of, vocab_size, slice_size, row_stride,
    TILE: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    part, row = tl.program_id(0), tl.program_id(1)
    low = part * slice_size
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    t = tl.load(temperature + row)
    seed = tl.load(seeds + row)
    key = mix(seed.to(tl.uint32) ^ 0x9E3779B9)
    key = mix(key ^ (seed >> 32).to(tl.uint32))
    key = mix(key ^ tl.load(positions + row).to(tl.uint32))
    scale = LOG2E / tl.maximum(t, COLDEST)
    logits += row.to(tl.int64) * row_stride
    column = tl.arange(0, TILE)

    largest, time, token = -LIMIT, float("inf"), low
    for start in range(low, tl.minimum(low + slice_size, vocab_size), TILE):
        ids = start + column
        x = tl.load(logits + ids, mask=ids < vocab_size, other=float("-inf")).to(tl.float32)
        if t > 0:
            word = mix(key ^ mix(ids.to(tl.uint32)))
            soonest = below(word) * tl.exp2((largest - x) * scale)
            if tl.min(soonest, 0) < time:
                top = tl.minimum(tl.maximum(tl.max(x, 0), largest), LIMIT)
                time *= tl.exp2((top - largest) * scale)
                largest = top
                first, place = tl.min(arrival(word) * tl.exp2(tl.maximum(top - x, 0.0) * scale), 0, return_indices=True)
                token = tl.where(first < time, start + place, token)
                time = tl.minimum(first, time)
        else:
            top = tl.max(x, 0)
            if top > largest:
                largest = top
                token = start + tl.argmax(x, 0)
    at = row * tl.num_programs(0) + part
    tl.store(largest_of + at, largest)
    tl.store(time_of + at, time)
    tl.store(token_of + at, token)


@triton.jit(do_not_specialize=["num_slices"])  # it changes with the batch, and must not make Triton compile the kernel anew
def pick(largest_of, time_of, token_of, temperature, ids, num_slices, SLICES: tl.constexpr, OVERLAP: tl.constexpr):
    row, part = tl.program_id(0), tl.arange(0, SLICES)
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    at, ok = row * num_slices + part, part < num_slices
    t = tl.load(temperature + row)
    largest = tl.load(largest_of + at, mask=ok, other=float("-inf"))
    if t > 0:
        later = tl.exp2((tl.max(largest, 0) - largest) / tl.maximum(t, COLDEST) * LOG2E)
        best = tl.argmin(tl.load(time_of + at, mask=ok, other=float("inf")) * later, 0)
    else:
        best = tl.argmax(largest, 0)
    best = tl.minimum(best, num_slices - 1)  # a row of NaN could choose one that is not there
    tl.store(ids + row, tl.load(token_of + row * num_slices + best).to(tl.int64))


def sample(logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    """See `minfer.parts.Sample` and `minfer.sample.torch.sample`, whose ids it gives, but for ties within rounding."""
    sampling = batch.sampling
    if sampling.any_filter or sampling.edits:
        return torch_sample.sample(logits, batch)
    S, V = logits.shape
    ids = torch.empty(S, dtype=torch.int64, device=logits.device)
    if not S:
        return ids
    tile = GREEDY_TILE if sampling.all_greedy else TILE
    tiles = triton.cdiv(V, tile)
    slice_size = triton.cdiv(tiles, min(tiles, triton.cdiv(PROGRAMS, S))) * tile
    slices = triton.cdiv(V, slice_size)
    kinds = (torch.float32, torch.float32, torch.int32)
    largest, time, token = (torch.empty(S, slices, dtype=dtype, device=logits.device) for dtype in kinds)
    race[(slices, S)](
        logits, sampling.temperature, sampling.seeds, sampling.positions, largest, time, token, V, slice_size, logits.stride(0),
        TILE=tile, num_warps=1, **overlap(logits.device, S),
    )  # fmt: skip
    pick[(S,)](
        largest, time, token, sampling.temperature, ids, slices,
        SLICES=triton.next_power_of_2(tiles), num_warps=1, **overlap(logits.device),
    )  # fmt: skip
    return ids
