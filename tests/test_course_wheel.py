"""The chapters travel in the wheel: whoever installs minfer without a clone has them too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile

import pytest
from course_fixtures import CHAPTERS, ROOT, write_chapter

from minfer.course.library import folders

FILES = ["pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"]


@pytest.mark.slow
def test_a_wheel_has_the_chapters(tmp_path):
    """Built from a copy, unpacked elsewhere: the command finds them there, and starts one."""
    pytest.importorskip("setuptools")
    source, site = tmp_path / "source", tmp_path / "site"
    for name in ("minfer", "chapters"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, source)
    if not CHAPTERS:
        write_chapter(source / "chapters").starter.write_text("# a starter\n")
    build = "from setuptools import build_meta; build_meta.build_wheel('..')"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True, timeout=100)
    zipfile.ZipFile(next(tmp_path.glob("minfer-*.whl"))).extractall(site)
    assert [path.name for path in folders(site / "minfer" / "chapters")] == [path.name for path in folders(source / "chapters")]
    assert not list((site / "minfer" / "chapters").rglob("*.pyc"))
    env = {**os.environ, "PYTHONPATH": str(site)}
    home = tmp_path / "home"
    home.mkdir()
    command = [sys.executable, "-m", "minfer", "start", "ch04"]
    done = subprocess.run(command, cwd=home, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    starter = site / "minfer" / "chapters" / "04_continuous" / "part.py"
    assert (home / "04_continuous" / "part.py").read_text() == starter.read_text()
    assert str(starter.parent / "README.md") in done.stdout
