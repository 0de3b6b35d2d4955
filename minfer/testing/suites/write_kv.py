"""Slot `write_kv`: q and k are normalised where the model wants it and rotated; k and v go into their slots, and nowhere else."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st

from minfer.parts import KV
from minfer.testing import reference
from minfer.testing.batches import FAR, LAYOUTS, make_cache
from minfer.testing.properties import Case, Place, Property, again, device_of, dtype_of, expect, expect_tensor, untouched

HEADS = [[1, 1], [2, 1], [4, 2], [9, 3], [7, 1], [8, 8], [3, 3]]  # query heads, K/V heads
EPS = 1e-5


def cases(place: Place, **fixed: Any) -> st.SearchStrategy[Case]:
    drawn = {
        "tokens": st.integers(1, 9),
        "heads": st.sampled_from(HEADS),
        "head_dim": st.sampled_from([8, 4, 24, 64, 80, 96, 128] if place.device == "cpu" else [16, 64, 80, 96, 128]),
        "block_size": st.sampled_from([4, 1, 3, 16]),
        "normed": st.booleans(),  # q and k have norms of their own
        "layout": st.sampled_from(LAYOUTS),
        "dtype": st.sampled_from(place.dtypes),
        "seed": st.integers(0, 99),
    }
    constant = {**fixed, **place.where}
    return st.fixed_dictionaries({**drawn, **{name: st.just(value) for name, value in constant.items()}})


def build(case: Case) -> tuple[tuple, KV, torch.Tensor]:
    """((q, k, v, cos, sin, q_norm, k_norm), an empty cache, slots): q, k and v are views of one product, as in the model."""
    random = torch.Generator().manual_seed(case["seed"])
    device, dtype = device_of(case), dtype_of(case)
    (Hq, Hkv), T, D, size = case["heads"], case["tokens"], case["head_dim"], case["block_size"]
    qkv = torch.randn(T, Hq + 2 * Hkv, D, generator=random).to(device, dtype)
    angles = (torch.rand(T, D // 2, generator=random) * 6.28).to(device)
    norms = [(torch.rand(D, generator=random) + 0.5).to(device, dtype) if case["normed"] else None for _ in range(2)]
    num_blocks = -(-T // size) + 2
    slots = (torch.randperm((num_blocks - 1) * size, generator=random)[:T] + size).to(device)  # block 0 is for padding
    kv = make_cache(num_blocks, size, Hkv, D, dtype, case["layout"], device)
    return (*qkv.split((Hq, Hkv, Hkv), dim=1), angles.cos(), angles.sin(), *norms), kv, slots


def run(part: Any, case: Case) -> tuple[torch.Tensor, torch.Tensor, KV, KV, torch.Tensor, torch.Tensor]:
    """→ the part's q and the reference's, the two caches, v, and the slots as (block, offset), [T, 2]."""
    (q, k, v, cos, sin, q_norm, k_norm), kv, slots = build(case)
    wide = tuple(cache.double().cpu() for cache in kv)
    expected = reference.write_kv(q, k, v, cos, sin, wide, slots, q_norm, k_norm, EPS)
    values = v.clone()
    with untouched(cos=cos, sin=sin, slots=slots, q_norm=q_norm, k_norm=k_norm):
        out = part(q, k, v, cos, sin, kv, slots, q_norm, k_norm, EPS)
    expect_tensor(out, q, "the rotated q")
    return out, expected, kv, wide, values, torch.stack((slots // case["block_size"], slots % case["block_size"]), dim=1).cpu()


def check_rotated(part: Any, case: Case) -> None:
    out, expected, *_ = run(part, case)
    reference.assert_close(out, expected, slack=2, place=lambda at: f"token {at[0]}, query head {at[1]}, dimension {at[2]}")


def check_written(part: Any, case: Case) -> None:
    """K to within rounding, V as it is."""
    *_, kv, wide, v, places = run(part, case)
    block, offset = places.unbind(1)

    def locate(at: tuple[int, int, int]) -> str:
        return f"token {at[0]} (block {block[at[0]]}, offset {offset[at[0]]}), K/V head {at[1]}, dimension {at[2]}"

    keys, values = (cache.cpu()[block, offset] for cache in kv)
    reference.assert_close(keys, wide[0][block, offset], slack=2, place=lambda at: f"K of {locate(at)}")
    reference.assert_close(values, v.double(), slack=0, place=lambda at: f"V of {locate(at)}")


def check_others(part: Any, case: Case) -> None:
    """The cache was full of NaN: what is a number now was written."""
    *_, kv, _, _, places = run(part, case)
    wanted = {tuple(place) for place in places.tolist()}
    for cache, name in zip(kv, "KV", strict=True):
        found = {tuple(place) for place in (~cache.isnan()).any(-1).any(-1).nonzero().tolist()}
        expect(found <= wanted, f"{name} in the slots {sorted(wanted)} only, as (block, offset)", f"{sorted(found - wanted)} as well")


def check_padding(part: Any, case: Case) -> None:
    """All tokens but the first are padding and write to slot 0, in any order."""
    (q, k, v, cos, sin, q_norm, k_norm), kv, slots = build(case)
    slots[1:] = 0
    wide = tuple(cache.double().cpu() for cache in kv)
    reference.write_kv(q, k, v, cos, sin, wide, slots, q_norm, k_norm, EPS)
    with untouched(slots=slots):
        part(q, k, v, cos, sin, kv, slots, q_norm, k_norm, EPS)
    for cache, expected, name in zip(kv, wide, "KV", strict=True):
        cache, expected = cache[1:].cpu(), expected[1:]
        reference.assert_close(cache.nan_to_num(9.0), expected.nan_to_num(9.0), 2, lambda at, name=name: f"{name}, block {at[0] + 1}")
        expect(torch.equal(cache.isnan(), expected.isnan()), f"{name} in one slot besides the padding block", "others")


def vary(case: Case, place: Place) -> dict[str, dict[Any, Case]]:
    return {
        "heads (query, K/V)": {str(heads): {**case, "heads": heads} for heads in HEADS},
        "head_dim": {size: {**case, "head_dim": size} for size in (64, 80, 96, 128)},
        "block_size": {size: {**case, "block_size": size} for size in (1, 3, 4, 16)},
        "tokens": {tokens: {**case, "tokens": tokens} for tokens in (1, 2, 5, 9)},
        "q/k norm": {normed: {**case, "normed": normed} for normed in (False, True)},
        "layout of the cache": {layout: {**case, "layout": layout} for layout in dict.fromkeys((*LAYOUTS, case["layout"]))},
        "dtype": {dtype: {**case, "dtype": dtype} for dtype in place.dtypes},
    }


PROPERTIES = [
    Property(
        "rotated",
        "The result is q, normalised per head if there is a q_norm, its first half rotated against its second by the token's angles.",
        cases,
        check_rotated,
        60,
        vary,
    ),
    Property(
        "written",
        "Each token's slot holds its k, normalised and rotated like q, and its v just as it came.",
        cases,
        check_written,
        60,
        vary,
    ),
    Property(
        "large-cache",
        "A cache may have more than 2³¹ elements: where a block begins is a number of 64 bits.",
        lambda place: cases(place, dtype="float16", layout=FAR),
        check_written,
        12,
        vary,
    ),
    Property("others", "No slot but those of the tokens is written.", cases, check_others, 30, vary),
    Property("padding", "Padding tokens may all write to slot 0, and touch nothing else.", cases, check_padding, 20, vary),
    again(cases, check_rotated),
]
