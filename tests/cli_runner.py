"""What the tests of the command line share: running a command, a tiny model with text, and fakes."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

from typer.testing import CliRunner

from minfer.cli.app import app
from minfer.testing.checkpoints import make_checkpoint
from minfer.testing.tokenizers import byte_level_tokenizer


def tiny_model(path: Path, chat: bool = True) -> str:
    """A random model with a byte-level tokenizer, written to the folder `path` → path."""
    make_checkpoint(path, "llama", max_position_embeddings=512)
    byte_level_tokenizer(chat=chat).save_pretrained(path)
    return str(path)


def run(*arguments: object, code: int = 0, stdin: str | None = None):
    """The result of a command, which must end with that exit code."""
    result = CliRunner().invoke(app, [str(each) for each in arguments], input=stdin)
    assert result.exit_code == code, f"exit code {result.exit_code}, not {code}\n{result.output}\n{result.exception!r}"
    assert "Traceback" not in result.output
    return result


def words(text: str) -> str:
    """The text without the boxes and line breaks that Typer puts around it."""
    return " ".join(text.replace("│", " ").split())


def opening(fake):
    """In place of LLMOptions.open: `with engine.open() as llm` gives the fake."""

    @contextmanager
    def open_fake(self):
        yield fake

    return open_fake


def failing(error: BaseException):
    def fail(*args, **kwargs):
        raise error

    return fail
