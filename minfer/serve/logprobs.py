"""Log-probabilities in the forms that the API has for them: four lists for completions, one list of objects for chats.

From: the engine's log-probabilities of tokens. To: `responses.py`, for an answer as a whole, and `chunks.py`, for one in pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import BaseModel

from minfer.outputs import Logprob
from minfer.text.detokenize import REPLACEMENT, Detokenizer, decode_token, token_bytes

LEAST = -9999.0  # JSON has no minus infinity


class CompletionLogprobs(BaseModel):
    """Four lists, one entry a token; the first token of an echoed prompt has no probability."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]  # characters


class TokenLogprob(BaseModel):
    token: str
    logprob: float
    bytes: list[int]  # joined over the tokens of a text they are its UTF-8, also where a character is split over tokens


class ChosenLogprob(TokenLogprob):
    top_logprobs: list[TokenLogprob]


class ChatLogprobs(BaseModel):
    content: list[ChosenLogprob]


Entries = list[tuple[int, dict[int, Logprob] | None]]  # a token id, and what was likely in its place; it comes first itself


class Places:
    """Where the tokens of a text begin in it, given one after the other.

    Tokens that share a character have its place, and byte tokens in a row that of the first.

    Args:
        tokenizer: None where there is none, and no text either.
        start: the place of the first one.
    """

    def __init__(self, tokenizer, start: int = 0, skip_special_tokens: bool = True):
        self.next = start
        self._detokenizer = None if tokenizer is None else Detokenizer(tokenizer, skip_special_tokens)

    def of(self, token: int, text: str) -> int:
        """`text`: of the token alone; with U+FFFD it holds a part of a character."""
        place = self.next
        if self._detokenizer is not None:
            self.next += len(self._detokenizer.add([token]))
        return place if REPLACEMENT in text else max(place, self.next - len(text))

    def end(self) -> int:
        """Where the text ends."""
        return self.next + (len(self._detokenizer.finish()) if self._detokenizer is not None else 0)


def entries_of(logprobs: Iterable[dict[int, Logprob]]) -> Entries:
    """The engine's log-probabilities of output tokens."""
    return [(next(iter(entry)), entry) for entry in logprobs]


def token_text(token: int, text: str | None) -> str:
    """A token's name in a list of log-probabilities; where there is no tokenizer, its id."""
    return f"token_id:{token}" if text is None else text


def prompt_logprobs(ids: Sequence[int], text: str, scores: Sequence[dict[int, Logprob] | None], tokenizer) -> CompletionLogprobs:
    """Those of an echoed prompt. Special tokens that the tokenizer put before `text`, such as a BOS, have the place 0."""
    texts = [token_text(token, decode_token(tokenizer, token) if tokenizer is not None else None) for token in ids]
    places = Places(tokenizer, skip_special_tokens=False)
    offsets = [places.of(*pair) for pair in zip(ids, texts, strict=True)]
    added = max(places.end() - len(text), 0)
    return _four_lists(list(zip(ids, scores, strict=True)), texts, [max(offset - added, 0) for offset in offsets])


def completion_logprobs(entries: Entries, places: Places) -> CompletionLogprobs:
    """Those of an output's next tokens."""
    texts = [token_text(token, entry[token].decoded_token) for token, entry in entries]
    return _four_lists(entries, texts, [places.of(token, text) for (token, _), text in zip(entries, texts, strict=True)])


def chat_logprobs(entries: Entries, top: int, tokenizer) -> ChatLogprobs:
    """`top`: how many likeliest tokens stand beside each."""
    content = []
    for token, entry in entries:
        likeliest = sorted(entry.items(), key=lambda item: -item[1].logprob)[:top]
        others = [TokenLogprob(**_named(*item, tokenizer)) for item in likeliest]
        content.append(ChosenLogprob(**_named(token, entry[token], tokenizer), top_logprobs=others))
    return ChatLogprobs(content=content)


def finite(logprob: float) -> float:
    return max(logprob, LEAST)


def _four_lists(entries: Entries, texts: list[str], offsets: list[int]) -> CompletionLogprobs:
    return CompletionLogprobs(
        tokens=texts,
        token_logprobs=[None if entry is None else finite(entry[token].logprob) for token, entry in entries],
        top_logprobs=[None if entry is None else _by_text(entry) for _, entry in entries],
        text_offset=offsets,
    )


def _by_text(entry: dict[int, Logprob]) -> dict[str, float]:
    """Of tokens with the same text the first one counts: the token itself, then the likeliest."""
    found: dict[str, float] = {}
    for token, each in entry.items():
        found.setdefault(token_text(token, each.decoded_token), finite(each.logprob))
    return found


def _named(token: int, each: Logprob, tokenizer) -> dict:
    text = token_text(token, each.decoded_token)
    known = text.encode() if REPLACEMENT not in text or tokenizer is None else token_bytes(tokenizer, token)
    return {"token": text, "logprob": finite(each.logprob), "bytes": list(known)}
