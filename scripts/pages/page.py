"""What a page of the site is, and small helpers that several kinds of page share."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """A page in Markdown.

    Args:
        uri: where it lies on the site, with .md.
        source: a path in the repository; the links of the text are relative to it.
    """

    uri: str
    source: str
    text: str


def fence(text: str, language: str = "python", options: str = "") -> str:
    """A block of code; long enough a fence that the text may have fences of its own."""
    ticks = "`" * 5
    return f"{ticks} {language} {options}".rstrip() + f"\n{text.rstrip()}\n{ticks}"


def fold(title: str, text: str) -> str:
    """Text that a reader opens, by mouse or keyboard."""
    return f'??? note "{title}"\n\n' + textwrap.indent(text, "    ")


def tabs(items: dict[str, str]) -> str:
    """Content tabs: title → text."""
    return "\n\n".join(f'=== "{title}"\n\n' + textwrap.indent(text, "    ") for title, text in items.items())


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def file_of(part: str) -> str:
    """minfer.blocks.paged:PagedBlocks → minfer/blocks/paged.py"""
    return part.partition(":")[0].replace(".", "/") + ".py"
