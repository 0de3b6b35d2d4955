"""From finished outputs to a response of the API.

From: RequestOutputs of the engine, or of an LLM in the same process. To: JSON:

    response_of(request, outputs, llm.tokenizer, model="smollm2").model_dump(mode="json")
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel

from minfer.outputs import CompletionOutput, Logprob, RequestOutput
from minfer.serve.convert import decode, only_scores
from minfer.serve.protocol import ChatCompletionRequest, CompletionRequest, SamplingRequest
from minfer.text.detokenize import decode_token

LEAST = -9999.0  # JSON has no minus infinity


class CachedTokens(BaseModel):
    cached_tokens: int  # prompt tokens whose K/V were in the cache already


class Usage(BaseModel):
    """Counts of tokens; a prompt counts once, however many completions it has."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens


class CompletionLogprobs(BaseModel):
    """Four lists, one entry a token; the first token of an echoed prompt has no probability."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]  # characters


class CompletionChoice(BaseModel):
    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: str | None
    stop_reason: int | str | None = None  # the stop string or token that ended it


class CompletionResponse(BaseModel):
    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int  # Unix time
    model: str
    choices: list[CompletionChoice]
    usage: Usage


class TokenLogprob(BaseModel):
    token: str
    logprob: float
    bytes: list[int]  # of the token's text in UTF-8


class ChosenLogprob(TokenLogprob):
    top_logprobs: list[TokenLogprob]


class ChatLogprobs(BaseModel):
    content: list[ChosenLogprob]


class AnswerMessage(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str


class ChatChoice(BaseModel):
    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: str | None
    stop_reason: int | str | None = None


class ChatCompletionResponse(BaseModel):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


def response_of(
    request: SamplingRequest, outputs: Sequence[RequestOutput], tokenizer, model: str, response_id: str | None = None
) -> CompletionResponse | ChatCompletionResponse:
    """The whole answer. `outputs`: one for each prompt of the request, in order; choice i of prompt p has the index p * n + i."""
    response_id = response_id or new_id(request)
    head = {"id": response_id, "created": int(time.time()), "model": model}
    if isinstance(request, ChatCompletionRequest):
        choices = [_chat_choice(request, completion) for completion in outputs[0].outputs]
        return ChatCompletionResponse(**head, choices=choices, usage=usage_of(request, outputs))
    choices = []
    for output, text in zip(outputs, echoed(request, outputs, tokenizer), strict=True):
        scored = output.prompt_logprobs is not None
        scores = prompt_scores(output.prompt_token_ids, output.prompt_logprobs, tokenizer) if scored else ([], [])
        choices += [_choice(request, len(choices) + i, text, *scores, each) for i, each in enumerate(output.outputs)]
    return CompletionResponse(**head, choices=choices, usage=usage_of(request, outputs))


def new_id(request: SamplingRequest) -> str:
    """An id that no other response has."""
    return f"{'cmpl' if isinstance(request, CompletionRequest) else 'chatcmpl'}-{uuid.uuid4().hex}"


def usage_of(request: SamplingRequest, outputs: Iterable[RequestOutput]) -> Usage:
    """What the request has cost."""
    outputs = list(outputs)
    made = 0 if only_scores(request) else sum(len(each.token_ids) for output in outputs for each in output.outputs)
    return usage(sum(len(output.prompt_token_ids) for output in outputs), made, sum(output.num_cached_tokens for output in outputs))


def usage(prompt_tokens: int, completion_tokens: int, cached_tokens: int) -> Usage:
    details = CachedTokens(cached_tokens=cached_tokens)
    total = prompt_tokens + completion_tokens
    return Usage(
        prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, total_tokens=total, prompt_tokens_details=details
    )


def echoed(request: CompletionRequest, outputs: Sequence[RequestOutput], tokenizer) -> list[str]:
    """The prompts' texts, which open the choices of a request with echo: as sent, or decoded; "" without echo."""
    if not request.echo:
        return [""] * len(outputs)
    if isinstance(request.prompt, str):
        return [request.prompt]
    sent = request.prompt if isinstance(request.prompt[0], str) else [None] * len(outputs)
    return [
        text if text is not None else decode(tokenizer, output.prompt_token_ids) for text, output in zip(sent, outputs, strict=True)
    ]


Entries = list[tuple[int, dict[int, Logprob] | None]]  # a token id, and what was likely in its place; it comes first itself


def entries_of(logprobs: Iterable[dict[int, Logprob]]) -> Entries:
    """The engine's log-probabilities of output tokens."""
    return [(next(iter(entry)), entry) for entry in logprobs]


def prompt_scores(ids: Sequence[int], logprobs: Sequence[dict[int, Logprob] | None], tokenizer) -> tuple[Entries, list[str]]:
    """A prompt's tokens with their log-probabilities, and their texts."""
    texts = [token_text(token, decode_token(tokenizer, token) if tokenizer is not None else None) for token in ids]
    return list(zip(ids, logprobs, strict=True)), texts


def token_text(token: int, text: str | None) -> str:
    """A token's name in a list of log-probabilities; where there is no tokenizer, its id."""
    return f"token_id:{token}" if text is None else text


def completion_logprobs(entries: Entries, texts: Sequence[str] = (), offset: int = 0) -> CompletionLogprobs:
    """Four lists of one length.

    Args:
        texts: of the first tokens, whose entries may be None.
        offset: where the first token begins; each later one begins where the text of the one before it ends.
    """
    made = CompletionLogprobs(tokens=[], token_logprobs=[], top_logprobs=[], text_offset=[])
    for i, (token, entry) in enumerate(entries):
        text = texts[i] if i < len(texts) else token_text(token, entry[token].decoded_token)
        made.tokens.append(text)
        made.text_offset.append(offset)
        offset += len(text)
        made.token_logprobs.append(None if entry is None else finite(entry[token].logprob))
        made.top_logprobs.append(None if entry is None else _by_text(entry))
    return made


def chat_logprobs(entries: Entries, top: int) -> ChatLogprobs:
    """`top`: how many likeliest tokens stand beside each."""
    content = []
    for token, entry in entries:
        likeliest = sorted(entry.items(), key=lambda item: -item[1].logprob)[:top]
        others = [TokenLogprob(**_named(*item)) for item in likeliest]
        content.append(ChosenLogprob(**_named(token, entry[token]), top_logprobs=others))
    return ChatLogprobs(content=content)


def finite(logprob: float) -> float:
    return max(logprob, LEAST)


def _by_text(entry: dict[int, Logprob]) -> dict[str, float]:
    """Of tokens with the same text the first one counts: the token itself, then the likeliest."""
    found: dict[str, float] = {}
    for token, each in entry.items():
        found.setdefault(token_text(token, each.decoded_token), finite(each.logprob))
    return found


def _named(token: int, each: Logprob) -> dict:
    text = token_text(token, each.decoded_token)
    return {"token": text, "logprob": finite(each.logprob), "bytes": list(text.encode())}


def _choice(
    request: CompletionRequest, index: int, prompt: str, entries: Entries, texts: list[str], made: CompletionOutput
) -> CompletionChoice:
    dropped = only_scores(request)
    own = [] if dropped or made.logprobs is None else entries_of(made.logprobs)
    scores, more = completion_logprobs(entries, texts), completion_logprobs(own, offset=len(prompt))
    both = {name: getattr(scores, name) + getattr(more, name) for name in CompletionLogprobs.model_fields}
    return CompletionChoice(
        index=index,
        text=prompt if dropped else prompt + made.text,
        logprobs=CompletionLogprobs(**both) if request.logprobs is not None else None,
        finish_reason="length" if dropped else made.finish_reason,
        stop_reason=None if dropped else made.stop_reason,
    )


def _chat_choice(request: ChatCompletionRequest, made: CompletionOutput) -> ChatChoice:
    return ChatChoice(
        index=made.index,
        message=AnswerMessage(content=made.text),
        logprobs=chat_logprobs(entries_of(made.logprobs), request.top_logprobs or 0) if request.logprobs else None,
        finish_reason=made.finish_reason,
        stop_reason=made.stop_reason,
    )
