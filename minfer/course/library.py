"""Where chapters lie, and which one a name means.

From: what a student typed. To: the chapter, from the folder `chapters` beside the package in a clone, or inside it where minfer was
installed from a wheel.
"""

from __future__ import annotations

import re
from pathlib import Path

import minfer
from minfer.course.chapter import Chapter, ChapterError
from minfer.course.chapter_file import FILE, FOLDER, load_chapter


def root() -> Path:
    """The folder of chapters that this minfer was installed with, or lies beside.

    Raises:
        ChapterError: there is none.
    """
    package = Path(minfer.__file__).parent
    places = [package / "chapters", package.parent / "chapters"]
    for place in places:
        if any(place.glob(f"*/{FILE}")):
            return place
    raise ChapterError(f"no chapters are here; looked in {' and '.join(map(str, places))}. Install minfer again, or work in a clone")


def folders(place: Path | None = None) -> list[Path]:
    """The chapters' folders, in order."""
    return sorted(path.parent for path in (place or root()).glob(f"*/{FILE}"))


def all_chapters(place: Path | None = None) -> list[Chapter]:
    return [load_chapter(folder) for folder in folders(place)]


def find_chapter(name: str, place: Path | None = None) -> Chapter:
    """The chapter that is meant by ch04, 4, 04_continuous or continuous.

    Raises:
        ChapterError: none is called so.
    """
    wanted = name.strip().strip("/").lower().replace("-", "_")
    number = re.fullmatch(r"(?:ch(?:apter)?_?)?0*(\d+)", wanted)
    found = folders(place)
    for folder in found:
        digits, slug = FOLDER.fullmatch(folder.name).groups() if FOLDER.fullmatch(folder.name) else ("0", folder.name)
        if wanted in (folder.name.lower(), slug.lower()) or (number and int(digits) == int(number[1])):
            return load_chapter(folder)
    names = ", ".join(f"ch{folder.name.replace('_', ' (', 1)})" for folder in found)
    raise ChapterError(f"no chapter is called {name!r}; there are {names}")
