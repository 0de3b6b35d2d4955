"""The students' repository: for each chapter the starter, the text, the drawing, the notebook and the questions, and no solution.

What would tell one is left out: the reference parts, chapter.toml with its hints and sample answers, answers.py, and the bug museum,
whose part is right but for one fault. Folds in a text that begin with "Solution" or "Answer" are cut out.

From: the chapters. To: a folder that can be made a repository as it is.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from minfer.course.chapter import PART, Chapter
from minfer.course.starter import generate

FOLD = re.compile(r"<details[^>]*>\s*<summary>\s*(?:<[^>]+>\s*)*(?:Solution|Answer).*?</details>\s*", re.DOTALL | re.IGNORECASE)
HANDED_OUT = ("drawing.svg", "notebook.ipynb")
IGNORED = ".venv/\n.minfer/\n__pycache__/\n.ipynb_checkpoints/\nhand-in.zip\n"
README = """# Build an LLM inference engine

You write the parts of an engine, one a chapter, and run the engine with them. It needs no GPU.

## Set up, once

```
python3 -m venv .venv
. .venv/bin/activate
pip install -r requirements.txt
minfer doctor
```

Python 3.11 or newer. `minfer doctor` says which chapters this computer can check; those with Triton kernels need Linux.

## A chapter

Each folder is one. Read its `README.md`, write in its `part.py`, and ask for a check as often as you like:

```
minfer check ch{number:02}
minfer hint ch{number:02} {task}
minfer status
```

The check draws its cases at random; when one fails, it shows the smallest that it finds. Your grade comes from the same properties on
other cases. `questions.md` has the questions that people read and mark.

| chapter | folder | you write | points |
|---|---|---|--:|
{rows}

## Hand in

Only the files called `part.py` are graded, each in its own folder, and your answers to `questions.md`. This makes an archive of them:

```
python -m zipfile -c hand-in.zip */part.py
```

What else is in the archive is not used. The grader runs your file in a process of its own, without network, with 10 seconds for each
call. It can import PyTorch, numpy, the standard library, and minfer without the parts that you are to write: what the starter imports
is enough.

Do not publish your solutions, and do not open pull requests with them at minfer's own repository.
"""


def write(folder: Path, chapters: list[Chapter], install: str) -> None:
    """install: what `requirements.txt` names."""
    folder.mkdir(parents=True)
    (folder / "requirements.txt").write_text(f"{install}\n", encoding="utf-8")
    (folder / ".gitignore").write_text(IGNORED, encoding="utf-8")
    (folder / "README.md").write_text(readme(chapters), encoding="utf-8")
    for chapter in chapters:
        home = folder / chapter.name
        home.mkdir()
        (home / PART).write_text(generate(chapter), encoding="utf-8")
        (home / "questions.md").write_text(questions(chapter), encoding="utf-8")
        text = chapter.folder / "README.md"
        if text.is_file():
            (home / "README.md").write_text(without_solutions(text.read_text(encoding="utf-8")), encoding="utf-8")
        for name in HANDED_OUT:
            if (chapter.folder / name).is_file():
                shutil.copyfile(chapter.folder / name, home / name)


def readme(chapters: list[Chapter]) -> str:
    rows = [
        f"| {chapter.number}. {chapter.title} | `{chapter.name}` | {', '.join(f'`{name}`' for name in chapter.part.values())} "
        f"| {chapter.points} |"
        for chapter in chapters
    ]
    return README.format(number=chapters[0].number, task=chapters[0].tasks[0].id, rows="\n".join(rows))


def without_solutions(text: str) -> str:
    return FOLD.sub("", text)


def questions(chapter: Chapter) -> str:
    """The self-checks, without their answers, and the written questions, with how they are marked."""
    lines = [f"# Questions of chapter {chapter.number}, {chapter.title}", "", "## For yourself", ""]
    lines += [f"{i}. {each.question} (in {each.unit or 'a number'})" for i, each in enumerate(chapter.selfchecks, start=1)]
    for each in chapter.written:
        lines += ["", "## To hand in", "", each.question, "", "Marked so:", "", *(f"- {line}" for line in each.rubric)]
    return "\n".join(lines) + "\n"
