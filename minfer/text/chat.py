"""From a prompt or a chat to token ids.

From: the caller's string or messages. To: `Request.prompt_ids`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from transformers import PreTrainedTokenizerBase

from minfer.errors import MinferError

Messages = Sequence[Mapping[str, str]]  # {"role": ..., "content": ...} each


def encode_prompt(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The text's ids, with the special tokens that the tokenizer adds by itself (a BOS, for many models).

    Raises:
        MinferError: `text` is no string, or holds half of a surrogate pair.
    """
    if not isinstance(text, str):
        raise MinferError(f"a prompt must be a string or a list of token ids, not {type(text).__name__}")
    _check_unicode("the prompt", text)
    return tokenizer.encode(text, verbose=False)


def chat_prompt_ids(
    tokenizer: PreTrainedTokenizerBase | None, messages: Messages, add_generation_prompt: bool = True
) -> list[int]:
    """The ids of a chat, as the model's own template writes it.

    The template alone decides about special tokens, as in transformers and vLLM: the tokenizer adds none of its own, so that a
    BOS which both know of comes once, and a template without one gives none.

    Args:
        messages: each with a "role" (often "system", "user" or "assistant") and a "content", both strings.
        add_generation_prompt: end with the words that open the assistant's answer.

    Raises:
        MinferError: the model has no tokenizer or no chat template; the messages are malformed; the template refuses them.
    """
    if tokenizer is None:
        raise MinferError("a chat is text, and the model's folder has no tokenizer; write the chat as token ids and complete those")
    if not tokenizer.chat_template:
        raise MinferError(
            "this model has no chat template: it was probably not tuned for chats. Complete a plain prompt instead, or set "
            "tokenizer.chat_template"
        )
    _check_messages(messages)
    try:
        return tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            add_generation_prompt=add_generation_prompt,
            tokenize=True,
            return_dict=False,
            tokenizer_kwargs={"verbose": False},
        )
    except Exception as error:  # the template is the model maker's code and may raise anything
        raise MinferError(
            f"the model's chat template refuses these messages ({type(error).__name__}: {error}); their roles are "
            f"{[message['role'] for message in messages]}"
        ) from error


def _check_messages(messages: object) -> None:
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise MinferError(f'messages must be a list of {{"role": ..., "content": ...}}, not {type(messages).__name__}')
    if not messages:
        raise MinferError("messages is empty; a chat needs at least one message")
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise MinferError(f'messages[{number}] must be {{"role": ..., "content": ...}}, not {type(message).__name__}')
        for key in ("role", "content"):
            if not isinstance(message.get(key), str):
                raise MinferError(f"messages[{number}] needs a {key!r} that is a string; it has {message.get(key)!r}")
            _check_unicode(f"messages[{number}][{key!r}]", message[key])


def _check_unicode(name: str, text: str) -> None:
    """Half a surrogate pair is no character: no UTF-8, so no tokenizer takes it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise MinferError(
            f"{name} holds {text[error.start]!r} at character {error.start}: half of a surrogate pair, which is no character; "
            "was an emoji cut in two, or wrongly decoded?"
        ) from error
