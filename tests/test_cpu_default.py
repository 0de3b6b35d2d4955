"""The stage that LLM takes on a CPU: with the attention in C++ where that can be built, else with PyTorch's, and one line says why."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runner import run as run_cli
from engine_fixtures import checkpoint, oracle

from minfer import LLM, SamplingParams
from minfer.bench import ladder
from minfer.choice import best_stage
from minfer.errors import PartError
from minfer.resolve import machine
from minfer.stages import CPU, CPU_TORCH, LADDER

MODULE = "minfer.attention.cpp"
GREEDY = SamplingParams(temperature=0, max_tokens=5, ignore_eos=True)
FAILURES = {  # what is in the way, and what the warning must say of it
    "no compiler": "needs a C++ compiler (install g++ or clang)",
    "it fails": "no such header",
    "no place for it": "set MINFER_CACHE",
    "damaged": "cannot be loaded; delete",
}
SCRIPTS = {"it fails": "echo 'x.h:1: error: no such header' >&2; exit 1", "damaged": 'shift; echo broken > "$2"'}


def compiler(folder: Path, script: str) -> None:
    """Put a script of that name before every real compiler on the PATH."""
    folder.mkdir(exist_ok=True)
    (folder / "c++").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "c++").chmod(0o755)


@pytest.fixture(params=FAILURES)
def failure(request, tmp_path, monkeypatch) -> str:
    """A machine where the attention in C++ is not there yet and cannot be built."""
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    monkeypatch.setenv("MINFER_CACHE", str(tmp_path / "cache"))
    compiler(tmp_path / "bin", SCRIPTS.get(request.param, ""))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    has = machine() | {"compiler"}
    monkeypatch.setattr("minfer.resolve.machine", lambda: has - {"compiler"} if request.param == "no compiler" else has)
    if request.param == "no place for it":
        (tmp_path / "cache").write_text("a file where a folder should be")
    return request.param


def test_without_it_the_mix_runs_with_pytorchs_attention(failure, caplog):
    """LLM() works all the same and gives the oracle's tokens; one warning says which stage it is, what that costs, and why."""
    with caplog.at_level(logging.WARNING, logger="minfer"), LLM(str(checkpoint()), device="cpu", max_model_len=64) as llm:
        tokens = llm.generate([[5, 6, 7]], GREEDY)[0].outputs[0].token_ids
    assert oracle().count_ties([5, 6, 7], tokens) == 0
    assert llm.stage == CPU_TORCH
    (warning,) = (record.getMessage() for record in caplog.records if record.name.startswith("minfer"))
    assert "not the stage 'cpu' but 'cpu-torch', which is slower on long contexts" in warning
    assert FAILURES[failure] in warning
    assert "\n" not in warning


def test_asked_for_by_name_it_is_an_error(failure):
    """Nobody gets another part than the one that was named."""
    for named in ({"stage": "cpu"}, {"stage": "chunked", "swap": {"attention": CPU.attention}}):
        with pytest.raises(PartError) as error:
            LLM(str(checkpoint()), device="cpu", max_model_len=64, **named)
        assert FAILURES[failure] in str(error.value)
        assert "cpu-torch" in str(error.value) or "attention=minfer.attention.torch:attention" in str(error.value)


def test_the_ladder_climbs_what_can_run(failure):
    """`minfer ladder` and `minfer demo` end with the mix that LLM would take."""
    stages, refused = ladder.runnable("cpu")
    assert stages[-1] == CPU_TORCH
    assert CPU not in stages
    assert {stage.name for stage in LADDER} <= {stage.name for stage in stages} | set(refused)


def test_doctor_names_the_stage(failure, monkeypatch):
    """It tells what LLM would take, and that this is no reason to fail."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "cpu-torch: it is the fastest mix" in run_cli("doctor").stdout


def test_it_is_taken_where_it_can_be_built():
    """The mix without it differs in nothing else."""
    if "compiler" not in machine():
        pytest.skip("needs a C++ compiler")
    assert best_stage("cpu")[0] is CPU
    assert CPU.differs(CPU_TORCH) == ["attention"]


def test_two_processes_may_build_at_once(tmp_path):
    """Each finds a whole library, and nothing half-built is left; a third builds nothing."""
    if "compiler" not in machine():
        pytest.skip("needs a C++ compiler")
    from minfer.attention import cpp

    both = f"for i in $(seq 200); do [ $(wc -l < {tmp_path}/calls) -ge 2 ] && break; sleep 0.1; done"  # build at once
    script = f'echo "$$" >> {tmp_path}/calls; head -c 1000 {cpp.library()} > "$3"; {both}; cp {cpp.library()} "$3"'
    compiler(tmp_path / "bin", script)
    variables = {"MINFER_CACHE": str(tmp_path / "cache"), "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-c", f"import torch, {MODULE}; print(torch.ops.minfer_cpp.attention)"]

    def start() -> subprocess.Popen:
        return subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    for count in (2, 1):
        for process in [start() for _ in range(count)]:
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
            assert "minfer_cpp.attention" in out
        assert len((tmp_path / "calls").read_text().split()) == 2
    assert len(list((tmp_path / "cache" / "csrc").iterdir())) == 1
