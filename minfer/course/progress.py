"""What a student has reached: the last check's points, and the hints shown, in .minfer/progress.json beside the chapters' folders.

From: `minfer check` and `minfer hint`. To: `minfer status`. A file that cannot be read counts as none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from minfer.course.chapter import PART, Chapter

FILE = Path(".minfer") / "progress.json"


def home_of(chapter: Chapter, file: Path) -> Path:
    """The folder that a student's chapters lie in, from the file of one."""
    folder = file.resolve().parent
    return folder.parent if folder.name == chapter.name and file.name == PART else folder


def read(home: Path) -> dict[str, Any]:
    """{"points": {chapter: {task: points}}, "checked": {chapter: seconds since 1970}, "hints": {"chapter task": how many}}"""
    empty: dict[str, Any] = {"points": {}, "checked": {}, "hints": {}}
    try:
        found = json.loads((home / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return empty
    return {key: found[key] if isinstance(found, dict) and isinstance(found.get(key), dict) else value for key, value in empty.items()}


def write(home: Path, progress: dict[str, Any]) -> None:
    """Replace the file; other programs see the old one or the new one."""
    path = home / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(progress, indent=1) + "\n", encoding="utf-8")
    new.replace(path)
