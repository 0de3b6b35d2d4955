"""Writes the numbers of README.md, docs and chapters from the reports that were measured. `make tables` runs it.

--check only compares: it fails where a page is not what the reports say, and where a chapter states a measurement by hand.
How a page asks for a number: `markers.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import bare_numbers
from markers import MarkerError, fill

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "docs/*.md", "chapters/*/README.md")


def main(root: Path = ROOT) -> None:
    sys.path.insert(0, str(root))  # answers.py imports this checkout's minfer
    check = "--check" in sys.argv
    wrong = []
    for page in sorted(path for pattern in PAGES for path in root.glob(pattern)):
        where, text = page.relative_to(root), page.read_text(encoding="utf-8")
        try:
            filled = fill(text, page, root)
        except MarkerError as error:
            wrong.append(str(error))
            continue
        if not check:
            page.write_text(filled, encoding="utf-8")
            continue
        if filled != text:
            wrong.append(f"{where}: its numbers are not what the reports say; `make tables` writes them")
        if where.parts[0] == "chapters":
            how = "put it in a marker, cite its source by an address on the same line, or mark the line with <!-- given -->"
            wrong += [f"{where}:{line}: {wording!r} is stated by hand; {how}" for line, wording in bare_numbers.find(text)]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
