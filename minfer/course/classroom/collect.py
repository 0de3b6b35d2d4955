"""What was handed in: a part.py, a folder or a zip, read as text and never run here.

Only files called part.py count, one a chapter. Whatever else lies beside them is not used: tests, a copy of minfer, result files.

From: `minfer classroom grade`. To: `grading.py`, text by chapter.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import zipfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from minfer.course.chapter import PART, Chapter, ChapterError
from minfer.course.library import find_chapter
from minfer.errors import MinferError

LARGEST = 1 << 20  # bytes of a file
MOST_FILES = 5000  # looked at
HEADER = re.compile(r"^# Chapter (\d+),", re.MULTILINE)
SUSPECT = ("minfer", "tests", "conftest.py", "sitecustomize.py", "chapter.toml", "results.json", "result.json", "answers.py")


@dataclass
class Collected:
    """Texts by the chapter's id, and what is worth knowing."""

    name: str
    texts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """Of all that counts."""
        return hashlib.sha256("\0".join(f"{key}\0{text}" for key, text in sorted(self.texts.items())).encode()).hexdigest()


def collect(submission: Path, chapter: Chapter | None = None) -> Collected:
    """Read a submission.

    Args:
        chapter: the only one that counts; without it, all that are found.

    Raises:
        MinferError: there is no such file or folder.
    """
    if not submission.exists():
        raise MinferError(f"there is no {submission}; name a part.py, a folder or a zip")
    found = Collected(submission.name)
    if submission.is_dir():
        files = list(_walk(submission, found))
    elif zipfile.is_zipfile(submission):
        files = list(_unzip(submission, found))
    else:
        files = [(PurePosixPath(submission.name), _decoded(_read(submission), submission.name, found))]
    several = len(files) > 1
    for path, text in sorted(files, key=lambda each: (len(each[0].parts), each[0])):
        if text is None:
            continue
        own = _chapter_of(path, text) or (None if several else chapter)
        if own is None:
            found.notes.append(f"{path} is not used: neither its folder nor its first line says which chapter it is")
        elif chapter is not None and own.id != chapter.id:
            found.notes.append(f"{path} is not used: it is of {own.id}")
        elif own.id in found.texts:
            found.notes.append(f"{path} is not used: another {PART} of {own.id} was found first")
        else:
            found.texts[own.id] = text
    if not found.texts:
        wanted = f" of {chapter.id}" if chapter else ""
        found.notes.append(f"nothing to grade: no {PART}{wanted} was handed in")
    return found


def _chapter_of(path: PurePosixPath, text: str) -> Chapter | None:
    """By the folder's name, else by the starter's first line."""
    names = [path.parent.name] if path.parent.name else []
    header = HEADER.search(text[:4000])
    for name in [*names, *([header[1]] if header else [])]:
        try:
            return find_chapter(name)
        except ChapterError:
            continue
    return None


def _walk(folder: Path, found: Collected) -> list[tuple[PurePosixPath, str | None]]:
    """Every part.py below; links are not followed, and only regular files are opened."""
    files, seen = [], 0
    for home, folders, names in os.walk(folder, followlinks=False):
        folders.sort()
        for name in [*folders, *names]:
            seen += 1
            _suspect(name, found)
        if seen > MOST_FILES:
            found.notes.append(f"more than {MOST_FILES} files: the rest was not looked at")
            break
        if PART in names:
            path = Path(home) / PART
            place = PurePosixPath(path.relative_to(folder))
            files.append((place, _decoded(_read(path), str(place), found)))
    return files


def _unzip(archive: Path, found: Collected) -> list[tuple[PurePosixPath, str | None]]:
    """Every part.py in it, read in memory: nothing is unpacked to a disk."""
    files = []
    try:
        with zipfile.ZipFile(archive) as opened:
            for info in opened.infolist()[:MOST_FILES]:
                path = PurePosixPath(info.filename)
                for part in path.parts:
                    _suspect(part, found)
                if path.name == PART and not info.is_dir():
                    with opened.open(info) as file:
                        files.append((path, _decoded(file.read(LARGEST + 1), str(path), found)))
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, EOFError, ValueError) as error:
        found.notes.append(f"the archive cannot be read: {str(error)[:200]}")
    return files


def _suspect(name: str, found: Collected) -> None:
    text = f"{name} was handed in, and is not used"
    if name in SUSPECT and text not in found.notes:
        found.notes.append(text)


def _read(path: Path) -> bytes | None:
    """At most LARGEST + 1 bytes of a regular file; None of anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(LARGEST + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def _decoded(data: bytes | None, name: str, found: Collected) -> str | None:
    """The text, or None and a note."""
    problem = None
    if data is None:
        problem = "it is no file that can be read"
    elif len(data) > LARGEST:
        problem = f"it is longer than {LARGEST} bytes"
    else:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            problem = f"it is no text in UTF-8 ({error.reason} at byte {error.start})"
    found.notes.append(f"{name} is not used: {problem}")
    return None


