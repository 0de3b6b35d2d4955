"""What the end-to-end tests share: tiny checkpoints made once, engines of every mix of parts, and a run that checks them afterwards.

From: `minfer/testing`. To: the tests of the engine, the LLM class, parity and faults.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterable
from pathlib import Path

import torch

from minfer.choice import best_stage
from minfer.config import make_config
from minfer.engine import Engine
from minfer.outputs import RequestOutput
from minfer.params import SamplingParams
from minfer.stages import CHUNKED, CONTINUOUS, PAGED, STAGES, Stage
from minfer.testing.checkpoints import make_checkpoint
from minfer.testing.invariants import check_idle
from minfer.testing.oracle import Oracle
from minfer.testing.tokenizers import EOS, byte_level_tokenizer
from minfer.tokenizer import load_tokenizer

KINDS = {
    "llama": {},
    "mistral": {"sliding_window": 7},
    "qwen2": {},
    "qwen3": {"tie_word_embeddings": True},
}
DYNAMIC = {  # a Llama whose RoPE depends on the prompt's length: transformers' values only without a cache, so no oracle
    "rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0},
    "max_position_embeddings": 16,
}
PREFIX = "minfer.blocks.prefix:PrefixBlocks"
SWAP = "minfer.preemption.swap:Swap"
RESIDENT = {"inputs": "minfer.inputs.resident:ResidentInputs"}
AHEAD = {**RESIDENT, "loop": "minfer.loop.overlapped:loop", "runner": "minfer.runner.mixed_graph:MixedGraphRunner"}
POLICIES = ("fcfs", "priority", "shortest_prompt", "shortest_job", "longest_prefix", "fair_share")

CPU, _ = best_stage("cpu")  # the mix `cpu`; where there is no C++ compiler, the one that takes its place

PAGED_MIXES: dict[str, Stage] = {
    **{stage.name: stage for stage in (PAGED, CONTINUOUS, CHUNKED)},
    "cpu": CPU,
    "paged+prefix": PAGED.with_parts(blocks=PREFIX),
    "continuous+prefix": CONTINUOUS.with_parts(blocks=PREFIX),
    "paged+swap": PAGED.with_parts(preemption=SWAP),
    "continuous+swap": CONTINUOUS.with_parts(preemption=SWAP),
    "chunked+swap": CHUNKED.with_parts(preemption=SWAP),
    "cpu+swap": CPU.with_parts(preemption=SWAP),
    "continuous+resident": CONTINUOUS.with_parts(**RESIDENT),
    "paged+ahead": PAGED.with_parts(**AHEAD),
    "cpu+ahead": CPU.with_parts(**AHEAD),
    "cpu+ahead+swap": CPU.with_parts(**AHEAD, preemption=SWAP),
    **{f"cpu+{policy}": CPU.with_parts(policy=f"minfer.policy.{policy}:policy") for policy in POLICIES[1:]},
}
MIXES: dict[str, Stage] = {"hf": STAGES["hf"], "decoder": STAGES["decoder"], **PAGED_MIXES}

_folder = tempfile.TemporaryDirectory(prefix="minfer-tests-")


@functools.cache
def checkpoint(kind: str = "llama", tokenizer: bool = True, **config) -> Path:
    """A tiny random model of that kind, with the byte-level tokenizer; made once in a test run."""
    path = Path(tempfile.mkdtemp(dir=_folder.name))
    if kind == "dynamic":
        make_checkpoint(path, **DYNAMIC)
    else:
        make_checkpoint(path, kind, **{**KINDS[kind], **config})
    if tokenizer:
        byte_level_tokenizer().save_pretrained(path)
    return path


@functools.cache
def oracle(kind: str = "llama") -> Oracle:
    return Oracle(checkpoint(kind))


@functools.cache
def tokenizer():
    return load_tokenizer(checkpoint())


def make_engine(stage: Stage | str = "cpu", path: Path | None = None, swap: dict | None = None, **options) -> Engine:
    """An engine whose K/V cache starts full of NaN, so that reading what was never written shows."""
    stage = (MIXES[stage] if isinstance(stage, str) else stage).with_parts(**(swap or {}))
    sizes = {"max_model_len": 128, "max_num_seqs": 8, "block_size": 4, **options}
    engine = Engine(make_config(path or checkpoint(), device="cpu", **sizes), stage, tokenizer())
    cache = getattr(engine.executor, "cache", None)
    if cache is not None:
        cache.device_pool.fill_(torch.nan)
        cache.host_pool.fill_(torch.nan)
    return engine


def run(
    engine: Engine, prompts: Iterable, params: SamplingParams | list[SamplingParams], max_steps: int = 3000, **options
) -> list[RequestOutput]:
    """All prompts through the engine at once → their final outputs, in order. Afterwards the engine must be whole and empty."""
    prompts = list(prompts)
    params = params if isinstance(params, list) else [params] * len(prompts)
    for i, (prompt, own) in enumerate(zip(prompts, params, strict=True)):
        engine.add_request(str(i), prompt, own, stream=False, **options)
    outputs = finish(engine, max_steps)
    return [outputs[str(i)] for i in range(len(prompts))]


def finish(engine: Engine, max_steps: int = 3000) -> dict[str, RequestOutput]:
    """Step until nothing is left → the last output of each request."""
    outputs = {}
    for _ in range(max_steps):
        if not engine.has_unfinished():
            break
        outputs.update((output.request_id, output) for output in engine.step())
    assert not engine.has_unfinished(), f"not at an end after {max_steps} steps"
    check_idle(engine.scheduler)
    return outputs


def greedy(max_tokens: int = 8, **others) -> SamplingParams:
    return SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True, **others)


def ids_of(outputs: Iterable[RequestOutput]) -> list[list[int]]:
    """The token ids of each request's first completion."""
    return [output.outputs[0].token_ids for output in outputs]


# A sample part that follows a script, so that a test knows an engine's text beforehand

PROMPT = [5]  # of every scripted request
SCRIPTS: list[list[int]] = []
SCRIPTED = {"sample": "engine_fixtures:scripted"}


def scripted(logits: torch.Tensor, batch) -> torch.Tensor:
    """The slot `sample`: a request's seed says which script it follows; after its end come EOS tokens."""
    seeds, positions = batch.sampling.seeds.tolist(), batch.sampling.positions.tolist()
    ends = tokenizer().convert_tokens_to_ids(EOS)
    tokens = [dict(enumerate(SCRIPTS[seed])).get(at - len(PROMPT), ends) for seed, at in zip(seeds, positions, strict=True)]
    return torch.tensor(tokens, dtype=torch.int64)


def script(text_or_ids: str | list[int], **params) -> SamplingParams:
    """Parameters with which a request with PROMPT gives this text or these ids, and then EOS."""
    ids = text_or_ids if isinstance(text_or_ids, list) else tokenizer().encode(text_or_ids, add_special_tokens=False)
    SCRIPTS.append(ids)
    return SamplingParams(seed=len(SCRIPTS) - 1, **{"max_tokens": 100, **params})
