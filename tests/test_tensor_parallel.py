"""Two ranks give the tokens of one: every mix of parts for CPUs, models of 1, 2, 3 and 4 K/V heads, in little room, in small chunks.

Starting processes is what takes time here, so each pair of engines serves many cases.
"""

from __future__ import annotations

import functools
import gc
import time

import psutil
import pytest
import rank_parts
from cli_runner import run as cli
from engine_fixtures import MIXES, checkpoint, greedy, make_engine, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minfer import LLM
from minfer.engine import Engine
from minfer.errors import MinferError, ModelError, PartError
from minfer.stages import HF, RAY, TENSOR_PARALLEL
from minfer.testing.checkpoints import make_checkpoint
from minfer.testing.strategies import prompts, sampling_params

PROCESSES = {"executor": TENSOR_PARALLEL.executor}
HEADS = {1: 4, 2: 6, 3: 6, 4: 4}  # K/V heads: query heads
LONGEST = 36
TEXTS = [[3 + (7 * i + 5 * j) % 300 for j in range(4 + i % 5)] for i in range(9)]
WAYS = st.one_of(sampling_params(), sampling_params(temperature=0.0), st.just(greedy(9, n=2, logprobs=2)))
FEW = {"chunked+swap": 1, "paged": 2, "cpu+ahead+swap": 3, "cpu+ahead": 4}  # mix: K/V heads of its model
ALL = [(mix, kv_heads) for mix in MIXES if mix != "hf" for kv_heads in HEADS if FEW.get(mix) != kv_heads]


@functools.cache
def model(kv_heads: int):
    """A random model with biases, whose MLP and vocabulary no two ranks can halve."""
    sizes = {"num_attention_heads": HEADS[kv_heads], "num_key_value_heads": kv_heads, "intermediate_size": 97, "vocab_size": 331}
    return checkpoint(("llama", "qwen2", "qwen3", "mistral")[kv_heads % 4], **sizes)


def two_ranks(stage, path, executor: str = TENSOR_PARALLEL.executor, **options) -> Engine:
    engine = make_engine(stage, path, {"executor": executor}, tensor_parallel_size=2, **options)
    engine.executor.ask(rank_parts.poison)
    return engine


def tokens_of(outputs) -> list[list[list[int]]]:
    return [[completion.token_ids for completion in output.outputs] for output in outputs]


def same_everywhere(mix: str, kv_heads: int, examples: int, executor: str = TENSOR_PARALLEL.executor) -> None:
    """One pair of engines, with little room: traffic that must give way, then whatever is drawn."""
    small = {"max_model_len": LONGEST, "max_num_batched_tokens": 5, "num_host_blocks": 6 if "swap" in mix else 0}
    if mix == "decoder":
        small["num_kv_blocks"] = 3  # a block is a whole sequence
    else:
        small["num_kv_blocks"] = 11
    one, two = make_engine(mix, model(kv_heads), **small), two_ranks(mix, model(kv_heads), **small)
    try:
        assert tokens_of(run(one, TEXTS, greedy(14))) == tokens_of(run(two, TEXTS, greedy(14)))
        assert one.stats().num_preemptions == two.stats().num_preemptions
        assert mix == "decoder" or two.stats().num_preemptions > 0, "nothing gave way"

        @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
        @given(
            texts=prompts(max_len=LONGEST - 12),
            params=st.lists(WAYS, min_size=5),
        )
        def check(texts, params):
            outputs = [run(engine, texts, params[: len(texts)]) for engine in (one, two)]
            assert tokens_of(outputs[0]) == tokens_of(outputs[1])
            for ours, theirs in zip(outputs[0], outputs[1], strict=True):
                for entry, other in zip(ours.outputs[0].logprobs or [], theirs.outputs[0].logprobs or [], strict=True):
                    values = {token: value.logprob for token, value in other.items()}
                    assert {token: value.logprob for token, value in entry.items()} == pytest.approx(values, abs=1e-3)

        check()
    finally:
        two.close()


@pytest.mark.parametrize(("mix", "kv_heads"), FEW.items())
def test_two_ranks_give_the_tokens_of_one(mix, kv_heads):
    """Greedy and seeded, penalised and filtered, n completions, preempted and in chunks of five tokens."""
    same_everywhere(mix, kv_heads, 6)


@pytest.mark.slow
@pytest.mark.parametrize(("mix", "kv_heads"), ALL)
def test_all_mixes_and_heads(mix, kv_heads):
    """The same for every other mix and number of K/V heads."""
    same_everywhere(mix, kv_heads, 3)


@pytest.fixture
def ray():
    """Ray, in no cluster yet (another test of this process may have joined one), and ended afterwards."""
    ray = pytest.importorskip("ray")
    ray.shutdown()
    yield ray
    ray.shutdown()


@pytest.mark.slow
def test_ray_gives_the_tokens_of_one(ray):
    """The same through actors, and a second engine in the same cluster."""
    same_everywhere("cpu+ahead+swap", 3, 4, RAY.executor)
    same_everywhere("chunked", 2, 3, RAY.executor)


@pytest.mark.slow
def test_ray_says_what_is_wrong(ray):
    """More ranks than the cluster has CPUs; a cluster that is not there; an actor that dies."""
    address = {"device": "cpu", "executor": "ray", "max_model_len": 64}
    with pytest.raises(MinferError, match=r"no Ray cluster can be joined at '127\.0\.0\.1:1'"):
        LLM(str(model(4)), tensor_parallel_size=2, ray_address="127.0.0.1:1", **address)
    path = checkpoint("llama", num_attention_heads=1024, num_key_value_heads=1024, head_dim=4, hidden_size=1024)
    with pytest.raises(MinferError, match=r"needs 1024 CPUs, and the Ray cluster has \d+"):
        LLM(str(path), tensor_parallel_size=1024, **address)
    with LLM(str(model(4)), stage="chunked", tensor_parallel_size=2, **address) as llm:
        stream = llm.stream([5, 6], greedy(50))
        next(stream)
        psutil.Process(llm.engine.executor.ask(rank_parts.process)[1]).kill()
        begin = time.monotonic()
        with pytest.raises(MinferError, match="rank 1 of 2 has died"):
            list(stream)
        assert time.monotonic() - begin < 10
        with pytest.raises(MinferError, match="rank 1 of 2 has died"):
            llm.generate([5, 6], greedy(5))


def test_what_a_rank_holds():
    """3 K/V heads on 2 ranks: each has three query heads, with the K/V heads they read; an odd vocabulary; half of the threads."""
    with LLM(str(model(3)), stage="chunked", device="cpu", tensor_parallel_size=2, max_model_len=64, num_kv_blocks=9) as llm:
        first, second = llm.engine.executor.ask(rank_parts.shape)
        config = llm.config.model
        per_token = llm.engine.executor.kv_bytes_per_token
    D, H = config.head_dim, config.hidden_size
    assert first["qkv"] == second["qkv"] == [(3 + 2 * 3) * D, H]
    assert first["cache"] == second["cache"] == [config.num_layers, 2, 10, 16, 3, D]
    assert (first["head"], second["head"]) == ([166, H], [165, H])
    assert per_token == 2 * config.num_layers * 2 * 3 * D * 4, "both ranks' bytes"
    assert first["threads"] == 1


def children() -> list[psutil.Process]:
    return [each for each in psutil.Process().children() if "executor.worker" in " ".join(each.cmdline())]


def test_lives_end():
    """Closed, deleted, interrupted: no process is left; closing twice is fine; two engines run side by side."""
    options = {"device": "cpu", "tensor_parallel_size": 2, "stage": "cpu", "max_model_len": 64}
    one, two = (LLM(str(model(kv_heads)), **options) for kv_heads in (2, 4))
    assert len(children()) == 4
    for _ in range(2):
        assert len(one.generate([5, 6, 7], greedy(4))[0].outputs[0].token_ids) == 4
        assert len(two.generate([5, 6, 7], greedy(4))[0].outputs[0].token_ids) == 4
    one.close()
    one.close()
    with pytest.raises(MinferError, match="closed"):
        one.generate([5], greedy(1))
    stream = two.stream([5, 6], greedy(40))
    next(stream)
    stream.close()
    expected = two.generate([5, 6], greedy(9))[0].outputs[0].token_ids

    def interrupt(*arguments):
        raise KeyboardInterrupt

    team, result = two.engine.executor.team, two.engine.executor.team.result
    for after in range(4):
        answers = iter([result] * after)
        team.result = lambda rank, number, answers=answers: next(answers, interrupt)(rank, number)
        with pytest.raises(KeyboardInterrupt):
            two.generate([7, 8, 9], greedy(20))
        del team.result
        assert two.generate([5, 6], greedy(9))[0].outputs[0].token_ids == expected, "a call after an interrupted one is clean"
    del two, stream, team, result
    gc.collect()
    assert children() == []


def test_the_command_line_takes_ranks():
    """--tp 2 gives the text of one rank."""
    options = ["--model", str(model(4)), "--device", "cpu", "--stage", "chunked", "--max-model-len", "64", "--max-tokens", "8"]
    assert cli("generate", "hello", *options, "--tp", "2").stdout == cli("generate", "hello", *options).stdout


def test_what_does_not_go_together():
    """Errors before anything is loaded, each with what to do."""
    path = str(model(3))  # 6 query heads
    with pytest.raises(MinferError, match="tensor_parallel_size=4 does not divide the model's 6 query heads"):
        LLM(path, device="cpu", tensor_parallel_size=4)
    with pytest.raises(MinferError, match="tensor_parallel_size=0 must be at least 1"):
        LLM(path, device="cpu", tensor_parallel_size=0)
    with pytest.raises(MinferError, match=r"'hf' runs transformers' own model.*'decoder'"):
        LLM(path, device="cpu", stage=HF, tensor_parallel_size=2)
    with pytest.raises(MinferError, match=r"executor='threads' is none of 'processes', 'ray'"):
        LLM(path, device="cpu", executor="threads", tensor_parallel_size=2)
    with pytest.raises(MinferError, match=r"tensor_parallel_size=2 needs an executor for many devices.*executor\.processes"):
        make_engine("cpu", model(3), tensor_parallel_size=2)
    assert children() == []


def test_errors_of_the_ranks_are_the_callers(tmp_path):
    """A broken checkpoint, a part that does not load: the same classes as with one device, and nothing is left behind."""
    path = make_checkpoint(tmp_path, "llama")
    (path / "model.safetensors").write_bytes(b"cut short")
    with pytest.raises(ModelError, match="cut short"):
        make_engine("chunked", path, PROCESSES, tensor_parallel_size=2)
    with pytest.raises(PartError, match="has no 'nothing'"):
        make_engine("chunked", model(2), {**PROCESSES, "sample": "rank_parts:nothing"}, tensor_parallel_size=2)
    with pytest.raises(MinferError, match="too little memory for the KV cache"):
        make_engine("chunked", model(2), PROCESSES, tensor_parallel_size=2, num_kv_blocks=2**36)
    assert children() == []
