"""The tokenizer of a checkpoint.

From: the folder that `hub.find_model` gives. To: `llm.py` and `minfer/text`, which encode prompts and decode outputs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from minfer.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")  # one of them holds the vocabulary


def load_tokenizer(path: Path) -> PreTrainedTokenizerBase | None:
    """The tokenizer in the folder; None where there is none, so that the engine takes and gives token ids only.

    Raises:
        ModelError: its files are there but cannot be read.
    """
    if not any((path / name).is_file() for name in FILES):
        return None
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(path, local_files_only=True)
    except Exception as error:  # broken files raise anything from JSONDecodeError to plain Exception
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ModelError(
            f"the tokenizer files in {path} cannot be read ({reason}); get them again, or remove them to work with token ids"
        ) from error
