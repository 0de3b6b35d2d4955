"""Prompts and chats become ids as the tokenizer and its template say, or an error that says why not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.errors import MinferError
from minfer.testing.tokenizers import CHAT_TEMPLATE, byte_fallback_tokenizer, byte_level_tokenizer
from minfer.text.chat import chat_prompt_ids, encode_prompt

TOKENIZERS = {"byte_level": byte_level_tokenizer(), "byte_fallback": byte_fallback_tokenizer()}
each_tokenizer = pytest.mark.parametrize("name", TOKENIZERS)
plain_text = st.text().filter(lambda text: "<" not in text)
roles = st.sampled_from(["system", "user", "assistant"])
chats = st.lists(st.fixed_dictionaries({"role": roles, "content": plain_text}), min_size=1)
HELLO = [{"role": "user", "content": "hello"}]


@each_tokenizer
@settings(deadline=None, max_examples=50)
@given(chats, st.booleans())
def test_exactly_one_bos(name, messages, add_generation_prompt):
    """The template writes a BOS and the tokenizer would add another: there is one, at the start, before the template's text."""
    tokenizer = TOKENIZERS[name]
    ids = chat_prompt_ids(tokenizer, messages, add_generation_prompt)
    assert type(ids) is list
    assert ids.count(tokenizer.bos_token_id) == 1
    assert ids[0] == tokenizer.bos_token_id
    assert tokenizer("x").input_ids[0] == tokenizer.bos_token_id
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=add_generation_prompt, tokenize=False)
    assert ids == tokenizer(text, add_special_tokens=False).input_ids


@each_tokenizer
def test_generation_prompt(name):
    """It opens the assistant's answer, and only where asked for."""
    tokenizer = TOKENIZERS[name]
    assert tokenizer.decode(chat_prompt_ids(tokenizer, HELLO)).endswith("[assistant] ")
    assert tokenizer.decode(chat_prompt_ids(tokenizer, HELLO, False)).endswith("hello</s>")


def test_a_template_without_bos_gives_none():
    """The template alone decides: transformers and vLLM do the same."""
    tokenizer = byte_level_tokenizer()
    tokenizer.chat_template = CHAT_TEMPLATE.replace("{{ bos_token }}", "")
    assert tokenizer.bos_token_id not in chat_prompt_ids(tokenizer, HELLO)


def test_no_template():
    """The error says that there is none, and what to do."""
    with pytest.raises(MinferError, match=r"no chat template.*plain prompt"):
        chat_prompt_ids(byte_level_tokenizer(chat=False), HELLO)


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "empty"),
        ("hello", "must be a list"),
        (HELLO[0], "must be a list"),
        (None, "must be a list"),
        (["hello"], r"messages\[0\]"),
        ([HELLO], r"messages\[0\]"),
        ([*HELLO, {"role": "user"}], r"messages\[1\] needs a 'content'"),
        ([{"content": "x"}], "needs a 'role'"),
        ([{"role": "user", "content": None}], "needs a 'content'"),
        ([{"role": "user", "content": 3}], "needs a 'content'"),
        ([{"role": 1, "content": "x"}], "needs a 'role'"),
        ([{"role": "user", "content": "\ud83d"}], "surrogate"),
        ([{"role": "wizard", "content": "x"}], "unknown role wizard"),
    ],
)
def test_bad_messages(messages, words):
    """Each is refused with a message that says which and why."""
    with pytest.raises(MinferError, match=words):
        chat_prompt_ids(TOKENIZERS["byte_level"], messages)


@pytest.mark.parametrize("template", ["{% for %}", "{{ messages[9].content }}", "{{ 1 + 'a' }}", "{{ nothing() }}", "{{ 1 / 0 }}"])
def test_broken_templates(template):
    """Whatever a template raises becomes our error, with the original inside."""
    tokenizer = byte_level_tokenizer()
    tokenizer.chat_template = template
    with pytest.raises(MinferError, match="chat template refuses") as error:
        chat_prompt_ids(tokenizer, HELLO)
    assert error.value.__cause__ is not None


@each_tokenizer
@settings(deadline=None, max_examples=50)
@given(st.text())
def test_encode_prompt_is_the_tokenizers_own(name, text):
    """With the special tokens that the tokenizer adds."""
    tokenizer = TOKENIZERS[name]
    assert encode_prompt(tokenizer, text) == tokenizer(text).input_ids


def test_encode_prompt_edges():
    """An empty text is the BOS, or nothing where the tokenizer adds none; what is no text is refused."""
    assert encode_prompt(byte_level_tokenizer(), "") == [byte_level_tokenizer().bos_token_id]
    assert encode_prompt(byte_level_tokenizer(bos=False), "") == []
    for bad in (None, 3, [1], b"x"):
        with pytest.raises(MinferError, match="string or a list of token ids"):
            encode_prompt(TOKENIZERS["byte_level"], bad)
    with pytest.raises(MinferError, match=r"at character 2.*surrogate"):
        encode_prompt(TOKENIZERS["byte_level"], "ab\udc00")
