"""Runs JavaScript modules from tests, with node; without it such tests are skipped."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest


def node(script: str, given: object) -> object:
    """What a JavaScript module prints as JSON, given JSON on stdin."""
    if shutil.which("node") is None:
        pytest.skip("needs node")
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script], input=json.dumps(given), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
