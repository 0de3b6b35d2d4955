"""From sequences to outputs: new token ids become text, stop strings are found, the caller's view is made.

From: the scheduler's commit, by way of the engine. To: the caller.
"""

from __future__ import annotations

from typing import NamedTuple

from minfer.outputs import CompletionOutput, Logprob, RequestMetrics, RequestOutput
from minfer.text.detokenize import Detokenizer, decode_token
from minfer.text.stop import StopStrings
from minfer.types import Request, Sequence


class Delta(NamedTuple):
    """What is new of one completion."""

    index: int
    text: str
    num_tokens: int
    logprobs: list[dict[int, Logprob]] | None = None  # of those tokens, where asked for
    finish_reason: str | None = None
    stop_reason: int | str | None = None


class CompletionText:
    """The text of one sequence, as far as it is safe to show."""

    def __init__(self, tokenizer, seq: Sequence):
        params = seq.sampling.params
        self.text = ""
        self.num_shown = 0  # characters that an earlier output or delta has held
        self.num_told = 0  # tokens that an earlier delta has held
        self.ended = False  # an earlier delta has said so
        self._seq = seq
        self._seen = 0
        self._detokenizer = Detokenizer(tokenizer, params.skip_special_tokens) if tokenizer is not None else None
        self._stops = StopStrings(params.stop, params.include_stop_str_in_output)

    def advance(self) -> str | None:
        """Take in the sequence's new tokens. Returns the stop string that ends it, if one does."""
        if self._detokenizer is None:
            return None
        params = self._seq.sampling.params
        new = self._seq.token_ids[self._seq.num_prompt + self._seen :]
        early = max(params.min_tokens - self._seen, 0)  # so many more tokens cannot complete a stop string
        self._seen += len(new)
        if self._seq.finish_reason == "stop" and not params.include_stop_str_in_output:
            new = new[:-1]  # the token that ended the sequence is no part of its text
        self.text += self._stops.feed(self._detokenizer.add(new[:early]), may_end=False)
        delta = self._detokenizer.add(new[early:])
        if self._seq.finished:
            delta += self._detokenizer.finish()
        if self._stops.matched is None:
            self.text += self._stops.feed(delta)
            if self._seq.finished and self._stops.matched is None:
                self.text += self._stops.flush()
        return self._stops.matched


class RequestState:
    """One live request: its sequences, their texts, and the outputs made of them."""

    def __init__(self, request: Request, seqs: list[Sequence], tokenizer, stream: bool):
        self.request = request
        self.seqs = seqs
        self.stream = stream  # whether every step is shown, or only the end
        self._tokenizer = tokenizer
        self._texts = {seq.seq_id: CompletionText(tokenizer, seq) for seq in seqs}

    @property
    def finished(self) -> bool:
        return all(seq.finished for seq in self.seqs)

    def looks_at(self, seq: Sequence) -> bool:
        """Whether somebody looks at its new tokens before it ends, or it has ended."""
        return self.stream or seq.finish_reason is not None or bool(seq.sampling.params.stop)

    def advance(self, seq: Sequence) -> str | None:
        """Take in a sequence's new tokens. Returns the stop string that ends it, if one does."""
        return self._texts[seq.seq_id].advance()

    def output(self) -> RequestOutput:
        """The caller's view now."""
        request = self.request
        return RequestOutput(
            request.request_id,
            request.prompt,
            list(request.prompt_ids),
            self.prompt_logprobs(),
            [self._completion(seq) for seq in self.seqs],
            self.finished,
            self.metrics(),
        )

    def prompt_logprobs(self) -> list[dict[int, Logprob] | None] | None:
        """Of the prompt's tokens so far; None where they were not asked for."""
        k = self.request.params.prompt_logprobs
        return None if k is None else [self._named(entry, k) for entry in self.seqs[0].prompt_logprobs]

    def deltas(self) -> list[Delta]:
        """What no earlier delta has held, for each completion of which there is something. Takes no longer for long outputs."""
        return [self._delta(seq) for seq in self.seqs if self._has_news(seq)]

    def _has_news(self, seq: Sequence) -> bool:
        shown = self._texts[seq.seq_id]
        return not shown.ended and (seq.finished or seq.num_output > shown.num_told)

    def _delta(self, seq: Sequence) -> Delta:
        shown = self._texts[seq.seq_id]
        text, shown.num_shown = shown.text[shown.num_shown :], len(shown.text)
        told, shown.num_told = shown.num_told, seq.num_output
        shown.ended = seq.finished
        k = seq.sampling.params.logprobs
        logprobs = None if k is None else [self._named(entry, k) for entry in seq.logprobs[told:]]
        return Delta(seq.index, text, shown.num_told - told, logprobs, seq.finish_reason, seq.stop_reason)

    def _completion(self, seq: Sequence) -> CompletionOutput:
        wanted = seq.sampling.params.logprobs is not None
        shown = self._texts[seq.seq_id]
        delta, shown.num_shown = shown.text[shown.num_shown :], len(shown.text)
        return CompletionOutput(
            seq.index,
            shown.text,
            seq.output_ids,
            sum(next(iter(entry.values())) for entry in seq.logprobs) if wanted else None,
            [self._named(entry, seq.sampling.params.logprobs) for entry in seq.logprobs] if wanted else None,
            seq.finish_reason,
            seq.stop_reason,
            delta,
        )

    def _named(self, entry: dict[int, float] | None, k: int) -> dict[int, Logprob] | None:
        """With ranks and texts. The token itself may stand beside the k likeliest: then its rank is unknown."""
        if entry is None:
            return None
        ranks = {token: rank for rank, token in enumerate(sorted(entry, key=lambda token: -entry[token]), start=1)}
        return {
            token: Logprob(
                value,
                ranks[token] if ranks[token] <= k else None,
                decode_token(self._tokenizer, token) if self._tokenizer is not None else None,
            )
            for token, value in entry.items()
        }

    def metrics(self) -> RequestMetrics:
        """When what happened."""
        seqs = self.seqs

        def earliest(name: str) -> float | None:
            return min((value for seq in seqs if (value := getattr(seq, name)) is not None), default=None)

        return RequestMetrics(
            self.request.arrival,
            earliest("scheduled_at"),
            earliest("first_token_at"),
            max(seq.finished_at for seq in seqs) if self.finished else None,
            sum(seq.num_preemptions for seq in seqs),
            seqs[0].num_cached,
        )
