"""Slot `attention` in C++, for CPUs: `csrc/attention.cpp`, compiled when this part is first used, and kept.

Importing this file builds it, once a machine, so that where that fails the error comes when an engine is made, not amid its requests;
LLM then takes the stage `cpu-torch`, unless this part was asked for. What is built is kept by its source, PyTorch's version and
place, and the instructions of the processor: after a change of any of them it is built again.

From: `write_kv`, which has just put this step's K and V into the cache. To: the o projection of `model.py`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from rich.console import Console

from minfer.errors import PartError
from minfer.parts import KV
from minfer.types import Batch
from minfer.write_kv.layout import strides

needs = {"compiler"}
log = logging.getLogger(__name__)

SOURCES = Path(__file__).with_name("csrc")
COMPILERS = ("c++", "g++", "clang++")
INSTRUCTIONS = {
    "AVX2": ["-mavx2", "-mfma", "-mf16c", "-DCPU_CAPABILITY=AVX2", "-DCPU_CAPABILITY_AVX2"],
    "AVX512": ["-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma", "-mf16c",
               "-DCPU_CAPABILITY=AVX512", "-DCPU_CAPABILITY_AVX512"],
}  # fmt: skip
INSTEAD = "use attention=minfer.attention.torch:attention instead"


def command(compiler: str, target: Path) -> list[str]:
    """What builds the library with PyTorch's headers, for the instructions that PyTorch itself uses on this processor."""
    root = Path(torch.__file__).parent
    capability = torch.backends.cpu.get_cpu_capability()
    system = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-fopenmp"]
    return [
        compiler, str(SOURCES / "attention.cpp"), "-o", str(target), "-shared", "-fPIC", "-std=c++20", "-O3", *system,
        *INSTRUCTIONS.get(capability, ["-DCPU_CAPABILITY=DEFAULT"]), f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f"-I{root / 'include'}", f"-L{root / 'lib'}", "-ltorch_cpu", "-lc10",
    ]  # fmt: skip


def library() -> Path:
    """The built library; compiled into MINFER_CACHE, else ~/.cache/minfer, if it is not there.

    Raises:
        PartError: there is no compiler, or it fails, or the folder is not writable.
    """
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise PartError(f"attention.cpp needs a C++ compiler, one of {', '.join(COMPILERS)}, and finds none; install one, or {INSTEAD}")
    what = [*command(compiler, Path("library")), torch.__version__, *(path.read_text() for path in sorted(SOURCES.iterdir()))]
    name = f"attention-{hashlib.sha256(repr(what).encode()).hexdigest()[:16]}.so"
    target = Path(os.environ.get("MINFER_CACHE") or "~/.cache/minfer").expanduser() / "csrc" / name
    if not target.exists():
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent) as folder:
                build(command(compiler, Path(folder) / name))
                os.replace(Path(folder) / name, target)  # whole or not there, whoever else builds it at this moment
        except OSError as error:
            raise PartError(f"attention.cpp cannot be built in {target.parent}: {error}; set MINFER_CACHE, or {INSTEAD}") from error
    return target


def build(command: list[str]) -> None:
    """Run the compiler; a terminal shows that it runs.

    Raises:
        PartError: it fails; the message has its first errors.
    """
    text = "compiling the attention for this machine, once; it takes some seconds"
    log.info(text)
    start = time.monotonic()
    with Console(stderr=True).status(text):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error" in line.lower()] or done.stderr.splitlines()[-3:]
        errors = errors or [f"nothing, and ended with {done.returncode} (-9: it was killed, perhaps for want of memory)"]
        raise PartError(f"attention.cpp cannot be compiled here; {INSTEAD}. {command[0]} says: " + "; ".join(errors[:3]))
    log.info("compiled in %.0f s", time.monotonic() - start)


def load() -> None:
    """Let PyTorch know the operator.

    Raises:
        PartError: the library cannot be loaded; the message says what to do.
    """
    path = library()
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise PartError(f"attention.cpp was built and cannot be loaded; delete {path}, or {INSTEAD}: {error}") from error


load()


def attention(q: torch.Tensor, kv: KV, batch: Batch, scale: float, window: int | None) -> torch.Tensor:
    """See `minfer.parts.Attention`. q's heads lie side by side: its strides are (anything, D, 1). A row whose context is 0 gives zeros.

    float32, float16 and bfloat16; computed in float32.
    """
    strides(kv)
    return torch.ops.minfer_cpp.attention(q, *kv, batch.block_tables, batch.query_start, batch.context_lens, scale, window or 0)
