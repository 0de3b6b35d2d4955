"""Measured numbers that a chapter states by hand, where they would grow old: digits with a unit, outside of markers.

From: a page's text. To: `tables.py --check`. What is left alone: fenced and inline code, formulas, addresses, products such as 2 × 30,
lines that cite a source by its address, and lines that say `<!-- given -->`: an example's assumption, not a measurement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

UNITS = "|".join((
    "ms", "µs", "us", "ns", "seconds", r"[KMGT]i?B(?:/s)?", "bytes/s", r"[MGT]?FLOPS?(?:/s)?",
    r"tok(?:ens)?(?:/s| a second| per second)", r"×(?!\s*[\d(])", "%", "percent", "times",
))  # fmt: skip
MEASURED = re.compile(rf"(?<![\w.])\d[\d.,]*\s?(?:{UNITS})(?![\w/])")
ALLOWED = re.compile(r"https?://|<!-- given -->")
SKIPPED = re.compile(
    r"^(```|~~~).*?^\1[^\S\n]*$"  # fenced code
    r"|<!-- table .*?<!-- end -->|<!--n .*?<!--/n-->"  # markers, with what they stand for
    r"|`[^`\n]+`|\$\$.*?\$\$|\$[^$\n]+\$",
    re.DOTALL | re.MULTILINE,
)


def find(text: str) -> Iterator[tuple[int, str]]:
    """Line number and wording of each."""
    outside = SKIPPED.sub(lambda match: re.sub(r"[^\n]", "_", match[0]), text)
    lines = zip(outside.splitlines(), text.splitlines(), strict=True)
    for number, (line, whole) in enumerate(lines, 1):
        if not ALLOWED.search(whole):
            yield from ((number, match[0]) for match in MEASURED.finditer(line))
