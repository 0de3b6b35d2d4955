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

from minfer.outputs import CompletionOutput, RequestOutput
from minfer.serve.convert import decode, only_scores
from minfer.serve.logprobs import (
    ChatLogprobs,
    CompletionLogprobs,
    Places,
    chat_logprobs,
    completion_logprobs,
    entries_of,
    prompt_logprobs,
)
from minfer.serve.protocol import ChatCompletionRequest, CompletionRequest, SamplingRequest


class CachedTokens(BaseModel):
    cached_tokens: int  # prompt tokens whose K/V were in the cache already


class Usage(BaseModel):
    """Counts of tokens; a prompt counts once, however many completions it has."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens


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
        choices = [_chat_choice(request, completion, tokenizer) for completion in outputs[0].outputs]
        return ChatCompletionResponse(**head, choices=choices, usage=usage_of(request, outputs))
    choices = []
    for output, text in zip(outputs, echoed(request, outputs, tokenizer), strict=True):
        ids, found = output.prompt_token_ids, output.prompt_logprobs
        scores = None if found is None else prompt_logprobs(ids, text, found, tokenizer)
        choices += [_choice(request, len(choices) + i, text, scores, each, tokenizer) for i, each in enumerate(output.outputs)]
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


def _choice(
    request: CompletionRequest, index: int, prompt: str, scores: CompletionLogprobs | None, made: CompletionOutput, tokenizer
) -> CompletionChoice:
    dropped = only_scores(request)
    own = [] if dropped or made.logprobs is None else entries_of(made.logprobs)
    found = completion_logprobs(own, Places(tokenizer, len(prompt), request.skip_special_tokens is not False))
    if scores is not None:
        found = CompletionLogprobs(**{name: getattr(scores, name) + getattr(found, name) for name in CompletionLogprobs.model_fields})
    return CompletionChoice(
        index=index,
        text=prompt if dropped else prompt + made.text,
        logprobs=found if request.logprobs is not None else None,
        finish_reason="length" if dropped else made.finish_reason,
        stop_reason=None if dropped else made.stop_reason,
    )


def _chat_choice(request: ChatCompletionRequest, made: CompletionOutput, tokenizer) -> ChatChoice:
    return ChatChoice(
        index=made.index,
        message=AnswerMessage(content=made.text),
        logprobs=chat_logprobs(entries_of(made.logprobs), request.top_logprobs or 0, tokenizer) if request.logprobs else None,
        finish_reason=made.finish_reason,
        stop_reason=made.stop_reason,
    )
