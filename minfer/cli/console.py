"""How the command line speaks: results to stdout, everything else to stderr.

From: the commands. To: a terminal, a pipe or a file.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable

import typer
from rich import box
from rich.console import Console
from rich.logging import RichHandler
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 160  # columns where the output is no terminal: wide enough that tables do not fold


def out() -> Console:
    """For tables on stdout."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def note(text: str) -> None:
    """A line of progress or explanation, to stderr."""
    typer.echo(text, err=True)


def print_json(content: object) -> None:
    """Strict JSON on stdout.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    typer.echo(json.dumps(content, indent=2, allow_nan=False))


def print_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]], numbers: Iterable[str] = ()) -> None:
    """A table on stdout; the columns in `numbers` are aligned to the right. None is shown as a dash."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    numbers = set(numbers)
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text("–" if cell is None else str(cell)) for cell in row))
    console = out()
    console.print(title, style="bold", markup=False)
    console.print(table)


def log_from(level: int) -> None:
    """Show minfer's log from this level on, on stderr."""
    logger = logging.getLogger("minfer")
    if not any(isinstance(handler, RichHandler) for handler in logger.handlers):
        logger.addHandler(RichHandler(console=Console(stderr=True), show_time=False, show_path=False))
    logger.setLevel(level)
