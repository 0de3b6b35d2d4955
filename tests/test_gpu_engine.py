"""Whole engines on a GPU: every stage of the ladder gives the baseline's tokens, recorded steps give what eager ones give, in float32
and in bfloat16.

In bfloat16 a token may differ where transformers' own logits, in bfloat16 too, are within two units in the last place of each other;
the tests count how often.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from engine_fixtures import checkpoint, greedy, ids_of, oracle, run, tokenizer
from transformers import AutoModelForCausalLM

from minfer.config import make_config
from minfer.engine import Engine
from minfer.errors import PartError
from minfer.params import SamplingParams
from minfer.stages import FUSED, GRAPHS, LADDER, PREFILL, Stage

pytestmark = pytest.mark.gpu
TEXTS = [[3 + (7 * i + 5 * j) % 300 for j in range(2 + 9 * i % 40)] for i in range(9)]


def make_engine(stage: Stage, path: Path | None = None, dtype: str = "float32", **options) -> Engine:
    """An engine on the GPU whose K/V cache starts full of NaN, so that reading what was never written shows."""
    sizes = {"max_model_len": 128, "max_num_seqs": 12, "block_size": 16, "num_kv_blocks": 60, **options}
    engine = Engine(make_config(path or checkpoint(), device="cuda", dtype=dtype, **sizes), stage, tokenizer())
    if hasattr(engine.executor, "cache"):
        engine.executor.cache.device_pool.fill_(torch.nan)
    return engine


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen3"])
@pytest.mark.parametrize("stage", LADDER, ids=lambda stage: stage.name)
def test_every_stage_equals_transformers_in_float32(stage, kind):
    """Ragged prompts, chunked where the stage chunks, with a window, with q/k norm."""
    engine = make_engine(stage, checkpoint(kind), max_num_batched_tokens=64 if stage.scheduler.endswith("ChunkedScheduler") else 2048)
    outputs = run(engine, TEXTS, greedy(20))
    ties = sum(oracle(kind).count_ties(prompt, tokens) for prompt, tokens in zip(TEXTS, ids_of(outputs), strict=True))
    assert ties <= 1


def logits_in_bfloat16(model: AutoModelForCausalLM, ids: list[int]) -> torch.Tensor:
    """transformers' logits after each token → [T, V] float32."""
    with torch.inference_mode():
        return model(torch.tensor([ids], device="cuda")).logits[0].float().cpu()


def ties_in_bfloat16(path, prompts: list[list[int]], outputs: list[list[int]]) -> int:
    """How many tokens are not transformers' likeliest. Each must be within two units in the last place of it."""
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16, attn_implementation="eager").cuda()
    ties = 0
    for prompt, tokens in zip(prompts, outputs, strict=True):
        rows = logits_in_bfloat16(model, [*prompt, *tokens])[len(prompt) - 1 : -1]
        for row, token in zip(rows, tokens, strict=True):
            best = row.max().item()
            unit = 2.0 ** (math.floor(math.log2(abs(best))) - 7)  # bfloat16 has 8 significant bits
            assert best - row[token].item() <= 2 * unit, f"token {token}: {row[token]}, the likeliest has {best}"
            ties += row[token].item() != best
    return ties


@pytest.mark.parametrize("stage", [FUSED, PREFILL, LADDER[-1]], ids=lambda stage: stage.name)
def test_bfloat16_differs_in_ties_only(stage, record_property):
    """Each token is the likeliest in transformers' eyes, or within two units in the last place of it."""
    path = checkpoint("llama", hidden_size=384, head_dim=64, initializer_range=0.05)
    outputs = run(make_engine(stage, path, "bfloat16"), TEXTS, greedy(20))
    ties = ties_in_bfloat16(path, TEXTS, ids_of(outputs))
    record_property("ties", ties)
    print(f"{stage.name}: {ties} of {20 * len(TEXTS)} tokens were ties that fell the other way")  # noqa: T201
    assert ties <= 20 * len(TEXTS) // 10


@pytest.mark.parametrize("count", [1, 3, 5, 7, 9, 12])
def test_recorded_steps_equal_eager_ones(count):
    """At, between and beyond the buckets of 4 and 8 rows; the tables of the second call are wider, then narrower."""
    engine = make_engine(GRAPHS, graph_sizes=(4, 8), record_random=True)
    eager = make_engine(FUSED)
    for length in (3, 90, 5):
        texts = [[3 + (11 * i + 5 * j + length) % 300 for j in range(length + i)] for i in range(count)]
        assert ids_of(run(engine, texts, greedy(8))) == ids_of(run(eager, texts, greedy(8)))
    assert len(engine.executor.runner.recorded) == 4


def test_every_way_of_sampling_is_recorded_right():
    """Random, filtered, penalised and scored rows, alone and together: the tokens of eager steps."""
    params = [
        greedy(12),
        SamplingParams(temperature=0.8, seed=1, max_tokens=12, ignore_eos=True),
        SamplingParams(temperature=1.0, top_p=0.8, top_k=40, seed=2, max_tokens=12, ignore_eos=True),
        SamplingParams(temperature=0, repetition_penalty=1.3, max_tokens=6, ignore_eos=True),
        greedy(12, logprobs=3),
    ]
    engine, eager, last = make_engine(GRAPHS), make_engine(FUSED), make_engine(LADDER[-1])
    for rows in ([0], [1], [2], [3], [4], [0, 1], [0, 1, 2], [0, 1, 2, 3, 4]):
        texts, chosen = [TEXTS[row] for row in rows], [params[row] for row in rows]
        expected = ids_of(run(eager, texts, chosen))
        assert ids_of(run(engine, texts, chosen)) == expected
        assert ids_of(run(last, texts, chosen)) == expected


def test_a_prompt_that_leaves_one_position():
    """max_model_len - 1 tokens of prompt and one of output, in recorded steps: the widest block table there is."""
    prompt = [3 + 7 * j % 300 for j in range(126)]
    for texts, count in (([prompt], 2), ([prompt[:3]], 4)):
        tokens = ids_of(run(make_engine(LADDER[-1]), texts, greedy(count)))[0]
        assert oracle().count_ties(texts[0], tokens) == 0


def test_a_part_that_reads_contexts_is_refused():
    """The PyTorch attention reads the contexts on the host: recording it would be wrong for every later step."""
    with pytest.raises(PartError, match=r"runner=minfer\.runner\.eager"):
        make_engine(GRAPHS.with_parts(attention="minfer.attention.torch:attention"))


def test_preempted_sequences_lose_no_token():
    """A pool that makes sequences give way: the tokens of one that is large enough."""
    small, large = (make_engine(LADDER[-1], num_kv_blocks=blocks) for blocks in (9, 60))
    outputs = [ids_of(run(engine, TEXTS, greedy(20))) for engine in (small, large)]
    assert small.stats().num_preemptions > 0
    assert outputs[0] == outputs[1]


@pytest.mark.smollm2
def test_smollm2_in_bfloat16(smollm2_path):
    """The real model, through the last stage: sensible text."""
    from minfer import LLM

    with LLM(str(smollm2_path), stage=LADDER[-1], max_num_seqs=4, max_model_len=512) as llm:
        text = llm.generate(["The capital of France is"], SamplingParams(temperature=0, max_tokens=8))[0].outputs[0].text
    assert "Paris" in text
