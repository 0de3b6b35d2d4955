"""What is taken of a submission, and what is left: only part.py, only regular files, never more than a limit."""

from __future__ import annotations

import io
import os
import tempfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import make_chapter

from minfer.course.chapter import ChapterError
from minfer.course.classroom import collect as collecting
from minfer.course.classroom.collect import LARGEST, collect
from minfer.errors import MinferError


@pytest.fixture
def chapter(tmp_path_factory, monkeypatch):
    made = make_chapter(tmp_path_factory.mktemp("chapters"), monkeypatch)

    def find(name: str):
        if name in (made.name, "2", "02"):
            return made
        raise ChapterError("none")

    monkeypatch.setattr(collecting, "find_chapter", find)
    return made


def test_a_file(chapter, tmp_path):
    file = tmp_path / "part.py"
    file.write_text("# Chapter 2, A small one. Edit this file\n")
    assert collect(file).texts == {"ch02": file.read_text()}
    file.write_text("x = 1\n")
    assert collect(file, chapter).texts == {"ch02": "x = 1\n"}
    assert "nothing to grade" in collect(file).notes[-1]


def test_a_folder(chapter, tmp_path):
    """The chapter's folder counts, the shortest path first; links, pipes and what is too long do not."""
    for name in ("02_small", "deep/02_small", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "02_small" / "part.py").write_text("first\n")
    (tmp_path / "deep" / "02_small" / "part.py").write_text("second\n")
    (tmp_path / "other" / "part.py").write_text("third\n")
    (tmp_path / "conftest.py").write_text("")
    (tmp_path / "minfer").mkdir()
    found = collect(tmp_path)
    assert found.texts == {"ch02": "first\n"}
    text = " ".join(found.notes)
    assert "deep/02_small/part.py is not used" in text
    assert "other/part.py is not used" in text
    assert "conftest.py was handed in, and is not used" in text
    assert "minfer was handed in, and is not used" in text


@pytest.mark.parametrize("kind", ["link", "folder link", "pipe", "folder", "long", "binary", "device"])
def test_what_is_no_text(chapter, tmp_path, kind):
    home = tmp_path / "02_small"
    if kind == "folder link":
        (tmp_path.parent / "elsewhere").mkdir(exist_ok=True)
        (tmp_path.parent / "elsewhere" / "part.py").write_text("secret")
        home.symlink_to(tmp_path.parent / "elsewhere")
    else:
        home.mkdir()
        file = home / "part.py"
        if kind == "link":
            file.symlink_to("/etc/passwd")
        elif kind == "device":
            file.symlink_to("/dev/zero")
        elif kind == "pipe":
            os.mkfifo(file)
        elif kind == "folder":
            file.mkdir()
        else:
            file.write_bytes(b"x" * (LARGEST + 1) if kind == "long" else b"\xff\xfe\x00")
    found = collect(tmp_path)
    assert found.texts == {}
    assert "nothing to grade" in found.notes[-1]


def test_a_zip(chapter, tmp_path):
    archive = tmp_path / "hand-in.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("02_small/part.py", "mine\n")
        opened.writestr("../../02_small/part.py", "escape\n")
        opened.writestr("results.json", "{}")
        opened.writestr("x/02_small/part.py", b"0" * (200 << 20))  # a bomb: 200 kB of archive
    before = set(Path(tmp_path).iterdir())
    tracemalloc.start()
    found = collect(archive)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 << 20
    assert found.texts == {"ch02": "mine\n"}
    assert set(Path(tmp_path).iterdir()) == before
    assert any("results.json" in note for note in found.notes)


@settings(max_examples=60)
@given(data=st.binary(max_size=400), cut=st.integers(0, 300))
def test_broken_archives(data, cut):
    """Whatever bytes are handed in: texts or notes, and no error."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as opened:
        opened.writestr("02_small/part.py", "mine\n" * 20)
    broken = bytearray(whole.getvalue())
    broken[cut % len(broken) : cut % len(broken) + len(data)] = data
    for content in (data, bytes(broken)):
        with tempfile.NamedTemporaryFile(suffix=".zip") as file:
            file.write(content)
            file.flush()
            found = collect(Path(file.name))
            assert found.texts or found.notes


def test_nothing_there(tmp_path):
    with pytest.raises(MinferError, match="there is no"):
        collect(tmp_path / "none")
