"""A hub, its cache and a package index that exist only in memory, and the ways in which the real ones fail."""

from __future__ import annotations

import errno
import json
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from huggingface_hub import errors
from safetensors.torch import save_file

REPO = "HuggingFaceTB/SmolLM2-135M-Instruct"
DAMAGES = [("cut", "model-1.safetensors"), ("remove", "model-1.safetensors"), ("remove", "config.json")]
FILES = ["config.json", "model.safetensors", "tokenizer.json", "README.md"]


def checkpoint(folder: Path, shards: int = 1) -> Path:
    """A folder that counts as whole: settings, and weights of the length that their header says."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    names = ["model.safetensors"] if shards == 1 else [f"model-{i}.safetensors" for i in range(shards)]
    for name in names:
        save_file({name: torch.ones(8)}, folder / name)
    if shards > 1:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {name: name for name in names}}))
    return folder


def damage(folder: Path, how: str, name: str) -> None:
    """Cut the end of a file, or remove it."""
    path = folder / name
    path.write_bytes(path.read_bytes()[:-5]) if how == "cut" else path.unlink()


def answer(status: int) -> Any:
    """An HTTP response, as far as the hub's errors look at it."""
    return SimpleNamespace(status_code=status, headers={}, request=None)


class FakeHub:
    """Stands for the network: the hub, its cache on this machine, and the package index."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.cached = False  # whether the hub's cache has the model
        self.files = FILES
        self.error: Exception | None = None  # what the hub answers with
        self.at = "model_info"  # which of its two calls that happens in
        self.delay = 0.0
        self.damage: tuple[str, str] | None = None  # what a download leaves behind
        self.calls: list[str] = []

    def model_info(self, api, repo, revision=None, timeout=None):
        self.calls.append("model_info")
        time.sleep(self.delay)
        if self.error and self.at == "model_info":
            raise self.error
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=name) for name in self.files])

    def snapshot_download(self, repo, revision=None, local_files_only=False, **patterns):
        self.repo, self.revision, self.patterns = repo, revision, patterns
        if local_files_only and not self.cached:
            raise errors.LocalEntryNotFoundError("nothing here")
        if not local_files_only:
            self.calls.append("snapshot_download")
            if self.error:
                raise self.error
            shutil.rmtree(self.folder, ignore_errors=True)
            checkpoint(self.folder, shards=2)
            if self.damage:
                damage(self.folder, *self.damage)
        return str(self.folder)

    def run(self, command, **options):
        self.calls.append("pip")
        return SimpleNamespace(returncode=1, stdout="", stderr="ERROR: no matching distribution")


class ConnectError(Exception):
    """Stands for the errors of the HTTP library, which are of no class that minfer knows."""


CONNECT = ConnectError("name resolution failed")
FAILURES = {
    "gated": (errors.GatedRepoError("x", response=answer(403)), "is gated: accept its terms at https://huggingface.co/org/name.*HF_TOKEN"),
    "missing": (errors.RepositoryNotFoundError("x", response=answer(404)), "shows no model org/name.*spelling.*private"),
    "revision": (errors.RevisionNotFoundError("x", response=answer(404)), "has no revision"),
    "forbidden": (errors.HfHubHTTPError("x", response=answer(403)), "answered 403.*HF_TOKEN"),
    "down": (errors.HfHubHTTPError("x", response=answer(503)), "answered 503.*try again later"),
    "no network": (CONNECT, "no hub answers.*ConnectError: name resolution failed.*check the network"),
    "timeout": (TimeoutError("slow"), "no hub answers"),
    "refused": (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), "no hub answers"),
    "lost": (errors.LocalEntryNotFoundError("Got: ConnectError\nmore"), "no hub answers.*Got: ConnectError"),
    "disk full": (OSError(errno.ENOSPC, "No space left on device"), "cannot be stored.*No space left.*HF_HOME"),
}
