"""SamplingParams: how one request's tokens are chosen, and when it ends. vLLM's names and meanings.

From: the caller. To: `Request`, and inside it the scheduler (when to end) and `sample` (how to choose).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real

from minfer.errors import MinferError

MAX_N = 1024  # completions of one request; each is a sequence of its own
MAX_LOGPROBS = 20  # as vLLM and the OpenAI API limit it
MAX_BIAS = 100.0  # as the OpenAI API limits it
GREEDY_BELOW = 1e-5  # a lower temperature is taken as 0, as vLLM does: logits / temperature would leave float32
FLOAT_RANGE = 1e30  # factors and their inverses up to here are safe in float32


@dataclass(frozen=True)
class SamplingParams:
    """One request's sampling, checked when it is made. Frozen, hashable and picklable.

    Logits go through, in this order: logit_bias, min_tokens, the penalties, temperature, min_p, top_k, top_p.

    Args:
        n: completions per prompt.
        temperature: divides the logits; 0 (and anything below 1e-5) is greedy.
        top_k: only the k likeliest tokens, of equally likely ones the lowest ids; 0 or -1 is off; more than the vocabulary is the
            whole vocabulary; 1 is greedy.
        top_p: only the likeliest tokens that together have this probability, 0 < top_p <= 1; 1 is off.
        min_p: only tokens at least this share as likely as the likeliest, 0 <= min_p <= 1; 0 is off.
        repetition_penalty: logits of tokens in prompt or output are divided by it (multiplied if negative); 1 is off.
        presence_penalty: taken from the logits of tokens in the output, -2 to 2; 0 is off.
        frequency_penalty: the same, once per occurrence.
        seed: fixes the result, 64-bit signed; None: the engine's.
        max_tokens: output tokens at most; None: up to the model's length.
        min_tokens: output tokens before the sequence may end by a stop token or a stop string. A stop string that is complete within
            them is text like any other; one that begins in them and is complete after them ends the output, and is cut off whole.
        stop: strings that end the output; given as one string or several, kept as a tuple.
        stop_token_ids: token ids that end the output.
        ignore_eos: go on after the model's end-of-sequence tokens.
        logprobs: log-probabilities of the sampled token and of so many likeliest, 0 to 20; None: none.
        prompt_logprobs: the same for the prompt's tokens.
        logit_bias: token id to a number from -100 to 100 that is added to its logit; given as a mapping (its keys may be
            numeric strings), kept as a tuple of pairs sorted by id.
        skip_special_tokens: leave special tokens out of the text.
        include_stop_str_in_output: keep the stop string at the end of the text.

    Raises:
        MinferError: a value is of the wrong type or out of its limits; the message names both.
    """

    n: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    max_tokens: int | None = 16
    min_tokens: int = 0
    stop: str | Iterable[str] | None = ()
    stop_token_ids: Iterable[int] | None = ()
    ignore_eos: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logit_bias: Mapping[int | str, float] | Iterable[tuple[int, float]] | None = ()
    skip_special_tokens: bool = True
    include_stop_str_in_output: bool = False

    def __post_init__(self) -> None:
        check = {
            "n": _integer("n", self.n, 1, MAX_N),
            "temperature": _number("temperature", self.temperature, 0, FLOAT_RANGE, "0 is greedy"),
            "top_k": _integer("top_k", self.top_k, -1, hint="0 or -1 turns it off"),
            "top_p": _number("top_p", self.top_p, 0, 1, "1 turns it off; for the likeliest token only, use temperature=0"),
            "min_p": _number("min_p", self.min_p, 0, 1, "0 turns it off"),
            "repetition_penalty": _number(
                "repetition_penalty", self.repetition_penalty, 1 / FLOAT_RANGE, FLOAT_RANGE, "1 turns it off"
            ),
            "presence_penalty": _number("presence_penalty", self.presence_penalty, -2, 2, "0 turns it off"),
            "frequency_penalty": _number("frequency_penalty", self.frequency_penalty, -2, 2, "0 turns it off"),
            "seed": _optional("seed", self.seed, -(2**63), 2**63 - 1),
            "max_tokens": _optional("max_tokens", self.max_tokens, 1, hint="None: up to the model's length"),
            "min_tokens": _integer("min_tokens", self.min_tokens, 0),
            "stop": _stop_strings(self.stop),
            "stop_token_ids": _token_ids(self.stop_token_ids),
            "ignore_eos": _flag("ignore_eos", self.ignore_eos),
            "logprobs": _optional("logprobs", self.logprobs, 0, MAX_LOGPROBS, "-1 for the whole vocabulary is not offered"),
            "prompt_logprobs": _optional(
                "prompt_logprobs", self.prompt_logprobs, 0, MAX_LOGPROBS, "-1 for the whole vocabulary is not offered"
            ),
            "logit_bias": _bias(self.logit_bias),
            "skip_special_tokens": _flag("skip_special_tokens", self.skip_special_tokens),
            "include_stop_str_in_output": _flag("include_stop_str_in_output", self.include_stop_str_in_output),
        }
        if check["top_p"] == 0:
            raise MinferError("top_p=0 keeps no token at all; it must be above 0 and at most 1. For greedy, use temperature=0")
        if check["max_tokens"] is not None and check["min_tokens"] > check["max_tokens"]:
            raise MinferError(f"min_tokens={self.min_tokens} is more than max_tokens={self.max_tokens}; lower the first")
        for name, value in check.items():
            object.__setattr__(self, name, value)

    @property
    def greedy(self) -> bool:
        """Always the likeliest token: no randomness is needed."""
        return self.temperature < GREEDY_BELOW or self.top_k == 1

    @functools.cached_property
    def needs_history(self) -> bool:
        """Some penalty is on, so that sampling must know the earlier tokens."""
        return self.repetition_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0

    @property
    def edits_logits(self) -> bool:
        """Something changes the logits themselves, for greedy rows too."""
        return self.needs_history or bool(self.logit_bias) or self.min_tokens > 0


def _refuse(name: str, value: object, must: str, hint: str = "") -> MinferError:
    return MinferError(f"{name}={value!r} must be {must}{'; ' + hint if hint else ''}")


def _integer(name: str, value: object, low: int, high: int | None = None, hint: str = "") -> int:
    must = f"an integer, at least {low}" if high is None else f"an integer from {low} to {high}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise _refuse(name, value, must, hint)
    if value < low or (high is not None and value > high):
        raise _refuse(name, value, must, hint)
    return int(value)


def _optional(name: str, value: object, low: int, high: int | None = None, hint: str = "") -> int | None:
    return None if value is None else _integer(name, value, low, high, hint)


def _number(name: str, value: object, low: float, high: float, hint: str = "") -> float:
    must = f"a number from {low:g} to {high:g}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _refuse(name, value, must, hint)
    if not low <= value <= high:  # NaN and the infinities fail this too
        raise _refuse(name, value, must, hint)
    return float(value)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _refuse(name, value, "True or False")
    return value


def _stop_strings(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    stops = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (value,)
    for stop in stops:
        if not isinstance(stop, str):
            raise _refuse("stop", value, "a string or several strings")
        if not stop:
            raise MinferError("stop holds an empty string, which would end every output at once; leave it out")
    return stops


def _token_ids(value: object) -> tuple[int, ...]:
    if value is None:
        return ()
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise _refuse("stop_token_ids", value, "a list of token ids")
    return tuple(_integer("stop_token_ids", token, 0) for token in value)


def _bias(value: object) -> tuple[tuple[int, float], ...]:
    if value is None:
        return ()
    if isinstance(value, str | bytes) or not isinstance(value, Mapping | Iterable):
        raise _refuse("logit_bias", value, "a mapping from token id to a number")
    bias: dict[int, float] = {}
    for pair in value.items() if isinstance(value, Mapping) else value:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise _refuse("logit_bias", value, "a mapping from token id to a number")
        token, amount = pair
        if isinstance(token, str) and len(token) < 20 and token.isascii() and token.isdigit():  # Python reads no thousands of digits
            token = int(token)
        token = _integer("logit_bias token id", token, 0)
        if token in bias:
            raise MinferError(f"logit_bias names token id {token} twice; once as a number and once as a string?")
        bias[token] = _number(f"logit_bias[{token}]", amount, -MAX_BIAS, MAX_BIAS)
    return tuple(sorted(bias.items()))
