"""From a request of the API to what the engine takes: token ids and SamplingParams.

From: `protocol.py`. To: the engine, by way of `front.py`, or of an LLM in the same process:

    request = CompletionRequest.model_validate_json(body)
    outputs = llm.generate([prompt.ids for prompt in prompts_of(request, llm.tokenizer)], params_of(request))
"""

from __future__ import annotations

from typing import NamedTuple

from minfer.admission import prompt_ids_of
from minfer.errors import MinferError
from minfer.params import SamplingParams
from minfer.serve.errors import ApiError, bad_request
from minfer.serve.protocol import ChatCompletionRequest, CompletionRequest, DetokenizeRequest, SamplingRequest, TokenizeRequest
from minfer.text.chat import chat_prompt_ids

MOST_PROMPTS = 1024  # in one request

# fields that SamplingParams has under the same name; None stands for its own default
SAME = (
    "n", "temperature", "top_p", "presence_penalty", "frequency_penalty", "seed", "stop", "logit_bias", "top_k", "min_p",
    "repetition_penalty", "min_tokens", "ignore_eos", "stop_token_ids", "include_stop_str_in_output", "skip_special_tokens",
)  # fmt: skip


class Prompt(NamedTuple):
    """One prompt of a request."""

    ids: list[int]
    text: str  # what echo gives back: as it was sent, or decoded


def prompts_of(request: SamplingRequest, tokenizer) -> list[Prompt]:
    """A request's prompts in order; a chat has one. `tokenizer` may be None where all prompts are token ids.

    Raises:
        ApiError: a prompt is empty, or text where there is no tokenizer; the chat template refuses the messages.
    """
    if isinstance(request, ChatCompletionRequest):
        return [Prompt(_chat_ids(request, tokenizer), "")]
    if not isinstance(request, CompletionRequest):
        raise TypeError(f"{type(request).__name__} is no request for a completion")
    given = request.prompt
    single = isinstance(given, str) or (bool(given) and isinstance(given[0], int))
    prompts = [given] if single else given
    if not prompts:
        raise ApiError(400, "prompt is an empty list; give at least one text, or the token ids of one", param="prompt")
    if len(prompts) > MOST_PROMPTS:
        raise ApiError(400, f"prompt holds {len(prompts)} prompts, and a request may have {MOST_PROMPTS} at most", param="prompt")
    try:
        ids = [prompt_ids_of(prompt, tokenizer) for prompt in prompts]
    except MinferError as error:
        raise ApiError(400, str(error), param="prompt") from error
    texts = [prompt if isinstance(prompt, str) else decode(tokenizer, prompt) if request.echo else "" for prompt in prompts]
    return [Prompt(*pair) for pair in zip(ids, texts, strict=True)]


def params_of(request: SamplingRequest) -> SamplingParams:
    """How the request wants its tokens chosen.

    Raises:
        ApiError: a value is out of its limits; the message names both.
    """
    values = {name: value for name in SAME if (value := getattr(request, name)) is not None}
    if isinstance(request, ChatCompletionRequest):
        values["max_tokens"] = request.max_tokens if request.max_completion_tokens is None else request.max_completion_tokens
        if request.top_logprobs is not None and not request.logprobs:
            raise ApiError(400, "top_logprobs needs logprobs to be true", param="top_logprobs")
        values["logprobs"] = (request.top_logprobs or 0) if request.logprobs else None
    else:
        values["max_tokens"] = 1 if only_scores(request) else request.max_tokens
        values["logprobs"] = request.logprobs
        values["prompt_logprobs"] = request.logprobs if request.echo else None
    try:
        return SamplingParams(**values)
    except MinferError as error:
        raise ApiError(400, str(error), param=_named_first(str(error))) from error


def only_scores(request: SamplingRequest) -> bool:
    """max_tokens=0 with echo: the prompt's log-probabilities are wanted, and no text. The engine makes one token, which is dropped."""
    return isinstance(request, CompletionRequest) and bool(request.echo) and request.max_tokens == 0


def tokenize(request: TokenizeRequest, tokenizer) -> list[int]:
    """The ids of a text or a chat.

    Raises:
        ApiError: the model has no tokenizer, or the chat template refuses the messages.
    """
    if request.messages is not None:
        return _chat_ids(request, tokenizer)
    _need(tokenizer)
    try:
        request.prompt.encode()
    except UnicodeEncodeError as error:
        raise ApiError(400, f"prompt holds half of a surrogate pair at character {error.start}", param="prompt") from error
    return tokenizer.encode(request.prompt, add_special_tokens=request.add_special_tokens, verbose=False)


def detokenize(request: DetokenizeRequest, tokenizer) -> str:
    """The text of ids, special tokens included.

    Raises:
        ApiError: the model has no tokenizer, or an id is none of a model's.
    """
    _need(tokenizer)
    for token in request.tokens:
        if not 0 <= token < 2**31:
            raise ApiError(400, f"tokens holds {token}, which is no token id", param="tokens")
    return decode(tokenizer, request.tokens)


def decode(tokenizer, ids: list[int]) -> str:
    """Ids as text, special tokens included; "" where there is no tokenizer."""
    if tokenizer is None:
        return ""
    known = [token for token in ids if 0 <= token < 2**31 and tokenizer.convert_ids_to_tokens(token) is not None]
    return tokenizer.decode(known, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def _chat_ids(request: ChatCompletionRequest | TokenizeRequest, tokenizer) -> list[int]:
    _need(tokenizer)
    messages = [{"role": message.role, "content": message.text} for message in request.messages]
    try:
        return chat_prompt_ids(tokenizer, messages, getattr(request, "add_generation_prompt", True))
    except MinferError as error:
        raise ApiError(400, str(error), param="messages") from error


def _need(tokenizer) -> None:
    if tokenizer is None:
        raise bad_request(MinferError("the model's folder has no tokenizer; give token ids as the prompt of /v1/completions"))


def _named_first(message: str) -> str | None:
    """SamplingParams' messages begin with the name of what is wrong."""
    name = message.partition("=")[0].partition(" ")[0].partition("[")[0]
    return name if name.isidentifier() else None
