"""What the caller gets. The shape is vLLM's: RequestOutput.outputs[i].text, .token_ids, .finish_reason, .logprobs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Logprob:
    """Log-probability of one token, of the model's raw logits (before penalties, temperature and filters)."""

    logprob: float
    rank: int | None  # 1 is the likeliest
    decoded_token: str | None


@dataclass(frozen=True, slots=True)
class RequestMetrics:
    """Times in seconds on `time.monotonic`'s clock; None for what has not happened."""

    arrival_time: float
    first_scheduled_time: float | None
    first_token_time: float | None
    finished_time: float | None
    num_preemptions: int
    num_cached_tokens: int

    @property
    def time_to_first_token(self) -> float | None:
        return None if self.first_token_time is None else self.first_token_time - self.arrival_time


@dataclass(frozen=True, slots=True)
class CompletionOutput:
    """One of a request's n completions. finish_reason: "stop", "length", "abort", or None while it runs."""

    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: float | None
    logprobs: list[dict[int, Logprob]] | None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    delta: str = ""  # the end of `text` that the request's previous output did not have


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """A request's state after a step; final once `finished`."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    prompt_logprobs: list[dict[int, Logprob] | None] | None
    outputs: list[CompletionOutput]
    finished: bool
    metrics: RequestMetrics

    @property
    def num_cached_tokens(self) -> int:
        return self.metrics.num_cached_tokens
