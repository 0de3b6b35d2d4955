"""Resident inputs whose device side is two Triton kernels in place of ten small ones.

Layouts
    tokens [T, 6] int64: id, row, position, rope_len, place, offset (see `message.py`), one row of the message a token
    block_tables [R + 1, M] int32, last_ids [R + 1], integers [2, R + 1] int64, reals [3, R + 1] float32 (see `rows.py`)
    out: token_ids and slots [T] int64, tables [B, M] int32, integers [2, S] int64, reals [3, S] float32

Grid of `enter`: one program, which writes the step's new blocks into the block tables. Grid of `look_up`: B + ceil(T / TOKENS)
programs. The first B copy a row's block table and, for a sampled token, its row's sampling parameters; the others take TOKENS tokens
each. They are two kernels since a program must see the blocks that another one has entered.

From: the scheduler's Plan. To: the runner's Batch.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from minfer.inputs.message import TOKEN
from minfer.inputs.resident import ResidentInputs
from minfer.launch import overlap
from minfer.types import Batch

needs = {"cuda", "triton"}

TOKENS = 128  # that a program looks up
COLUMNS = 256  # of a block table that a program copies at a time


@triton.jit
def enter(block_tables, places, blocks, count, SIZE: tl.constexpr, OVERLAP: tl.constexpr):
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    for start in range(0, count, SIZE):
        i = start + tl.arange(0, SIZE)
        ok = i < count
        place = tl.load(places + i, mask=ok, other=0)
        tl.store(block_tables + place, tl.load(blocks + i, mask=ok, other=0), mask=ok)


@triton.jit(do_not_specialize=["num_rows", "num_tokens", "num_samples", "size"])
def look_up(
    tokens, rows, sampled_rows, block_tables, last_ids, integers, reals, token_ids, slots, tables, out_integers, out_reals,
    num_rows, num_tokens, num_samples, size, width, block_size,
    FIELDS: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    if program < num_rows:
        row = tl.load(rows + program)
        for start in range(0, width, COLUMNS):
            column = start + tl.arange(0, COLUMNS)
            ok = column < width
            entries = tl.load(block_tables + row * width + column, mask=ok, other=0)
            tl.store(tables + program.to(tl.int64) * width + column, entries, mask=ok)
        if program < num_samples:
            sampled = tl.load(sampled_rows + program)
            for i in tl.static_range(2):
                tl.store(out_integers + i * num_samples + program, tl.load(integers + i * size + sampled))
            for i in tl.static_range(3):
                tl.store(out_reals + i * num_samples + program, tl.load(reals + i * size + sampled))
    else:
        token = (program - num_rows) * TOKENS + tl.arange(0, TOKENS)
        ok = token < num_tokens
        at = tokens + token.to(tl.int64) * FIELDS
        known = tl.load(at, mask=ok, other=0)
        last = tl.load(last_ids + tl.load(at + 1, mask=ok, other=0), mask=ok, other=0)
        tl.store(token_ids + token, tl.where(known < 0, last, known), mask=ok)
        block = tl.load(block_tables + tl.load(at + 4, mask=ok, other=0), mask=ok, other=0).to(tl.int64)
        tl.store(slots + token, block * block_size + tl.load(at + 5, mask=ok, other=0), mask=ok)


class FusedInputs(ResidentInputs):
    """ResidentInputs but for `expand`."""

    def expand(self, batch: Batch) -> Batch:
        rows, message = self.rows, self.message
        T, B, S = len(batch.token_ids), batch.num_seqs, len(batch.sample_at)
        options = overlap(self.device)
        long = {"dtype": torch.int64, "device": self.device}
        token_ids, slots, integers = torch.empty(T, **long), torch.empty(T, **long), torch.empty(2, S, **long)
        reals = torch.empty(3, S, device=self.device)
        tables = torch.empty(B, rows.width, dtype=torch.int32, device=self.device)
        enter[(1,)](
            rows.block_tables, message.at["new_places"], message.at["new_blocks"], rows.num_rows,
            SIZE=256, num_warps=4, **options,
        )  # fmt: skip
        look_up[(B + triton.cdiv(T, TOKENS),)](
            message.tokens, batch.rows, batch.sampled_rows, rows.block_tables, rows.last_ids, rows.integers, rows.reals,
            token_ids, slots, tables, integers, reals, B, T, S, rows.num_rows + 1, rows.width, self.block_size,
            FIELDS=len(TOKEN), TOKENS=TOKENS, COLUMNS=COLUMNS, num_warps=4, **options,
        )  # fmt: skip
        (seeds, top_k), (temperature, top_p, min_p) = integers, reals
        return replace(
            batch,
            token_ids=token_ids,
            positions=message.tokens[:T, 2],
            rope_lens=message.tokens[:T, 3],
            slots=slots,
            block_tables=tables,
            sampling=replace(batch.sampling, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seeds=seeds),
        )
