"""Two GPUs, one model: recorded steps with the ranks' sums in them give the tokens of one GPU."""

from __future__ import annotations

import pytest
import torch
from engine_fixtures import checkpoint, greedy, ids_of, oracle
from test_gpu_engine import TEXTS, ties_in_bfloat16

from minfer import LLM, SamplingParams
from minfer.errors import MinferError
from minfer.stages import DECODER, LADDER

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices"),
]
SIZES = {"max_model_len": 128, "max_num_seqs": 12, "block_size": 16, "num_kv_blocks": 60}


def make(stage, size: int = 2, path=None, **options) -> LLM:
    return LLM(str(path or checkpoint()), stage=stage, device="cuda", tensor_parallel_size=size, **{**SIZES, **options})


@pytest.fixture(scope="module")
def last():
    """The last stage on two GPUs in float32, in so little room that sequences give way. The last test kills a rank of it."""
    with make(LADDER[-1], dtype="float32", num_kv_blocks=12) as llm:
        yield llm


def ways(executor) -> list[str]:
    """How small sums are made."""
    return [type(way).__name__ for way in executor.group.small]


def check_oracle(llm: LLM) -> None:
    outputs = llm.generate(TEXTS, greedy(20), progress=False)
    print(f"{llm.stage.name}, small sums: {llm.engine.executor.ask(ways)}")  # noqa: T201
    assert sum(oracle().count_ties(prompt, tokens) for prompt, tokens in zip(TEXTS, ids_of(outputs), strict=True)) <= 1


def test_recorded_steps_equal_transformers_in_float32(last):
    """Everything at once: greedy tokens are the oracle's."""
    check_oracle(last)


def test_eager_steps_equal_transformers_in_float32():
    """The first stage that can be cut."""
    with make(DECODER, dtype="float32") as llm:
        check_oracle(llm)


def test_every_way_of_sampling_on_two_gpus(last):
    """Seeds, filters, penalties and log-probabilities in one batch, in a pool that makes sequences give way: one GPU's tokens."""
    params = [
        greedy(12),
        SamplingParams(temperature=0.8, seed=1, max_tokens=12, ignore_eos=True),
        SamplingParams(temperature=1.0, top_p=0.8, top_k=40, seed=2, max_tokens=12, ignore_eos=True),
        SamplingParams(temperature=0, repetition_penalty=1.3, max_tokens=6, ignore_eos=True),
        greedy(12, logprobs=3),
    ]
    chosen = [params[i % len(params)] for i in range(len(TEXTS))]
    with make(LADDER[-1], 1, dtype="float32", num_kv_blocks=12) as one:
        for _ in range(2):
            assert ids_of(last.generate(TEXTS, chosen, progress=False)) == ids_of(one.generate(TEXTS, chosen, progress=False))
    assert last.stats().num_preemptions > 0


def test_two_gpus_differ_in_ties_only_in_bfloat16():
    """Each token is the likeliest in transformers' eyes, or within two units in the last place of it."""
    path = checkpoint("llama", hidden_size=384, head_dim=64, initializer_range=0.05)
    with make(LADDER[-1], 2, path, dtype="bfloat16") as llm:
        outputs = llm.generate(TEXTS, greedy(20), progress=False)
    ties = ties_in_bfloat16(path, TEXTS, ids_of(outputs))
    print(f"{ties} of {20 * len(TEXTS)} tokens were ties that fell the other way")  # noqa: T201
    assert ties <= 20 * len(TEXTS) // 10


def test_a_killed_rank_is_an_error(last):
    """SIGKILL while steps are replayed, when the other card waits for this one's addends: one error, and both processes are gone."""
    stream = last.stream(TEXTS[0], greedy(100))
    next(stream)
    processes = last.engine.executor.team.processes
    processes[1].kill()
    with pytest.raises(MinferError, match=r"rank 1 of 2 .* was killed by SIGKILL"):
        list(stream)
    assert all(process.poll() is not None for process in processes)
