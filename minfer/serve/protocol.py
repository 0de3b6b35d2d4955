"""What may be asked of the server, as pydantic models: completions, chat completions, and the tokenizer.

From: the JSON of a request. To: `convert.py`. Names and meanings are the OpenAI API's; those that it does not have are vLLM's. Types
are checked here, and strictly: "5" is no number. 4.0 is a whole one, as JSON has it, except for token ids. Limits are checked by
SamplingParams, whose messages name them.

Fields that are not listed are ignored, except those that would change the answer: these are refused unless they ask for nothing.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

# field → the values with which it asks for nothing
NOT_OFFERED: dict[str, tuple] = {
    "allowed_token_ids": (None, []),
    "audio": (None,),
    "bad_words": (None, []),
    "best_of": (None, 1),
    "chat_template": (None,),
    "chat_template_kwargs": (None, {}),
    "continue_final_message": (None, False),
    "documents": (None, []),
    "echo": (None, False),  # of a chat
    "function_call": (None, "none", "auto"),
    "functions": (None, []),
    "guided_choice": (None, []),
    "guided_grammar": (None,),
    "guided_json": (None,),
    "guided_regex": (None,),
    "modalities": (None, ["text"]),
    "prediction": (None,),
    "prompt_embeds": (None,),
    "prompt_logprobs": (None,),
    "response_format": (None, {"type": "text"}),
    "structured_outputs": (None,),
    "suffix": (None, ""),
    "tool_choice": (None, "none", "auto"),
    "tools": (None, []),
    "truncate_prompt_tokens": (None,),
    "use_beam_search": (None, False),
    "web_search_options": (None,),
}
MOST_STOPS = 64
MOST_TOKENS = 1024  # named in logit_bias or stop_token_ids


def whole_number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(whole_number)]
Ids = Annotated[list[int], Field(fail_fast=True)]
Texts = Annotated[list[str], Field(fail_fast=True)]


class StreamOptions(BaseModel):
    """include_usage: one more event at the end, with the number of tokens and no choices."""

    model_config = ConfigDict(strict=True)

    include_usage: bool | None = False


class SamplingRequest(BaseModel):
    """What both kinds of completion have in common; see `minfer.SamplingParams` for what each does and its limits."""

    model_config = ConfigDict(strict=True, extra="allow")

    model: str | None = None  # None: the one that is served
    n: Whole | None = 1
    temperature: float | None = 1.0
    top_p: float | None = 1.0
    presence_penalty: float | None = 0.0
    frequency_penalty: float | None = 0.0
    seed: Whole | None = None
    stop: str | Annotated[Texts, Field(max_length=MOST_STOPS)] | None = None
    logit_bias: Annotated[dict[str, float], Field(max_length=MOST_TOKENS)] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    user: str | None = None
    # not of the OpenAI API
    top_k: Whole | None = 0
    min_p: float | None = 0.0
    repetition_penalty: float | None = 1.0
    min_tokens: Whole | None = 0
    ignore_eos: bool | None = False
    stop_token_ids: Annotated[Ids, Field(max_length=MOST_TOKENS)] | None = None
    include_stop_str_in_output: bool | None = False
    skip_special_tokens: bool | None = True
    priority: Whole | None = 0  # the part policy.priority: the lowest runs first

    @model_validator(mode="after")
    def refuse_what_is_not_offered(self) -> SamplingRequest:
        for name, value in (self.model_extra or {}).items():
            if name in NOT_OFFERED and not _is_one_of(value, NOT_OFFERED[name]):
                raise ValueError(f"{name} is not offered by this server; leave it out")
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options is for streams; set stream to true, or leave it out")
        return self

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)


class CompletionRequest(SamplingRequest):
    """POST /v1/completions."""

    prompt: str | Texts | Ids | Annotated[list[Ids], Field(fail_fast=True)]
    max_tokens: Whole | None = 16  # 0 with echo: score the prompt, generate nothing
    logprobs: Whole | None = None
    echo: bool | None = False


class TextPart(BaseModel):
    """A piece of a message's content. Only text is offered."""

    model_config = ConfigDict(strict=True)

    type: str
    text: str

    @field_validator("type")
    @classmethod
    def only_text(cls, kind: str) -> str:
        if kind != "text":
            raise ValueError(f"a content part of type {kind!r} is not offered; this server reads text only")
        return kind


class ChatMessage(BaseModel):
    """role: often "system", "user" or "assistant"; the model's chat template decides."""

    model_config = ConfigDict(strict=True)

    role: str
    content: str | list[TextPart]

    @model_validator(mode="before")
    @classmethod
    def no_calls(cls, message: Any) -> Any:
        if isinstance(message, dict) and message.get("tool_calls"):
            raise ValueError("tool_calls in a message are not offered; this server reads text only")
        return message

    @property
    def text(self) -> str:
        """Text parts are joined by line ends."""
        return self.content if isinstance(self.content, str) else "\n".join(part.text for part in self.content)


class ChatCompletionRequest(SamplingRequest):
    """POST /v1/chat/completions."""

    messages: list[ChatMessage]
    max_tokens: Whole | None = None  # the older name
    max_completion_tokens: Whole | None = None
    logprobs: bool | None = False
    top_logprobs: Whole | None = None
    add_generation_prompt: bool = True


class TokenizeRequest(BaseModel):
    """POST /tokenize: a text, or the messages of a chat."""

    model_config = ConfigDict(strict=True)

    model: str | None = None
    prompt: str | None = None
    messages: list[ChatMessage] | None = None
    add_special_tokens: bool = True  # to a text; a chat's template decides by itself

    @model_validator(mode="after")
    def one_of_both(self) -> TokenizeRequest:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("give either prompt or messages")
        return self


class DetokenizeRequest(BaseModel):
    """POST /detokenize."""

    model_config = ConfigDict(strict=True)

    model: str | None = None
    tokens: Ids


def _is_one_of(value: Any, neutral: tuple) -> bool:
    """Equal and of the same type: 1 is not True."""
    return any(type(value) is type(each) and value == each for each in neutral)
