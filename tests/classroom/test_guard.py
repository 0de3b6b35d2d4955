"""What is refused inside Python, on every system: each attempt in a process of its own, on files made for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import minfer

START = """
import os, sys
sys.path.insert(0, {package!r})
from minfer.course.classroom import guard
home, outside, hidden = {home!r}, {outside!r}, {hidden!r}
os.chdir(home)
early = os.open(outside, os.O_RDONLY)
guard.install(home, [hidden])
"""
REFUSED = {
    "a socket": "import socket; socket.socket()",
    "a raw socket": "import _socket; _socket.socket()",
    "a program": "import subprocess; subprocess.run(['true'])",
    "a shell": "os.system('true')",
    "a fork": "os.fork()",
    "a spawn": "os.posix_spawn('/bin/true', ['true'], {})",
    "another image": "os.execv('/bin/true', ['true'])",
    "a signal": "os.kill(os.getppid(), 0)",
    "a library": "import ctypes; ctypes.CDLL(None)",
    "objects": "import gc; gc.get_objects()",
    "reading what is hidden": "open(hidden + '/secret').read()",
    "a way round by dots": "open(home + '/../hidden/secret').read()",
    "a way round by a link": "os.symlink(hidden, 'link'); open('link/secret').read()",
    "listing what is hidden": "os.listdir(hidden)",
    "writing outside": "open(outside + '/file', 'w')",
    "appending outside": "open(outside + '/file', 'a')",
    "opening outside to write": "os.open(outside + '/file', os.O_WRONLY)",
    "removing outside": "os.remove(outside + '/file')",
    "removing from an open folder": "os.remove('file', dir_fd=early)",
    "an open folder": "os.open(outside, os.O_RDONLY)",
    "moving out": "open('a', 'w').close(); os.rename('a', outside + '/a')",
    "moving in": "os.rename(outside + '/file', 'a')",
    "a tree": "import shutil; shutil.rmtree(outside)",
    "a folder outside": "os.mkdir(outside + '/new')",
    "rights outside": "os.chmod(outside + '/file', 0)",
    "another folder": "os.chdir(outside)",
    "too many files": "for i in range(1000): open(str(i), 'w').close()",
}
ALLOWED = {
    "its own files": "open('a', 'w').write('x'); open('a').read(); os.remove('a')",
    "reading elsewhere": "open(outside + '/file').read()",
    "the null device": "open(os.devnull, 'w').write('x')",
    "importing": "import statistics, xml.dom.minidom",
    "threads": "import threading; t = threading.Thread(target=print); t.start(); t.join()",
}


def attempt(tmp_path: Path, code: str) -> subprocess.CompletedProcess:
    places = {name: tmp_path / name for name in ("home", "outside", "hidden")}
    for place in places.values():
        place.mkdir()
    (places["outside"] / "file").write_text("old")
    (places["hidden"] / "secret").write_text("42")
    start = START.format(package=str(Path(minfer.__file__).parents[1]), **{name: str(place) for name, place in places.items()})
    done = subprocess.run([sys.executable, "-I", "-c", start + code], capture_output=True, text=True, timeout=60, check=False)
    assert (places["outside"] / "file").read_text() == "old"
    assert sorted(path.name for path in places["outside"].iterdir()) == ["file"]
    return done


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path, name):
    done = attempt(tmp_path, REFUSED[name])
    assert "PermissionError: a submission" in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(tmp_path, name):
    done = attempt(tmp_path, ALLOWED[name])
    assert (done.returncode, done.stderr) == (0, "")
