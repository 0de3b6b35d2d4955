"""What is checked before a request may enter the engine, so that a bad one harms nobody else.

From: `Engine.add_request`. To: the scheduler, which takes for granted what is checked here.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from numbers import Integral

from minfer.errors import MinferError
from minfer.params import SamplingParams
from minfer.text.chat import Messages, encode_prompt

Prompt = str | list[int]


def check_types(request_id: str, params: SamplingParams, priority: int, user: str) -> None:
    """Refuse what a policy could not sort by, and parameters in some other form."""
    if not isinstance(request_id, str) or not request_id:
        raise MinferError(f"request_id={request_id!r} must be a string, and not empty")
    if not isinstance(params, SamplingParams):
        raise MinferError(f"params must be a SamplingParams, not {type(params).__name__} ({params!r})")
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise MinferError(f"priority={priority!r} must be a whole number; the lowest runs first")
    if not isinstance(user, str):
        raise MinferError(f"user={user!r} must be a string")


def _has_items(value: object) -> bool:
    """An array without dimensions is one number, and has none."""
    return isinstance(value, str) or (hasattr(value, "__iter__") and getattr(value, "ndim", 1) > 0)


def _is_list_like(value: object) -> bool:
    """Whether it is made of things in an order: lists, tuples, arrays, tensors, iterators; not mappings, sets or bytes."""
    return _has_items(value) and not isinstance(value, bytes | Mapping | Set)


def prompts_in_a_list(prompts: Prompt | list[Prompt]) -> list[Prompt]:
    """Prompts as a list; one alone, as text or as token ids, is a list of one."""
    if isinstance(prompts, str):
        return [prompts]
    if not _is_list_like(prompts):
        raise MinferError(f"prompts must be a string, a list of token ids, or a list of these; not {type(prompts).__name__}")
    prompts = list(prompts)
    return prompts if not prompts or _has_items(prompts[0]) else [prompts]


def conversations_in_a_list(messages: Messages | list[Messages]) -> list[Messages]:
    """Conversations as a list; one alone, a list of messages, is a list of one."""
    if not _is_list_like(messages) or isinstance(messages, str):
        raise MinferError(
            f'messages must be a list of {{"role": ..., "content": ...}}, or a list of such lists; not {type(messages).__name__}'
        )
    messages = list(messages)
    return [messages] if messages and isinstance(messages[0], Mapping) else messages


def prompt_ids_of(prompt: Prompt, tokenizer) -> list[int]:
    """Token ids of a prompt given as text or as ids."""
    if isinstance(prompt, str):
        if tokenizer is None:
            raise MinferError("the prompt is text, and the model's folder has no tokenizer; pass token ids")
        ids = encode_prompt(tokenizer, prompt)
        if not ids:
            raise MinferError(f"the prompt {prompt!r} has no tokens, and this tokenizer adds none; pass at least one token")
        return ids
    if not _is_list_like(prompt):
        raise MinferError(f"a prompt is a string or a list of token ids, not {type(prompt).__name__}")
    ids = [token if type(token) is int else _whole_number(position, token) for position, token in enumerate(prompt)]
    if not ids:
        raise MinferError("the prompt has no tokens; pass at least one")
    return ids


def _whole_number(position: int, token) -> int:
    """Python's, numpy's and PyTorch's integers alike."""
    token = token.item() if getattr(token, "ndim", None) == 0 else token
    if isinstance(token, bool) or not isinstance(token, Integral):
        raise MinferError(f"token {position} of the prompt is {token!r}; token ids are whole numbers")
    return int(token)


def check_prompt(ids: list[int], params: SamplingParams, vocab_size: int, max_len: int, tokenizer) -> None:
    """Refuse ids that the model does not have, prompts that do not fit, and parameters that cannot be met."""
    for position, token in enumerate(ids):
        if not 0 <= token < vocab_size:
            raise MinferError(f"token {position} of the prompt is {token}; the model's ids go from 0 to {vocab_size - 1}")
    if len(ids) >= max_len:
        raise MinferError(
            f"the prompt has {len(ids)} tokens; with at least one token to generate it may have {max_len - 1} at most: the limit is "
            f"{max_len} tokens for prompt and output (max_model_len, or what the KV cache holds); shorten the prompt or raise it"
        )
    if params.stop and tokenizer is None:
        raise MinferError("stop strings need text, and the model's folder has no tokenizer; use stop_token_ids")
    for name, tokens in (("stop_token_ids", params.stop_token_ids), ("logit_bias", [token for token, _ in params.logit_bias])):
        for token in tokens:
            if not 0 <= token < vocab_size:
                raise MinferError(f"{name} names token {token}; the model's ids go from 0 to {vocab_size - 1}")
    if params.min_tokens > max_len - len(ids):
        raise MinferError(
            f"min_tokens={params.min_tokens}, and after a prompt of {len(ids)} tokens only {max_len - len(ids)} fit in {max_len}"
        )


def limit_of(num_prompt: int, params: SamplingParams, max_len: int) -> int:
    """Tokens at which a sequence ends: max_tokens beyond its prompt, and never beyond max_len."""
    return max_len if params.max_tokens is None else min(num_prompt + params.max_tokens, max_len)
