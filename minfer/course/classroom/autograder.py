"""An autograder for Gradescope: a zip with setup.sh, run_autograder, and this very minfer with its chapters.

Source of the format: gradescope-autograders.readthedocs.io, "Autograder Specifications". The image must have Python 3.11 or newer.

From: the installed package. To: a zip that an instructor uploads.
"""

from __future__ import annotations

import zipfile
from importlib.metadata import requires
from pathlib import Path

from minfer.course.chapter import Chapter
from minfer.course.classroom.library import PACKAGE

SETUP = """#!/bin/sh
# Gradescope runs this once, when the image is made.
set -e
HERE=${AUTOGRADER:-/autograder}
for PYTHON in python3.13 python3.12 python3.11 python3; do
    if command -v $PYTHON >/dev/null && $PYTHON -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then break; fi
done
$PYTHON -c 'import sys; sys.exit("Choose an image with Python 3.11 or newer." if sys.version_info < (3, 11) else 0)'
$PYTHON -m venv "$HERE/venv" || { apt-get update && apt-get install -y $PYTHON-venv && $PYTHON -m venv "$HERE/venv"; }
"$HERE/venv/bin/pip" install torch --index-url https://download.pytorch.org/whl/cpu
"$HERE/venv/bin/pip" install -r "$HERE/source/requirements.txt"
# What a submission must not be able to read.
chmod 700 "$HERE/source"
"""
RUN = """#!/bin/sh
# Gradescope runs this for every submission.
HERE=${{AUTOGRADER:-/autograder}}
RESULTS="$HERE/results/results.json"
cd "$HERE/source" || exit 1
PYTHONPATH="$HERE/source/lib" OMP_NUM_THREADS=1 "$HERE/venv/bin/python" -m minfer classroom grade "$HERE/submission" \\
    --chapter {chapter} --gradescope "$RESULTS"
if [ ! -s "$RESULTS" ]; then
    echo '{{"score": 0, "output": "The grader failed, which is no fault of yours. Tell your instructor.", "tests": []}}' > "$RESULTS"
fi
"""
LEFT_OUT = ("part.py", "museum.py", "notebook.ipynb", "notebook.py", "drawing.svg")


def write(archive: Path, chapter: Chapter) -> None:
    """One chapter's autograder."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        _add(opened, "setup.sh", SETUP, 0o755)
        _add(opened, "run_autograder", RUN.format(chapter=chapter.id), 0o755)
        _add(opened, "requirements.txt", requirements())
        for path in sorted(PACKAGE.rglob("*")):
            inside = path.relative_to(PACKAGE)
            if path.is_file() and "__pycache__" not in path.parts and inside.parts[0] != "chapters":
                _add(opened, f"lib/minfer/{inside.as_posix()}", path.read_text(encoding="utf-8"))
        home = chapter.folder
        for path in sorted(home.iterdir()):
            if path.suffix in (".toml", ".md", ".py") and path.name not in LEFT_OUT:
                _add(opened, f"lib/chapters/{home.name}/{path.name}", path.read_text(encoding="utf-8"))


def _add(archive: zipfile.ZipFile, name: str, text: str, mode: int = 0o644) -> None:
    """With a fixed date, so that the same chapters give the same archive."""
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.external_attr = (0o100000 | mode) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, text)


def requirements() -> str:
    """What minfer itself needs, without its extras."""
    return "\n".join(line for line in requires("minfer") or () if "extra ==" not in line) + "\n"
