"""The input, line by line, without ever holding all of it.

From: a file in OpenAI's batch format. To: `items.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from minfer.errors import MinferError

LONGEST = 32 * 2**20  # bytes of a line; what is longer is read past, and becomes an error record
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """One line that is not blank."""

    number: int  # the first line of the file is 1; blank ones count
    content: bytes  # without its end; of one that is too long, LONGEST bytes and one
    start: int  # its offset in the file, in bytes
    end: int  # offset of the next line


def read_lines(path: Path, offset: int = 0, number: int = 0) -> Iterator[Line]:
    """The lines of a file; blank ones are left out.

    Args:
        offset: where to begin, in bytes; number: of the line before it.

    Raises:
        MinferError: the file cannot be read.
    """
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            while content := file.readline(LONGEST + 1):
                start, number = offset, number + 1
                if len(content) > LONGEST and not content.endswith(b"\n"):
                    skip_line(file)
                offset = file.tell()
                content = content.removeprefix(BYTE_ORDER_MARK).strip() if number == 1 else content.strip()
                if content:
                    yield Line(number, content, start, offset)
    except OSError as error:
        raise MinferError(f"{path} cannot be read: {error.strerror}") from error


def skip_line(file: BinaryIO) -> None:
    """Read on to the end of the line."""
    while (piece := file.readline(LONGEST)) and not piece.endswith(b"\n"):
        pass
