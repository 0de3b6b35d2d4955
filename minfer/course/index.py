"""The list of chapters: chapters/README.md, made from what each chapter says of itself.

From: every `chapter.toml`. To: `make starters`.
"""

from __future__ import annotations

from minfer.course.chapter import Chapter

HEAD = """# The chapters

Each chapter builds one stage of the ladder: you write the part that the stage swaps in, and run the engine with it. The command that
begins a chapter is `minfer start ch04`; `minfer check ch04` says how far you are, and `minfer status` what is done. Your own files lie
where you started them, and no later version of minfer touches them. [CHANGES.md](CHANGES.md) says what changed in which starter.

In a chapter's folder lie its text, its notebook (open it in Jupyter or an editor), `museum.py` with the bug of the museum, `measure.py`
where the chapter measures something itself, and `answers.py`, whose functions compute the answers of the self-checks:
`PYTHONPATH=chapters/04_continuous python -c "import answers; print(answers.static_steps())"`.
`minfer diff ch03 ch04` shows the reference before and after, so it shows the solution: run it when you have yours.
"""
COLUMNS = "| chapter | you write | stage | minutes | checked on |\n|---|---|---|--:|---|"


def index(chapters: list[Chapter]) -> str:
    """The page as Markdown. Made by `make starters`; not to be edited."""
    rows = [COLUMNS]
    for chapter in chapters:
        parts = ", ".join(f"`{slot}`" for slot in chapter.part)
        where = f"{chapter.hardware}{'; Linux, for Triton' if 'triton' in chapter.needs else ''}"
        title = f"[{chapter.number}. {chapter.title}]({chapter.name}/README.md)<br>{chapter.summary}"
        rows.append(f"| {title} | {parts} | `{chapter.stage}` | {chapter.minutes} | {where} |")
    total = sum(chapter.minutes for chapter in chapters)
    return f"{HEAD}\n" + "\n".join(rows) + f"\n\n{len(chapters)} chapters, about {total / 60:.0f} hours in all.\n"
