"""What every report must say: on which machine, with which versions, of which commit. And how it is written.

From: the machine. To: the JSON files of `minfer ladder` and `minfer bench`, and `minfer doctor`.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tempfile
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from minfer.errors import MinferError

GIB = 2**30
PACKAGES = ("minfer", "torch", "triton", "transformers")


def header() -> dict:
    """The facts that every report opens with."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "hardware": hardware(),
        "versions": versions(),
    }


def hardware() -> dict:
    """Processor, cores, threads that PyTorch uses, memory in GiB, and GPUs with their memory in GiB."""
    import psutil
    import torch

    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return {
        "cpu": cpu_model(),
        "cpu_features": torch.backends.cpu.get_cpu_capability(),
        "cores": psutil.cpu_count(logical=False) or psutil.cpu_count(),
        "logical_cores": psutil.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "memory_gib": round(psutil.virtual_memory().total / GIB, 1),
        "gpus": [{"name": gpu.name, "memory_gib": round(gpu.total_memory / GIB, 1)} for gpu in gpus],
    }


def cpu_model() -> str:
    """The processor's name, as the system knows it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def versions() -> dict[str, str | None]:
    """Python's version, and those of PACKAGES; None for a package that is not installed."""
    return {"python": platform.python_version(), **{name: version_of(name) for name in PACKAGES}}


def version_of(package: str) -> str | None:
    """The installed version; None if there is none. minfer counts also where it runs from its folder, not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        import minfer

        return minfer.__version__ if package == "minfer" else None


def commit() -> str | None:
    """The commit that minfer's own files are at, with "-dirty" where they were changed since; None outside of a checkout."""
    root = Path(__file__).resolve().parents[2]
    try:
        if not (root / ".git").exists():
            return None
        found = git(root, "rev-parse", "HEAD")
        return found + "-dirty" if found and git(root, "status", "--porcelain") else found
    except OSError:
        return None


def git(root: Path, *arguments: str) -> str | None:
    """What git says; None if it refuses."""
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def check_writable(path: Path) -> None:
    """Make the folder of a report before the work is done that fills it.

    Raises:
        MinferError: the report could not be written there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MinferError(f"the folder {path.parent} cannot be made ({error.strerror}); write the report elsewhere") from error
    if path.is_dir():
        raise MinferError(f"{path} is a folder; name a file for the report")
    if not os.access(path.parent, os.W_OK):
        raise MinferError(f"the folder {path.parent} is not writable; write the report elsewhere")


def write_json(path: Path, content: dict) -> None:
    """Write a report; a reader sees the old file or the new one, never half of it.

    Raises:
        ValueError: a number is NaN or infinite, which JSON does not have.
    """
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    check_writable(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
