"""Two tiny tokenizers for tests, built in memory: a byte-level BPE and one like SentencePiece with byte fallback.

From: nothing. To: the tests of text, and the tiny checkpoints whose vocabulary (at most 320) they fit.
"""

from __future__ import annotations

import string

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

BOS, EOS, UNKNOWN = "<s>", "</s>", "<unk>"

CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('unknown role ' + message['role']) }}"
    "{% endif %}"
    "[{{ message['role'] }}] {{ message['content'] }}{{ eos_token }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)

# What is merged, as UTF-8. Some pieces are parts of characters: the first two bytes of "你" (e4 bd a0), its last byte with the
# first one of the next CJK character, half an emoji (f0 9f 98 80), the first two bytes of Thai letters (e0 b8 ..).
PARTS = [b"\xe4\xbd", b"\xa0\xe4", b"\xf0\x9f", b"\xe0\xb8"]
BYTE_PIECES = [b"he", b"ll", b"hell", b" t", b" th", b" the", b"in", b"ing", b"  ", *PARTS]
WORD_PIECES = ["▁t", "he", "▁the", "in", "ing", "ll", "▁▁"]


def byte_level_tokenizer(chat: bool = True, bos: bool = True) -> PreTrainedTokenizerFast:
    """Byte-level BPE: 256 bytes, some merges, <s> and </s>. As GPT-2's, Llama 3's and Qwen's.

    Args:
        chat: give it a chat template, which writes the BOS itself.
        bos: whether encoding puts a BOS before a text.
    """
    letters = _byte_letters()
    pieces = ["".join(letters[byte] for byte in piece) for piece in BYTE_PIECES]
    tokens = [BOS, EOS, *(letters[byte] for byte in range(256)), *pieces]
    model = models.BPE(vocab={token: number for number, token in enumerate(tokens)}, merges=_merges(tokens, pieces))
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return _wrap(tokenizer, chat, bos)


def byte_fallback_tokenizer(chat: bool = True, bos: bool = True) -> PreTrainedTokenizerFast:
    """Like SentencePiece: a space is U+2581, one is put before a text; what has no token becomes <0x..> bytes. As Llama 2's.

    Args:
        chat: give it a chat template, which writes the BOS itself.
        bos: whether encoding puts a BOS before a text.
    """
    letters = ["▁", *string.ascii_lowercase, ".", ",", "你"]
    tokens = [UNKNOWN, BOS, EOS, *(f"<0x{byte:02X}>" for byte in range(256)), *letters, *WORD_PIECES]
    model = models.BPE(
        vocab={token: number for number, token in enumerate(tokens)},
        merges=_merges(tokens, WORD_PIECES),
        unk_token=UNKNOWN,
        fuse_unk=True,
        byte_fallback=True,
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return _wrap(tokenizer, chat, bos)


def _wrap(tokenizer: Tokenizer, chat: bool, bos: bool) -> PreTrainedTokenizerFast:
    unknown = {"unk_token": UNKNOWN} if tokenizer.token_to_id(UNKNOWN) is not None else {}
    if bos:
        start = [(BOS, tokenizer.token_to_id(BOS))]
        tokenizer.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=start)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS, **unknown)
    if chat:
        wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def _merges(tokens: list[str], pieces: list[str]) -> list[tuple[str, str]]:
    """Each piece as a merge of two earlier tokens: the longest beginning that is a token, and the rest."""
    known = set(tokens)
    merges = []
    for piece in pieces:
        cut = next(cut for cut in range(len(piece) - 1, 0, -1) if piece[:cut] in known and piece[cut:] in known)
        merges.append((piece[:cut], piece[cut:]))
    return merges


def _byte_letters() -> list[str]:
    """The letter by which byte-level BPE writes each byte: printable ones as themselves, the others shifted past U+00FF."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    shifted = iter(range(256))
    return [chr(byte) if byte in printable else chr(256 + next(shifted)) for byte in range(256)]
