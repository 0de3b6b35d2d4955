"""GGUF's tokenizer → tokenizer.json and tokenizer_config.json.

From: the key-value pairs of a `GGUFFile`: the vocabulary, the kinds of tokens, the merges, and a name for how text is split
before merging. To: `convert_gguf`; later `minfer/tokenizer.py` reads the result.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors

from minfer.errors import ModelError
from minfer.gguf.file import GGUFFile

CONTROL, USER_DEFINED, UNUSED = 3, 4, 5  # of tokenizer.ggml.token_type
LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PRE_TOKENIZERS = ("smollm", "gpt-2", "llama-bpe")
ROLES = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}  # Hugging Face's name → GGUF's


def write_tokenizer(file: GGUFFile, target: Path, vocab_size: int, max_len: int) -> None:
    """Write the two files into `target`.

    Args:
        vocab_size: rows of the model's embedding; the tokenizer may have fewer tokens, not more.
        max_len: the model's longest context, in tokens.

    Raises:
        ModelError: not a byte-level BPE tokenizer, a split that minfer does not know, or a broken vocabulary.
    """
    tokens = file.get("tokenizer.ggml.tokens", list)
    kinds = file.get("tokenizer.ggml.token_type", list, [1] * len(tokens))
    if len(tokens) > vocab_size or len(kinds) != len(tokens):
        raise ModelError(
            f"{file.source} has {len(tokens)} tokens, {len(kinds)} kinds and {vocab_size} rows of embeddings; they do not fit"
        )
    names = {role: token_name(file, tokens, gguf_role) for role, gguf_role in ROLES.items()}
    split = file.get("tokenizer.ggml.pre", str, "gpt-2")
    tokenizer = make_bpe(file, tokens, kinds, split)
    if names["bos"] and file.get("tokenizer.ggml.add_bos_token", bool, split == "llama-bpe"):
        bos = names["bos"]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[bos, "$A"], pair=[bos, "$A", bos, "$B"], special_tokens=[(bos, tokens.index(bos))]
        )
    tokenizer.save(str(target / "tokenizer.json"))
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_len,
    }
    settings |= {f"{role}_token": name for role, name in names.items() if name is not None}
    if template := file.get("tokenizer.chat_template", str, None):
        settings["chat_template"] = template
    (target / "tokenizer_config.json").write_text(json.dumps(settings, indent=2, ensure_ascii=False), encoding="utf-8")


def special_ids(file: GGUFFile) -> dict[str, int | list[int]]:
    """bos_token_id, eos_token_id and pad_token_id, where the file has them. The end of a turn counts as EOS too."""
    ids = {f"{role}_token_id": file.get(f"tokenizer.ggml.{ROLES[role]}_token_id", int, None) for role in ("bos", "eos", "pad")}
    ends = {ids["eos_token_id"], *(file.get(f"tokenizer.ggml.{name}_token_id", int, None) for name in ("eot", "eom"))} - {None}
    if len(ends) > 1:
        ids["eos_token_id"] = sorted(ends)
    return {name: value for name, value in ids.items() if value is not None}


def token_name(file: GGUFFile, tokens: list[str], role: str) -> str | None:
    """The text of the special token of that role; None where the file has none."""
    token_id = file.get(f"tokenizer.ggml.{role}_token_id", int, None)
    if token_id is None:
        return None
    if token_id >= len(tokens):
        raise ModelError(f"{file.source}: its {role} token is {token_id}, but it has only {len(tokens)} tokens")
    return tokens[token_id]


def make_bpe(file: GGUFFile, tokens: list[str], kinds: list[int], split: str) -> Tokenizer:
    """The tokenizer itself, without what it adds around a text."""
    model = file.get("tokenizer.ggml.model", str)
    if model != "gpt2" or split not in PRE_TOKENIZERS:
        raise ModelError(
            f"{file.source} has a tokenizer of the kind {model!r} with the split {split!r}; of GGUF files minfer reads 'gpt2' "
            f"(byte-level BPE) with the splits {', '.join(PRE_TOKENIZERS)}. Take its safetensors checkpoint instead"
        )
    vocab = {token: i for i, (token, kind) in enumerate(zip(tokens, kinds, strict=True)) if kind != UNUSED}
    merges = [tuple(merge.split(" ")) for merge in file.get("tokenizer.ggml.merges", list)]
    try:
        tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=split == "llama-bpe"))
    except Exception as error:  # tokenizers raises plain Exceptions
        raise ModelError(f"{file.source} has a broken vocabulary: {error}") from error
    tokenizer.pre_tokenizer = make_split(split)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL])
    plain = [token for token, kind in zip(tokens, kinds, strict=True) if kind == USER_DEFINED]
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in plain])
    return tokenizer


def make_split(name: str) -> pre_tokenizers.PreTokenizer:
    """How text is cut into words before any merging; merges never cross a cut."""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name != "llama-bpe")
    if name == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    if name == "llama-bpe":
        return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3_SPLIT), behavior="isolated"), byte_level])
    return byte_level
