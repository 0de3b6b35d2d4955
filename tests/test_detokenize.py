"""Incremental detokenisation is exact: joined pieces are the tokenizer's own decode, and no piece is ever taken back."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from minfer.testing.tokenizers import byte_fallback_tokenizer, byte_level_tokenizer
from minfer.text.detokenize import Detokenizer, decode_token, token_bytes

TOKENIZERS = {"byte_level": byte_level_tokenizer(), "byte_fallback": byte_fallback_tokenizer()}
PADDED_VOCABULARY = 340  # more ids than either tokenizer knows

each_tokenizer = pytest.mark.parametrize("name", TOKENIZERS)
skip_or_not = st.booleans()
scripts = st.text(st.sampled_from("ab the  \n你好世界สวัสดีกำ😀👩‍👧e\u0301ä\ufffd▁<>s"))
texts = st.text() | scripts
random_ids = st.lists(st.integers(0, PADDED_VOCABULARY))
letters_and_bytes = st.lists(st.sampled_from(b"\xe4\xbd\xa0\xf0\x9f\x98\x80\xff\xe0\x80\xb8 A\n"))


def whole(tokenizer, ids, skip):
    """The oracle: everything decoded at once, without what the tokenizer does not know."""
    known = [token for token in ids if 0 <= token < len(tokenizer)]
    return tokenizer.decode(known, skip_special_tokens=skip, clean_up_tokenization_spaces=False)


def pieces(tokenizer, ids, skip=True):
    """One piece per token, and what `finish` gives."""
    detokenizer = Detokenizer(tokenizer, skip)
    return [detokenizer.add([token]) for token in ids] + [detokenizer.finish()]


def _first_byte(name):
    """The id of byte 0; the others follow in order."""
    return TOKENIZERS[name].convert_tokens_to_ids({"byte_level": "Ā", "byte_fallback": "<0x00>"}[name])


@each_tokenizer
@settings(deadline=None, max_examples=150)
@given(texts)
@example("😀你")
def test_the_bytes_of_tokens(name, text):
    """Joined, they are the text's UTF-8, also where a character is split; a token on its own may have lost the space before it."""
    tokenizer = TOKENIZERS[name]
    joined = b"".join(token_bytes(tokenizer, token) for token in tokenizer(text, add_special_tokens=False).input_ids)
    expected = text.encode()
    if name == "byte_fallback":
        joined, expected = joined.replace(b" ", b""), text.replace("▁", " ").encode().replace(b" ", b"")
    assert joined == expected
    assert token_bytes(tokenizer, PADDED_VOCABULARY) == b""


def check(tokenizer, ids, skip):
    """Joined pieces equal the oracle, so each piece was final when it was given out."""
    assert "".join(pieces(tokenizer, ids, skip)) == whole(tokenizer, ids, skip)


@each_tokenizer
@settings(deadline=None, max_examples=150)
@given(texts, skip_or_not)
@example("a" * 50, True)
@example("😀" * 20, True)
@example("  two  spaces ", True)
def test_texts(name, text, skip):
    """Any text, encoded and fed back token by token, comes out as the tokenizer decodes it."""
    tokenizer = TOKENIZERS[name]
    check(tokenizer, tokenizer(text).input_ids, skip)


@each_tokenizer
@settings(deadline=None, max_examples=200)
@given(random_ids, skip_or_not)
def test_random_ids(name, ids, skip):
    """So does any sequence of ids: invalid UTF-8, special tokens anywhere, ids that the tokenizer does not know."""
    check(TOKENIZERS[name], ids, skip)


@each_tokenizer
@settings(deadline=None, max_examples=300)
@given(letters_and_bytes, skip_or_not, st.data())
def test_broken_utf8(name, raw, skip, data):
    """So does any sequence of single bytes, good and bad, with special and unknown tokens between them."""
    tokenizer = TOKENIZERS[name]
    ids = [_first_byte(name) + byte for byte in raw]
    for token in (tokenizer.eos_token_id, PADDED_VOCABULARY - 1, tokenizer.convert_tokens_to_ids("a")):
        if data.draw(st.booleans()):
            ids.insert(data.draw(st.integers(0, len(ids))), token)
    check(tokenizer, ids, skip)


@each_tokenizer
@settings(deadline=None, max_examples=100)
@given(random_ids, st.data())
def test_steps_of_several_tokens(name, ids, data):
    """How the tokens are split into steps changes nothing."""
    tokenizer = TOKENIZERS[name]
    detokenizer = Detokenizer(tokenizer)
    text, start = "", 0
    while start < len(ids):
        end = data.draw(st.integers(start + 1, len(ids)))
        text += detokenizer.add(ids[start:end])
        start = end
    assert text + detokenizer.finish() == whole(tokenizer, ids, True)


@each_tokenizer
@settings(deadline=None, max_examples=100)
@given(scripts.filter(lambda text: "\ufffd" not in text))
def test_no_premature_replacement_character(name, text):
    """A text without U+FFFD never shows one, though its characters are split over tokens."""
    tokenizer = TOKENIZERS[name]
    for piece in pieces(tokenizer, tokenizer(text).input_ids):
        assert "\ufffd" not in piece


@settings(deadline=None, max_examples=100)
@given(random_ids)
def test_byte_level_holds_back_one_character(ids):
    """With a byte-level tokenizer at most one character waits, whatever bytes come: bad bytes do not pile up."""
    tokenizer = TOKENIZERS["byte_level"]
    detokenizer, text = Detokenizer(tokenizer), ""
    for count, token in enumerate(ids, start=1):
        text += detokenizer.add([token])
        assert len(whole(tokenizer, ids[:count], True)) - len(text) <= 1


def test_byte_fallback_gives_bad_bytes_out_at_once():
    """A run of byte tokens that is no UTF-8 comes out byte by byte from the first bad byte on."""
    tokenizer = TOKENIZERS["byte_fallback"]
    ids = [_first_byte("byte_fallback") + byte for byte in b"\xe4\xbd\xa0\xff\xff\xe4\xbd\xa0"]
    assert pieces(tokenizer, ids) == ["", "", "", "\ufffd" * 4, "\ufffd", "\ufffd", "\ufffd", "\ufffd", ""]


def test_byte_fallback_run_ends_with_the_next_token():
    """A character spelled in bytes comes out with the token after it, or at the end."""
    tokenizer = TOKENIZERS["byte_fallback"]
    letter = tokenizer.convert_tokens_to_ids("a")
    emoji = [_first_byte("byte_fallback") + byte for byte in "😀".encode()]
    assert pieces(tokenizer, [*emoji, letter]) == ["", "", "", "", "😀a", ""]
    assert pieces(tokenizer, emoji) == ["", "", "", "", "😀"]


@pytest.mark.parametrize(("name", "text"), [("byte_level", "你好"), ("byte_level", "👩"), ("byte_level", "ก็")])
def test_byte_level_characters_come_out_when_complete(name, text):
    """A character split over tokens comes out with its last token, not later."""
    tokenizer = TOKENIZERS[name]
    detokenizer = Detokenizer(tokenizer)
    assert len(tokenizer(text).input_ids) > len(text)
    assert detokenizer.add(tokenizer(text).input_ids) == text


@each_tokenizer
def test_unknown_ids_have_no_text(name):
    """Ids beyond the tokenizer, negative or huge ones included, are empty text and no error, here and for log-probabilities."""
    tokenizer = TOKENIZERS[name]
    letter = tokenizer.convert_tokens_to_ids("a")
    unknown = [len(tokenizer), PADDED_VOCABULARY, -1, 2**31, 2**40]
    assert "".join(pieces(tokenizer, [letter, *unknown, letter])) == "aa"
    assert [decode_token(tokenizer, token) for token in unknown] == [""] * len(unknown)
    assert decode_token(tokenizer, letter) == "a"
    assert decode_token(tokenizer, tokenizer.eos_token_id) == "</s>"


def test_literal_byte_names_are_text_where_the_tokenizer_has_no_fallback():
    """A byte-level vocabulary may hold "<0x41>" as an ordinary word: it is not a byte then."""
    tokenizer = byte_level_tokenizer()
    tokenizer.add_tokens(["<0x41>", "<0xE4>"])
    ids = tokenizer.convert_tokens_to_ids(["<0x41>", "<0xE4>", "<0x41>"])
    assert pieces(tokenizer, ids) == ["<0x41>", "<0xE4>", "<0x41>", ""]


def _worst(name):
    """Ids that would make a careless window grow without end."""
    return [[_first_byte(name) + byte for byte in raw * (3000 // len(raw))] for raw in (b"\xff", "😀".encode(), b"a")]


@each_tokenizer
def test_each_token_is_decoded_a_bounded_number_of_times(name, monkeypatch):
    """The windows decoded add up to at most 20 tokens per token: the time is linear in the output's length."""
    decoded = []
    decode = Detokenizer._decode
    monkeypatch.setattr(Detokenizer, "_decode", lambda self: decoded.append(len(self._window)) or decode(self))
    for ids in _worst(name):
        decoded.clear()
        pieces(TOKENIZERS[name], ids)
        assert sum(decoded) <= 20 * len(ids)
