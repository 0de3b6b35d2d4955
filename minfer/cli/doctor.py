"""`minfer doctor`: what this machine has, what it lacks, and what to do about it.

From: the machine. To: a table, or JSON.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from minfer.cli.console import print_json, print_table
from minfer.hub import DEFAULT_MODEL

HUB_SECONDS = 4.0
LITTLE_MEMORY = 2.0  # GiB free: the default model in float32, its K/V cache, and PyTorch itself


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    value: str
    ok: bool = True
    needed: bool = True  # whether minfer cannot run at all without it
    advice: str | None = None


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Look at this machine, and say what to do where something is missing. Exits with 1 where minfer cannot run."""
    checks = [check() for check in CHECKS]
    well = all(check.ok or not check.needed for check in checks)
    if as_json:
        print_json({"ok": well, "checks": [asdict(check) for check in checks]})
    else:
        print_table(
            "This machine",
            ["", "what", "found", "what to do"],
            [[mark(check), check.name, check.value, check.advice or ""] for check in checks],
        )
    if not well:
        raise typer.Exit(1)


def mark(check: Check) -> str:
    """ok, or how bad it is."""
    return "ok" if check.ok else "bad" if check.needed else "none"


def python() -> Check:
    ok = sys.version_info >= (3, 11)
    value = f"{platform.python_version()} in {sys.prefix}, {platform.system()} {platform.machine()}"
    return Check("python", value, ok, advice=None if ok else "install Python 3.11 or later")


def packages() -> Check:
    from minfer.bench.report import version_of

    names = ("torch", "transformers", "tokenizers", "safetensors", "huggingface_hub", "numpy")
    found = {name: version_of(name) for name in names}
    lacking = [name for name, version in found.items() if version is None]
    value = ", ".join(f"{name} {version or 'missing'}" for name, version in found.items())
    return Check("packages", value, not lacking, advice=f"pip install {' '.join(lacking)}" if lacking else None)


def threads() -> Check:
    import psutil
    import torch

    count, cores = torch.get_num_threads(), psutil.cpu_count(logical=False) or psutil.cpu_count()
    ok = count <= cores
    setting = os.environ.get("OMP_NUM_THREADS", "not set")
    advice = None if ok else f"more threads than cores are slow: set OMP_NUM_THREADS={cores}"
    waits = "sleep" if os.environ.get("OMP_WAIT_POLICY", "").upper() == "PASSIVE" else "spin"
    return Check("threads", f"{count} (OMP_NUM_THREADS {setting}); they {waits} while they wait for each other", ok, False, advice)


def processor() -> Check:
    import torch

    from minfer.bench.report import hardware

    facts = hardware()
    features = torch.backends.cpu.get_cpu_capability()
    return Check("processor", f"{facts['cpu']}, {facts['cores']} cores, {features}")


def memory() -> Check:
    import psutil

    from minfer.bench.report import GIB

    facts = psutil.virtual_memory()
    free = facts.available / GIB
    advice = None if free >= LITTLE_MEMORY else f"the default model wants {LITTLE_MEMORY:.0f} GiB; close other programs"
    return Check("memory", f"{free:.1f} GiB free of {facts.total / GIB:.1f}", free >= LITTLE_MEMORY, False, advice)


def gpu() -> Check:
    import torch

    from minfer.bench.report import hardware

    gpus = [f"{each['name']}, {each['memory_gib']} GiB" for each in hardware()["gpus"]]
    if gpus:
        return Check("gpu", f"{'; '.join(gpus)}; CUDA {torch.version.cuda}", needed=False)
    driver = shutil.which("nvidia-smi")
    advice = "this PyTorch was built without CUDA: install a CUDA build" if driver else "not needed: the CPU's stages run"
    return Check("gpu", "none that PyTorch can use", False, False, advice)


def triton() -> Check:
    from minfer.bench.report import version_of

    version = version_of("triton")
    advice = None if version else "not needed on a CPU; on Linux with a GPU: pip install triton"
    return Check("triton", version or "not installed", version is not None, False, advice)


def compiler() -> Check:
    found = next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None)
    advice = None if found else "without one the stage cpu-torch takes the place of cpu; install g++ or clang"
    return Check("compiler", found or "no C++ compiler", found is not None, False, advice)


def stage() -> Check:
    from minfer.choice import best_stage
    from minfer.resolve import why_not

    best, why = best_stage()
    reason = why_not(best)
    return Check("default stage", f"{best.name}: {why}", reason is None, advice=reason)


def hub() -> Check:
    from huggingface_hub import constants

    from minfer.hub import offline, within

    if offline():
        return Check("hub", "switched off by HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE", False, False, "unset it to pull models")
    try:
        within(HUB_SECONDS, lambda: ask(constants.ENDPOINT))
    except Exception as error:  # whatever a network can do
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        advice = f"local models work, and {DEFAULT_MODEL} can come from the package index; check network and HF_ENDPOINT"
        return Check("hub", f"{constants.ENDPOINT} does not answer ({reason})", False, False, advice)
    return Check("hub", f"{constants.ENDPOINT} answers", needed=False)


def ask(endpoint: str) -> None:
    """Any answer of a web server will do, also a refusal."""
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    try:
        urlopen(Request(endpoint, method="HEAD"), timeout=HUB_SECONDS).close()
    except HTTPError as answer:
        answer.close()


def model() -> Check:
    from minfer import wheel
    from minfer.hub import ALIASES, pulled

    path = pulled(ALIASES[DEFAULT_MODEL], None) or wheel.pulled()
    advice = None if path else f"minfer pull {DEFAULT_MODEL}"
    return Check("default model", str(path or f"{DEFAULT_MODEL} is not here yet"), path is not None, False, advice)


def chapters() -> Check:
    """Which chapters' checks run here, and how."""
    from minfer.course.chapter import ChapterError
    from minfer.course.library import all_chapters
    from minfer.resolve import machine

    try:
        found = all_chapters()
    except ChapterError as error:
        return Check("chapters", "none", False, False, str(error))
    kernels = [chapter.id for chapter in found if "triton" in chapter.needs]
    others = [chapter.id for chapter in found if chapter.id not in kernels]
    if not kernels or {"cuda", "triton"} <= machine():
        return Check("chapters", f"{', '.join([chapter.id for chapter in found])} can be checked", needed=False)
    if "triton" not in machine():
        advice = "its kernels can be read, not checked: Triton is for Linux" if sys.platform != "linux" else "pip install triton"
        return Check("chapters", f"{', '.join(others)} can be checked; not {', '.join(kernels)}", False, False, advice)
    how = f"{', '.join(others)} can be checked; {', '.join(kernels)} in Triton's interpreter, which is slow"
    return Check("chapters", how, needed=False)


CHECKS: tuple[Callable[[], Check], ...] = (
    python, packages, threads, processor, memory, gpu, triton, compiler, stage, chapters, hub, model
)  # fmt: skip
