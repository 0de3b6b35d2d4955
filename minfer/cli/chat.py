"""`minfer chat`: talk with a model; it streams its answers and remembers what was said.

From: lines of a terminal or a pipe. To: stdout, word by word.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from minfer.cli.console import note
from minfer.cli.options import LLMOptions, SamplingOptions, with_options
from minfer.errors import MinferError

if TYPE_CHECKING:
    from minfer.llm import LLM
    from minfer.params import SamplingParams


@with_options(engine=LLMOptions(), sampling=SamplingOptions(max_tokens=512, temperature=0.2, top_p=0.9))
def chat(
    *,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="The system message that opens the chat.")] = None,
    engine: LLMOptions,
    sampling: SamplingOptions,
) -> None:
    """Talk with the model. /reset forgets what was said; /quit, Ctrl-D or Ctrl-C ends the chat."""
    opening = [{"role": "system", "content": system}] if system else []
    params = sampling.params()
    with engine.open() as llm:
        with contextlib.suppress(ImportError):
            importlib.import_module("readline")  # line editing and history for input()
        messages = opening[:]
        while (line := read_line()) is not None and line != "/quit":
            if line == "/reset":
                messages = opening[:]
                note("forgotten")
            elif line.startswith("/"):
                note(f"{line.split()[0]} is no command; there are /reset and /quit")
            elif line:
                messages = talk(llm, messages, line, params)


def read_line() -> str | None:
    """What the user says next; None at the end of the input."""
    try:
        return input("> " if sys.stdin.isatty() else "").strip()
    except EOFError:
        return None


def talk(llm: LLM, messages: list[dict], line: str, params: SamplingParams) -> list[dict]:
    """Stream the answer → the messages with this exchange added.

    At a terminal, what cannot be answered is reported and left out; a script that pipes its lines in gets the error instead.
    """
    asked = [*messages, {"role": "user", "content": line}]
    answer = ""
    try:
        for output in llm.stream(asked, params):
            typer.echo(output.outputs[0].delta, nl=False)
            answer = output.outputs[0].text
    except MinferError as error:
        if not sys.stdin.isatty():
            raise
        note(f"error: {error}")
        note("this was not added to the chat; /reset starts anew")
        return messages
    typer.echo()
    return [*asked, {"role": "assistant", "content": answer}]
