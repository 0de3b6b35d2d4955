"""The sum over the ranks of a few kilobytes: each card writes its addend straight into the other cards' memory.

A collective library first agrees that all are ready, then moves, then agrees that all are done. Here every 8 bytes on their way are
4 bytes of the addend and 4 of the number of the call (NCCL's protocol for low latency, LL, works so): whoever finds the number has
the data, so nothing needs to be agreed on before or after, and the sum takes one way through NVLink.

Layouts
    x, out: any shape, contiguous, seen as W words of 4 bytes, each one float32 or two of a shorter type
    inbox [2, N, WORDS] int64, on every card: the words from each of the N ranks, by the call's parity
    inboxes [N] int64: the addresses of all ranks' inboxes, as this card reaches them
    calls [WORDS / BLOCK] int32: the number of calls so far, for each program

Grid: ceil(W / BLOCK) programs of one warp. A program's place in the inboxes is always the same, so each has a count of its own.

Two halves of the inbox are enough. A rank writes the words of call n when it has the words of call n - 1 from all others; a rank sent
those when it was done with call n - 2, and that was the last to read the half which is written now.

The addends are summed in float32 in the order of the ranks: every rank gets the same bits.

From: `group.py`, for sums that fit. To: the next norm.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from minfer.launch import overlap

needs = {"cuda", "triton"}

BLOCK = 128  # words of a program: four for each thread of a warp
WORDS = 2**14  # of the largest sum: 64 KiB
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
FOR_EVER = -1


@triton.jit(do_not_specialize=["W", "patience"])
def push(
    x, out, inbox, inboxes, calls, W, patience,
    RANK: tl.constexpr, N: tl.constexpr, WORDS: tl.constexpr, BLOCK: tl.constexpr, TYPE: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    word = program * BLOCK + tl.arange(0, BLOCK)
    ok = word < W
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    number = tl.load(calls + program) + 1
    number = tl.where(number == 0, 2, number)  # after 2^32 calls: 0 is what was never written
    half = (number & 1).to(tl.int64) * N * WORDS
    mine = tl.load(x + word, mask=ok, other=0)
    letter = (number.to(tl.int64) << 32) | (mine.to(tl.int64) & 0xFFFFFFFF)
    for rank in tl.static_range(N):
        if rank != RANK:
            theirs = tl.load(inboxes + rank).to(tl.pointer_type(tl.int64))
            tl.store(theirs + half + RANK * WORDS + word, letter, mask=ok)
    low = tl.zeros((BLOCK,), tl.float32)
    high = tl.zeros((BLOCK,), tl.float32)
    for rank in tl.static_range(N):
        got = letter
        if rank != RANK:
            at = inbox + half + rank * WORDS + word
            got = tl.load(at, mask=ok, other=0, volatile=True)
            tries = 0
            while (tl.max(tl.where(ok & ((got >> 32) != number), 1, 0), 0) == 1) & (tries != patience):
                got = tl.load(at, mask=ok, other=0, volatile=True)
                tries += 1
        data = got.to(tl.int32)
        if tl.float32 == TYPE:
            low += data.to(tl.float32, bitcast=True)
        else:
            low += data.to(tl.int16).to(TYPE, bitcast=True).to(tl.float32)
            high += (data >> 16).to(tl.int16).to(TYPE, bitcast=True).to(tl.float32)
    if tl.float32 == TYPE:
        total = low.to(tl.int32, bitcast=True)
    else:
        upper = high.to(TYPE).to(tl.int16, bitcast=True).to(tl.int32) << 16
        total = upper | (low.to(TYPE).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF)
    tl.store(out + word, total, mask=ok)
    tl.store(calls + program, number)


class Push:
    """One rank's end: its inbox, the others' addresses, and the count of calls.

    Args:
        inbox: [2, size, WORDS] int64, zero before any rank begins.
        addresses: of all ranks' inboxes, in the order of the ranks.
    """

    def __init__(self, rank: int, inbox: torch.Tensor, addresses: list[int]):
        self.rank, self.size, self.inbox = rank, len(addresses), inbox
        self.addresses = torch.tensor(addresses, dtype=torch.int64, device=inbox.device)
        self.calls = torch.zeros(WORDS // BLOCK, dtype=torch.int32, device=inbox.device)
        self.patience = FOR_EVER  # looks into the inbox

    def fits(self, x: torch.Tensor) -> bool:
        """Whether x is of a type and size that `sum` takes."""
        return x.dtype in DTYPES and x.is_contiguous() and x.nbytes % 4 == 0 and 0 < x.nbytes <= 4 * WORDS

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        """The sum over the ranks of x, which `fits` → the same shape and type. All ranks must call it, in the same order."""
        out = torch.empty_like(x)
        words = x.nbytes // 4
        push[(triton.cdiv(words, BLOCK),)](
            x.view(-1).view(torch.int32), out.view(-1).view(torch.int32), self.inbox, self.addresses, self.calls, words, self.patience,
            RANK=self.rank, N=self.size, WORDS=WORDS, BLOCK=BLOCK, TYPE=getattr(tl, str(x.dtype).removeprefix("torch.")),
            num_warps=1, **overlap(x.device, len(x)),
        )  # fmt: skip
        return out
