"""Each Triton kernel equals the float64 reference in Triton's interpreter: the tests of `interpreted_kernels.py`, in a process that
chooses the interpreter before it imports Triton."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

pytest.importorskip("triton")

FILE = Path(__file__).with_name("interpreted_kernels.py")
TESTS = [node.name for node in ast.parse(FILE.read_text()).body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


@pytest.mark.skipif(
    tuple(map(int, numpy.__version__.split(".")[:2])) >= (2, 4), reason="Triton's interpreter cannot loop with numpy 2.4 or later"
)
@pytest.mark.parametrize("test", TESTS)
def test_kernel_in_the_interpreter(test):
    """The docstring of the test of that name in interpreted_kernels.py says what holds; its failure is repeated here."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "ignore", f"{FILE}::{test}"]
    done = subprocess.run(command, env=environment, cwd=FILE.parents[1], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert re.search(r"^[1-9]\d* passed in", done.stdout, re.MULTILINE)
