"""minfer's own cache of converted models: folders that are either whole or not there.

From: `hub.py` and `wheel.py`, with a way to fill a folder. To: a path in MINFER_CACHE, else in ~/.cache/minfer.

A folder is filled beside its place and moved there in one step, so a process that is killed, or a full disk, never leaves a
half-finished one behind. A lock lets one process do the work while the others wait for it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from minfer.errors import ModelError


def root() -> Path:
    """Where the folders lie."""
    return Path(os.path.expanduser(os.environ.get("MINFER_CACHE") or "~/.cache/minfer")) / "models"


def find(name: str) -> Path | None:
    """The folder of that name; None where it is missing or damaged."""
    return root() / name if is_whole(root() / name) else None


def make(name: str, fill: Callable[[Path], None]) -> Path:
    """The folder of that name; where there is none, `fill` is called with an empty folder.

    Raises:
        ModelError: the disk is full or not writable. What `fill` raises comes through, and nothing is left behind.
    """
    target = root() / name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target.with_name(f".{name}.lock")):
            if not is_whole(target):  # else another process made it while this one waited
                part = target.with_name(f".{name}.part")
                shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
                part.mkdir()
                try:
                    fill(part)
                    shutil.rmtree(target, ignore_errors=True)
                    os.replace(part, target)
                finally:
                    shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise ModelError(
            f"cannot write to the cache folder {root()}: {error}; make room, or set MINFER_CACHE to another folder"
        ) from error
    return target


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for, and hold, a lock between processes. The system lets go of it when the process ends, however it ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_whole(path: Path) -> bool:
    """Whether a folder has its settings, and every file of weights in full length."""
    index = path / "model.safetensors.index.json"
    try:
        files = set(json.loads(index.read_text())["weight_map"].values()) if index.is_file() else {"model.safetensors"}
        return (path / "config.json").is_file() and all(has_full_length(path / name) for name in files)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, struct.error):
        return False


def has_full_length(path: Path) -> bool:
    """Whether a safetensors file is as long as its header says: 8 bytes of length, the header, the tensors."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        size = path.stat().st_size
        if length > size:
            return False
        header = json.loads(file.read(length))
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    return size == 8 + length + max(ends, default=0)
