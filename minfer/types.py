"""The data that travels through the engine, in the order of one request's journey.

From: `engine.py` makes a Request into Sequences; the scheduler makes Plans of them.
To: the executor turns a Plan into a Batch of tensors and gives back what it sampled.
"""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from minfer.params import SamplingParams


@dataclass(frozen=True)
class Request:
    """What a caller asked for. It never changes."""

    request_id: str
    prompt_ids: tuple[int, ...]
    params: SamplingParams
    stop_ids: tuple[int, ...] = ()  # token ids that end a sequence: the model's EOS ids and params.stop_token_ids
    seed: int = 0
    priority: int = 0  # policy.priority: lower runs first
    user: str = ""  # policy.fair_share: whose share this counts against
    prompt: str | None = None
    cache_salt: int = 0  # requests with different salts never share prefix blocks
    arrival: float = field(default_factory=time.monotonic)


class Sampling(NamedTuple):
    """What sampling needs to know of one sequence. Built once, then passed along by reference."""

    params: SamplingParams
    seed: int  # the only source of randomness, together with the position
    stop_ids: tuple[int, ...]  # masked out while fewer than params.min_tokens are sampled
    num_prompt: int


class Status(enum.Enum):
    """The queue a sequence is in; it is always in exactly one."""

    HELD = "held"  # until an event: its parent's prompt is computed, or its pending token arrives
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(eq=False, slots=True)
class Sequence:
    """One completion of a request while it lives. Few facts are stored; the rest is derived."""

    seq_id: int
    request: Request
    index: int  # which of the request's n completions
    sampling: Sampling
    token_ids: list[int]
    num_prompt: int
    limit: int  # it ends when it has this many tokens
    parent: Sequence | None = None  # for index > 0: the sequence whose prompt blocks can be shared
    num_computed: int = 0  # tokens whose K/V are in the cache, or will be once the planned steps have run
    num_pending: int = 0  # tokens planned to be sampled whose values the host does not know yet
    block_table: list[int] = field(default_factory=list)
    num_sent_blocks: int = 0  # how much of block_table the executor knows
    host_blocks: list[int] = field(default_factory=list)  # preemption.swap: where the K/V wait in host memory
    row: int | None = None  # its place among the running sequences, 0 <= row < max_num_seqs
    status: Status = Status.WAITING
    rank: tuple = ()  # what the policy said when it was last queued; lower runs first
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    logprobs: list[dict[int, float]] = field(default_factory=list)  # one per output token, if asked for
    prompt_logprobs: list[dict[int, float] | None] = field(default_factory=list)
    num_cached: int = 0  # prompt tokens found in the cache at first admission
    num_preemptions: int = 0
    scheduled_at: float | None = None
    first_token_at: float | None = None
    finished_at: float | None = None

    @property
    def num_tokens(self) -> int:
        """Known tokens, prompt and output."""
        return len(self.token_ids)

    @property
    def num_output(self) -> int:
        return len(self.token_ids) - self.num_prompt

    @property
    def output_ids(self) -> list[int]:
        return self.token_ids[self.num_prompt :]

    @property
    def finished(self) -> bool:
        return self.status is Status.FINISHED

    @property
    def num_new(self) -> int:
        """Tokens, known or pending, that have yet to be computed."""
        return len(self.token_ids) + self.num_pending - self.num_computed


class Work(NamedTuple):
    """One sequence's share of a step. No tensors, so that it can be sent to another process."""

    seq_id: int
    row: int
    start: int  # position of the first new token == tokens already in the cache
    num_new: int
    token_ids: list[int] | tuple[()]  # the new tokens' ids as far as the host knows them: num_new of them, less the pending one
    new_blocks: list[int] | tuple[()]  # blocks appended to the row's block table since its last work
    samples: bool  # whether the last new token's logits are sampled
    sampling: Sampling
    history: list[int] | None = None  # all known token ids, only where penalties need them
    score_ids: list[int] | None = None  # prompt_logprobs: the tokens that follow the new ones, prompt only


class Copy(NamedTuple):
    """Move the K/V of one block, before the step's model runs."""

    kind: str  # "copy": device to device · "out": device to host · "in": host to device
    src: int
    dst: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One step: what to compute. The only thing that crosses processes."""

    step: int
    work: list[Work]  # works of one new token (decodes) first
    freed_rows: list[int] = field(default_factory=list)  # forget these rows before reading `work`
    copies: list[Copy] = field(default_factory=list)  # in this order


@dataclass(frozen=True, slots=True)
class SamplingTensors:
    """What `sample` needs, one entry per sampled row (S rows).

    A row with temperature 0 is greedy. The filters are neutral where off: top_k = vocabulary size, top_p = 1, min_p = 0.
    `positions` is the index, in its sequence, of the token to be sampled; with `seeds` it fixes the row's noise.
    """

    temperature: torch.Tensor  # [S] float32
    top_k: torch.Tensor  # [S] int64
    top_p: torch.Tensor  # [S] float32
    min_p: torch.Tensor  # [S] float32
    seeds: torch.Tensor  # [S] int64
    positions: torch.Tensor  # [S] int64
    all_greedy: bool  # no row needs noise
    any_filter: bool  # some row uses top_k, top_p or min_p
    edits: list[tuple[int, Sampling, list[int]]]  # (row, sampling, history): rows with penalties, bias or min_tokens to apply


class Bucket(NamedTuple):
    """The size to which padding fills up a batch, so that it can be recorded once and replayed."""

    rows: int
    tokens: int | None = None  # None: a decode step, one new token a row

    @property
    def num_tokens(self) -> int:
        return self.rows if self.tokens is None else self.tokens


@dataclass(frozen=True, slots=True)
class Batch:
    """One step as tensors. T new tokens of B sequences, of which S are sampled.

    Sequences of one new token come first (`num_decode` of them), then longer chunks. Padding rows have context 0; padding tokens
    come last, behind those of the last row, and what is computed for them does not matter.
    """

    token_ids: torch.Tensor  # [T] int64
    positions: torch.Tensor  # [T] int64
    slots: torch.Tensor  # [T] int64: block * block_size + offset, where the token's K/V are written
    query_start: torch.Tensor  # [B + 1] int32: sequence b's new tokens are query_start[b] : query_start[b + 1]
    context_lens: torch.Tensor  # [B] int32: tokens in the cache once this step's are written
    block_tables: torch.Tensor  # [B, M] int32, padded with block 0
    sample_at: torch.Tensor  # [S] int64: index among the T tokens
    rows: torch.Tensor  # [B] int64
    rope_lens: torch.Tensor  # [T] int64: max(prompt length, position + 1); dynamic RoPE scaling needs it
    num_decode: int
    max_query: int  # longest chunk
    max_context: int
    query_lens: list[int]  # the same as query_start, on the host: [B]
    contexts: list[int]  # the same as context_lens, on the host: [B]
    sampling: SamplingTensors
    num_logprobs: int = -1  # largest `logprobs` asked for by a sampled row; -1: none
    score_at: torch.Tensor | None = None  # [P] int64: tokens whose successors are scored (prompt_logprobs)
    score_ids: torch.Tensor | None = None  # [P] int64: those successors
    num_prompt_logprobs: int = -1
    sampled_rows: torch.Tensor | None = None  # [S] int64: the row of each sampled token, for inputs that keep tokens on the device
    recorded: bool = False  # of a step that is recorded: the host knows neither lengths nor num_decode
    decode_lens: torch.Tensor | None = None  # [B] int32, recorded mixed steps: context_lens of rows with one new token, else 0

    @property
    def num_seqs(self) -> int:
        return len(self.contexts)


class TopLogprobs(NamedTuple):
    """Log-probabilities of N tokens and of the k most likely ones beside each."""

    logprobs: torch.Tensor  # [N] float32, of the token itself
    top_ids: torch.Tensor  # [N, k] int64
    top_logprobs: torch.Tensor  # [N, k] float32


class StepResult(NamedTuple):
    """What a runner gives back, still on the device."""

    next_ids: torch.Tensor  # [S] int64
    logprobs: TopLogprobs | None = None  # of the S sampled tokens
    prompt_logprobs: TopLogprobs | None = None  # of the P scored tokens


class Sampled(NamedTuple):
    """What `Pending.wait` gives back, on the host."""

    next_ids: list[int]  # one per work that samples, in the plan's order
    logprobs: list[dict[int, float]] | None = None  # the sampled token first, then the likeliest, likeliest first
    prompt_logprobs: list[dict[int, float]] | None = None  # one per scored token, in the plan's order
