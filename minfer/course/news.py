"""What has changed in an exercise since a student began it.

From: the header of the student's file, today's starter, and chapters/CHANGES.md. To: `minfer check`. The file itself is left alone.
"""

from __future__ import annotations

from minfer.course.starter import version_of
from minfer.course.submission import Submission

CHANGES = "CHANGES.md"


def news(submission: Submission) -> list[str]:
    """What to say where the starter is no longer the one that the file was begun with; nothing where it is."""
    chapter = submission.chapter
    if not chapter.starter.is_file():
        return []
    begun, now = version_of(submission.text), version_of(chapter.starter.read_text(encoding="utf-8"))
    if begun is None or now is None or begun[1] == now[1]:
        return []
    path = chapter.folder.parent / CHANGES
    changes = changed(path.read_text(encoding="utf-8"), chapter.id, begun[0]) if path.is_file() else []
    return [
        f"the starter has changed since you began (with minfer {begun[0]}; this is {now[0]}); your file stays as it is",
        *changes,
        f"to compare: diff {submission.file} {chapter.starter}",
    ]


def changed(changes: str, chapter_id: str, since: str) -> list[str]:
    """The lines of CHANGES.md on a chapter, of versions above `since`; the newest version comes first there."""
    found, version = [], ""
    for line in changes.splitlines():
        if line.startswith("## "):
            version = line[3:].strip()
            if version == since:
                break
        elif line.startswith(f"- {chapter_id}:"):
            found.append(f"{version}: {line[2:]}")
    return found
