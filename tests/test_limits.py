"""Limits: too little memory and sizes that contradict each other are errors at the start, and nothing optional is needed."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from engine_fixtures import SWAP, checkpoint, make_engine, oracle

from minfer.config import make_config
from minfer.errors import MinferError
from minfer.executor.memory import num_blocks


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory_share": 1e-9}, r"too little memory.* need .* MiB.* available .*memory_share=1e-09.*raise memory_share"),
        ({"num_kv_blocks": 10**9}, r"too little memory.*1000000001 blocks of 4 tokens need .* MiB.*lower num_kv_blocks"),
        ({"max_model_len": 0}, r"max_model_len=0 must be at least 1"),
        ({"max_num_batched_tokens": 0}, r"max_num_batched_tokens=0 must be at least 1"),
        ({"memory_share": 0}, r"memory_share=0 .*above 0"),
        ({"num_kv_blocks": 0}, r"num_kv_blocks=0 .*at least 1"),
        ({"memory_share": 1.5}, r"memory_share=1.5 .*above 0 and at most 1"),
        ({"max_model_len": 257}, r"max_model_len=257 is more than the 256 positions"),
        ({"max_model_len": -1}, r"max_model_len=-1 must be at least 1"),
        ({"max_num_seqs": 0}, r"max_num_seqs=0 must be at least 1"),
        ({"block_size": 0}, r"block_size=0 must be at least 1"),
        ({"num_host_blocks": -1}, r"num_host_blocks=-1 must not be negative"),
        ({"num_host_blocks": 10**10}, r"too little memory.*10000000000 .*blocks.* MiB.*num_host_blocks"),
        ({"dtype": "int8"}, r"dtype='int8' is not supported; use float32"),
        ({"memory_share": "0.5"}, r"memory_share='0.5' must be above 0"),
        ({"memory_share": True}, r"memory_share=True must be above 0"),
        ({"block_size": None}, r"block_size=None must be a whole number"),
        ({"seed": "x"}, r"seed='x' must be a whole number"),
        ({"max_num_batched_tokens": 10**12}, r"max_num_batched_tokens=1000000000000 is more than the 16777216"),
        ({"record_random": "no"}, r"record_random='no' must be True or False"),
        *(({"graph_sizes": sizes}, r"graph_sizes=.*at least 1") for sizes in ((0,), (-3, 8), (1.5,), 5, "abc")),
        ({"ray_address": 5}, r"ray_address=5 must be a string"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_limits_that_cannot_be_kept(options, message):
    """Too little memory and limits that contradict each other are errors at the start, with the numbers and the remedy."""
    with pytest.raises(MinferError, match=message):
        make_engine(swap={"preemption": SWAP}, **options)


def test_what_is_found_out_by_minfer_is_no_option():
    """The folder and the model's shape are no options, and a device must be one."""
    for name in ("path", "model"):
        with pytest.raises(MinferError, match=f"no option is called {name}"):
            make_config(checkpoint(), **{name: "x"})
    for device in (None, 5, "gpu"):
        with pytest.raises(MinferError, match=f"device={device!r} is not a device"):
            make_config(checkpoint(), device=device)


def test_memory_that_others_hold(monkeypatch):
    """On a GPU whose memory is used up by others the budget is negative: an error with the numbers, and no assertion."""
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2 * 2**20, 1000 * 2**20))
    config = make_engine().config
    shape = {name: getattr(config, name) for name in config.__dataclass_fields__}
    config = SimpleNamespace(**{**shape, "device": torch.device("cuda"), "memory_share": 0.5})
    with pytest.raises(MinferError, match=r"0\.0 MiB are available.*1000 MiB, less 998 MiB in use"):
        num_blocks(config, 4)


FORBID = """
import sys
class Forbid:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"triton", "ray", "gguf", "fastapi", "uvicorn", "openai"}:
            raise ImportError(f"{name} must not be imported")
sys.meta_path.insert(0, Forbid())
import minfer, minfer.cli.app
from minfer import LLM, SamplingParams
with LLM(sys.argv[1], device="cpu", num_kv_blocks=8) as llm:
    print(llm.generate([5, 6, 7], SamplingParams(temperature=0, max_tokens=4, ignore_eos=True))[0].outputs[0].token_ids)
"""


def test_nothing_optional_is_imported():
    """Import and generate on a machine without Triton, Ray, gguf and a server."""
    done = subprocess.run([sys.executable, "-c", FORBID, str(checkpoint())], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(oracle().greedy([5, 6, 7], 4))
