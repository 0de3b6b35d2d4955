"""An engine for the tests of `minfer batch`, and an input with the output of one unbroken run."""

from __future__ import annotations

import pytest
from batch_files import BAD, answers_of, many_lines, write
from cli_runner import tiny_model

from minfer.batch.run import run_batch
from minfer.llm import LLM

OPTIONS = {"dtype": "float32", "device": "cpu", "max_num_seqs": 6, "num_kv_blocks": 4, "max_model_len": 128}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    return tiny_model(tmp_path_factory.mktemp("tiny") / "tiny")


@pytest.fixture(scope="module")
def llm(tiny):
    """With a prefix cache, and so few blocks that sequences give way."""
    with LLM(tiny, stage="cpu-torch", **OPTIONS) as llm:
        yield llm


@pytest.fixture(scope="module")
def unbroken(llm, tmp_path_factory):
    """An input of every kind of line, and the output of one run."""
    folder = tmp_path_factory.mktemp("unbroken")
    source = write(folder / "in.jsonl", [*many_lines(24, seed=1, longest=14), *BAD[:2], b""])
    run_batch(source, folder / "out.jsonl", answers_of(llm), "tiny")
    assert llm.stats().num_preemptions, "too many blocks: nothing gave way"
    return source, (folder / "out.jsonl").read_bytes()
