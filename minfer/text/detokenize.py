"""From token ids to text, piece by piece, each piece final.

From: the ids that a step sampled. To: `text/stop.py`, which looks for stop strings, and then the caller.

Decoding token by token is wrong in three ways: a character may be split over several tokens; SentencePiece writes a space as a
part of the next token and drops the first one; and a tokenizer with byte fallback decides about a whole run of byte tokens at
once. So a `Detokenizer` decodes a short window of the latest tokens and gives out what later tokens cannot change.
"""

from __future__ import annotations

import codecs
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

REPLACEMENT = "\ufffd"  # what decoders write for bytes that are no character, or not yet one
WINDOW = 16  # tokens decoded at once, at most, outside a run of byte tokens
OVERLAP = 4  # tokens kept as context: a character has at most 4 bytes, and a token at least one


@dataclass(frozen=True, slots=True)
class _Special:
    """What a detokenizer must know of a tokenizer's vocabulary."""

    skipped: frozenset[int]  # ids that skip_special_tokens leaves out
    bytes: dict[int, bytes]  # byte-fallback tokens: the byte that each one stands for


_tables: WeakKeyDictionary[PreTrainedTokenizerBase, _Special] = WeakKeyDictionary()


class Detokenizer:
    """One sequence's text while it grows.

    Everything that `add` and `finish` return, joined, is `tokenizer.decode(all ids, skip_special_tokens=...,
    clean_up_tokenization_spaces=False)`. Ids unknown to the tokenizer (a model's vocabulary may be padded) have no text.

    What is held back: with byte-level tokenizers one unfinished character at most. With byte fallback, a run of byte tokens
    until another token ends it or it stops being UTF-8, since one bad byte turns the whole run into U+FFFD.

    Each token is decoded a bounded number of times: a few microseconds a token, however long the output.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, skip_special_tokens: bool = True):
        self._tokenizer = tokenizer
        self._special = _special(tokenizer)
        self._skipped = self._special.skipped if skip_special_tokens else frozenset()
        self._window: list[int] = []  # the latest tokens that have text
        self._given = 0  # characters of the window's text that are given out
        self._run: codecs.IncrementalDecoder | None = None  # checks the run of byte tokens at the window's end
        self._run_is_broken = False  # that run holds bytes that are not UTF-8

    def add(self, ids: Iterable[int]) -> str:
        """Take the next tokens; return the text that is now sure."""
        return "".join([self._add(token) for token in ids])

    def finish(self) -> str:
        """No token follows: return the rest of the text."""
        text = self._decode()
        rest = text[self._given :]
        self._given = len(text)
        return rest

    def _add(self, token: int) -> str:
        if token in self._skipped or not _is_known(self._tokenizer, token):
            return ""
        byte = self._special.bytes.get(token)
        if byte is not None:
            return self._add_byte(token, byte)
        self._run, self._run_is_broken = None, False
        self._window.append(token)
        text = self._decode()
        delta = text[self._given : self._sure_length(text)]
        if len(self._window) >= WINDOW:
            self._window = self._window[-OVERLAP:]
            text = self._decode()
        self._given = self._sure_length(text)
        return delta

    def _add_byte(self, token: int, byte: bytes) -> str:
        """A byte-fallback token: its run's text is one U+FFFD per byte from the first bad byte on, and open until then."""
        if self._run is None:
            self._run = codecs.getincrementaldecoder("utf-8")()
        if self._run_is_broken:
            delta = REPLACEMENT
        else:
            self._window.append(token)
            try:
                self._run.decode(byte)
            except UnicodeDecodeError:
                self._run_is_broken = True
                delta = self._decode()[self._given :]
            else:
                return ""
        self._window = [token]
        self._given = len(self._decode())
        return delta

    def _sure_length(self, text: str) -> int:
        """How much of the window's text stays: of a byte-level text all but a last U+FFFD, which may begin a character.

        One is enough: an unfinished character, of up to three bytes, decodes to a single U+FFFD, and any before it are bad
        bytes. With byte fallback only the byte tokens hold parts of characters.
        """
        return len(text) if self._special.bytes else len(text) - text.endswith(REPLACEMENT)

    def _decode(self) -> str:
        return self._tokenizer.decode(self._window, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def decode_token(tokenizer: PreTrainedTokenizerBase, token: int) -> str:
    """One token on its own, as text; "" for an id that the tokenizer does not know. Special tokens are shown."""
    if not _is_known(tokenizer, token):
        return ""
    return tokenizer.decode([token], skip_special_tokens=False, clean_up_tokenization_spaces=False)


def token_bytes(tokenizer: PreTrainedTokenizerBase, token: int) -> bytes:
    """The UTF-8 that a token stands for; of a character that is split over tokens, each has its part. b"" for unknown ids."""
    text = decode_token(tokenizer, token)
    if REPLACEMENT not in text:
        return text.encode()
    if token in _special(tokenizer).bytes:
        return _special(tokenizer).bytes[token]
    letters, name = _letters(), tokenizer.convert_ids_to_tokens(token)
    return bytes(letters[letter] for letter in name) if letters.keys() >= set(name) else text.encode()


@functools.cache
def _letters() -> dict[str, int]:
    """Byte-level tokenizers write each byte as a letter."""
    return {letter: byte for byte, letter in bytes_to_unicode().items()}


def _is_known(tokenizer: PreTrainedTokenizerBase, token: int) -> bool:
    return 0 <= token < 2**31 and tokenizer.convert_ids_to_tokens(token) is not None


def _special(tokenizer: PreTrainedTokenizerBase) -> _Special:
    """The tokenizer's table, made once: there is a detokenizer for every sequence."""
    if tokenizer not in _tables:
        skipped = frozenset(token for token, added in tokenizer.added_tokens_decoder.items() if added.special)
        _tables[tokenizer] = _Special(skipped, _byte_tokens(tokenizer))
    return _tables[tokenizer]


def _byte_tokens(tokenizer: PreTrainedTokenizerBase) -> dict[int, bytes]:
    """Id to byte, of the tokens "<0x00>" to "<0xFF>"; none where the tokenizer does not decode those as bytes."""
    vocabulary = tokenizer.get_vocab()
    names = {f"<0x{byte:02X}>": bytes([byte]) for byte in range(256)}
    tokens = {vocabulary[name]: byte for name, byte in names.items() if name in vocabulary}
    letter = vocabulary.get("<0x41>")
    return tokens if letter is not None and decode_token(tokenizer, letter) == "A" else {}
