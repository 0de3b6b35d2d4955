"""The events of a stream, as bytes.

From: what is new of a call. To: `answers.py`, which sends them. The order is the OpenAI API's: of a chat first the role; then the text
in pieces, with finish_reason null; then finish_reason once for each choice; the usage, with no choices, where it was asked for; [DONE].

A server streams tens of thousands of these a second, so what is the same in all of them is made once, and only the text is encoded.
"""

from __future__ import annotations

import time
from json.encoder import encode_basestring_ascii as quoted

from minfer.serve.call import Call, News
from minfer.serve.convert import Prompt, only_scores
from minfer.serve.errors import ApiError
from minfer.serve.logprobs import (
    ChatLogprobs,
    CompletionLogprobs,
    Places,
    chat_logprobs,
    completion_logprobs,
    entries_of,
    prompt_logprobs,
)
from minfer.serve.protocol import ChatCompletionRequest, SamplingRequest
from minfer.serve.replies import as_json
from minfer.serve.responses import new_id, usage
from minfer.text.processor import Delta

DONE = b"data: [DONE]\n\n"


def error_event(error: ApiError) -> bytes:
    """What a stream that has begun says of an error."""
    return f"data: {as_json(error.body)}\n\n".encode()


class Chunks:
    """Makes the events of one call. `prompts` are the request's, for echo."""

    def __init__(self, request: SamplingRequest, call: Call, prompts: list[Prompt], tokenizer, model: str):
        self.request, self.call, self.prompts, self.tokenizer = request, call, prompts, tokenizer
        self.chat = isinstance(request, ChatCompletionRequest)
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        head = {"id": new_id(request), "object": kind, "created": int(time.time()), "model": model}
        self.head = f'data: {as_json(head)[:-1]},"choices":['
        self.tail = '],"usage":null}\n\n' if request.include_usage else "]}\n\n"
        self.before_text = "delta\":{\"content" if self.chat else "text"
        self.after_text = f'{"}" if self.chat else ""},"logprobs":null,"finish_reason":null}}{self.tail}'
        self.scores_only = only_scores(request)
        self.places: dict[int, Places] = {}  # by choice, of those that have begun: where the next token begins

    def of(self, news: News) -> bytes:
        """All that is new, as events."""
        events: list[str] = []
        for choice, delta in news.items():
            if choice not in self.places:
                self._begin(choice, events)
            if delta.logprobs is None and delta.finish_reason is None and not self.scores_only:
                events.append(f'{self.head}{{"index":{choice},"{self.before_text}":{quoted(delta.text)}{self.after_text}')
            elif not self.scores_only:
                events.append(self._event(choice, delta.text, self._logprobs(choice, delta), delta))
            elif delta.finish_reason is not None:
                events.append(self._event(choice, "", None, Delta(delta.index, "", 0, finish_reason="length")))
        return "".join(events).encode("ascii")

    def end(self) -> bytes:
        """What follows when all choices have ended."""
        if not self.request.include_usage:
            return DONE
        made = 0 if self.scores_only else self.call.num_tokens
        counts = usage(sum(self.call.prompt_lens), made, self.call.num_cached)
        return f'{self.head}],"usage":{counts.model_dump_json()}}}\n\n'.encode("ascii") + DONE

    def _begin(self, choice: int, events: list[str]) -> None:
        """What a choice opens with: of a chat the role, with echo the prompt."""
        start = 0
        if self.chat:
            role = {"index": choice, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
            events.append(f"{self.head}{as_json(role)}{self.tail}")
        elif self.request.echo:
            number = choice // self.call.params.n
            prompt, scores = self.prompts[number], self.call.prompt_logprobs.get(number)
            logprobs = None if scores is None else prompt_logprobs(prompt.ids, prompt.text, scores, self.tokenizer)
            events.append(self._event(choice, prompt.text, logprobs))
            start = len(prompt.text)
        self.places[choice] = Places(self.tokenizer, start, self.call.params.skip_special_tokens)

    def _logprobs(self, choice: int, delta: Delta) -> CompletionLogprobs | ChatLogprobs | None:
        if delta.logprobs is None:
            return None
        entries = entries_of(delta.logprobs)
        if self.chat:
            return chat_logprobs(entries, self.request.top_logprobs or 0, self.tokenizer)
        return completion_logprobs(entries, self.places[choice])

    def _event(self, choice: int, text: str, logprobs: CompletionLogprobs | ChatLogprobs | None, delta: Delta | None = None) -> str:
        content = {
            "index": choice,
            **({"delta": {"content": text}} if self.chat else {"text": text}),
            "logprobs": None if logprobs is None else logprobs.model_dump(),
            "finish_reason": None if delta is None else delta.finish_reason,
        }
        if delta is not None and delta.finish_reason is not None:
            content["stop_reason"] = delta.stop_reason
        return f"{self.head}{as_json(content)}{self.tail}"
