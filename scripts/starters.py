"""Writes every chapter's part.py from the reference parts, and the list of chapters. `make starters` runs it; --check only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from minfer.course.index import index
from minfer.course.library import all_chapters
from minfer.course.starter import generate

ROOT = Path(__file__).resolve().parent.parent / "chapters"


def main() -> int:
    """Exit code 1 where --check finds a file that is not as it would be written."""
    chapters = all_chapters(ROOT)
    texts = {chapter.starter: generate(chapter) for chapter in chapters}
    texts[ROOT / "README.md"] = index(chapters)
    stale = [path for path, text in texts.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if "--check" in sys.argv[1:]:
            sys.stderr.write(f"{path} is not in step with the references and chapter.toml: run `make starters`\n")
        else:
            path.write_text(texts[path], encoding="utf-8")
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
