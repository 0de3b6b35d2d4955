"""A checkpoint's tokenizer: there, not there, or broken."""

from __future__ import annotations

import json

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from minfer.errors import ModelError
from minfer.tokenizer import load_tokenizer


@pytest.fixture
def folder(tmp_path):
    tokenizer = Tokenizer(models.WordLevel({"one": 0, "two": 1, "?": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "?"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    return tmp_path


def test_the_folders_tokenizer_is_read(folder):
    tokenizer = load_tokenizer(folder)
    assert tokenizer("two one").input_ids == [1, 0]
    assert tokenizer.eos_token_id == 2


def test_a_folder_without_a_vocabulary_has_no_tokenizer(folder):
    """Its settings alone do not make one: such a model takes and gives token ids."""
    (folder / "tokenizer.json").unlink()
    assert load_tokenizer(folder) is None


@pytest.mark.parametrize(
    ("name", "content"),
    [(name, content) for name in ("tokenizer.json", "tokenizer_config.json") for content in ("", '{"model": ', "[]")]
    + [("tokenizer.json", '{"version": "9"}')],
)
def test_broken_files_are_explained(folder, name, content):
    """Whatever the libraries raise, the error names the folder and what to do."""
    (folder / name).write_text(content)
    with pytest.raises(ModelError, match=rf"tokenizer files in {folder} cannot be read.*get them again"):
        load_tokenizer(folder)
