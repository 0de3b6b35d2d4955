"""What a request gets depends on itself alone: sampling, penalties, completions and log-probabilities under every kind of traffic."""

import json
from dataclasses import asdict, replace
from itertools import pairwise

import pytest
import torch
from engine_fixtures import MIXES, PAGED_MIXES, SWAP, checkpoint, finish, greedy, ids_of, make_engine, oracle, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minfer.params import SamplingParams
from minfer.sample.noise import derive_seed
from minfer.testing.oracle import processors_of
from minfer.testing.sampling import draw, row
from minfer.testing.strategies import prompts, sampling_params, sizes

quick = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
CROWD = [[3 + (7 * i + 5 * j) % 300 for j in range(3 + i % 6)] for i in range(8)]


def check_sampled(prompt: list[int], params: SamplingParams, outputs: list) -> None:
    """Each completion's tokens are those that `sample` draws from transformers' logits, given the tokens before."""
    assert [completion.index for completion in outputs] == list(range(params.n))
    for completion in outputs:
        seed, ids = derive_seed(params.seed, completion.index), [*prompt, *completion.token_ids]
        assert len(completion.token_ids) == params.max_tokens
        rows = [row(params, seed, at, ids[:at], len(prompt)) for at in range(len(prompt), len(ids))]
        assert draw(oracle().logits(ids)[len(prompt) - 1 : -1], rows) == completion.token_ids


@pytest.mark.parametrize("mix", MIXES)
@quick
@given(data=st.data(), texts=prompts(max_prompts=4, max_len=12))
def test_sampling_depends_on_the_request_alone(mix, data, texts):
    """Seeded tokens are those sampled from transformers' logits, whatever the batch mates, the budget, the room and n."""
    params = [data.draw(sampling_params(n=data.draw(st.integers(1, 3)))) for _ in texts]
    longest = max(map(len, texts)) + max(own.max_tokens for own in params)
    engine = make_engine(MIXES[mix], **data.draw(sizes(longest, paged=mix in PAGED_MIXES), label="sizes"))
    for prompt, own, output in zip(texts, params, run(engine, texts, params), strict=True):
        check_sampled(prompt, own, output.outputs)


def test_n_changes_none_of_the_completions():
    """Completion i of a seeded request is the same for every n above i, and the completions differ from each other."""
    params = SamplingParams(seed=3, max_tokens=10, ignore_eos=True)
    by_n = [run(make_engine(), [CROWD[3]], replace(params, n=n))[0].outputs for n in (1, 2, 4)]
    for fewer, more in pairwise(by_n):
        assert [completion.token_ids for completion in more][: len(fewer)] == [completion.token_ids for completion in fewer]
    assert len({tuple(completion.token_ids) for completion in by_n[-1]}) == 4


def test_a_request_without_a_seed_follows_the_engine():
    """The engine's seed fixes what seedless requests get; two equal ones after each other differ."""
    params = SamplingParams(max_tokens=8, ignore_eos=True)
    first, again, other = (run(make_engine(seed=seed), [CROWD[0]] * 2, params) for seed in (1, 1, 2))
    assert ids_of(first) == ids_of(again) != ids_of(other)
    assert ids_of(first)[0] != ids_of(first)[1]


def steps_of(engine):
    """Step to the end, and yield the blocks in use after each step."""
    while engine.has_unfinished():
        engine.step()
        yield engine.blocks.num_total - engine.blocks.num_free


@pytest.mark.parametrize("stage", ["continuous", "chunked", "cpu"])
@pytest.mark.parametrize("length", [15, 16, 17])
def test_completions_share_the_prompts_blocks(stage, length):
    """n completions hold the prompt once, and copy the block that they write to: far fewer blocks than n prompts need."""
    prompt = [3 + 7 * i % 300 for i in range(length)]
    params = SamplingParams(n=4, seed=1, max_tokens=4, ignore_eos=True)
    engine = make_engine(stage, block_size=4)
    copies = []
    launch = engine.executor.launch
    engine.executor.launch = lambda plan: copies.extend(plan.copies) or launch(plan)
    engine.add_request("0", prompt, params)
    assert max(steps_of(engine)) <= 4 + 4 * 2 < 4 * -(-length // 4)
    assert len(copies) == 3, "the block that is written to is copied once for each later completion"
    check_sampled(prompt, params, run(make_engine(stage, block_size=4), [prompt], params)[0].outputs)


@pytest.mark.parametrize("swap", [{}, {"preemption": SWAP}], ids=["recompute", "swap"])
@pytest.mark.parametrize("stage", ["continuous", "chunked", "cpu"])
def test_completions_survive_scarcity(stage, swap):
    """n = 4 in a tiny pool with others beside it: all come back, in order, in full length, with the tokens of an ample pool."""
    params = SamplingParams(n=4, seed=9, max_tokens=24, ignore_eos=True)
    engine = make_engine(stage, swap=swap, num_kv_blocks=12, num_host_blocks=6)
    outputs = run(engine, CROWD[3:6], params)
    assert engine.stats().num_preemptions > 0
    for prompt, output in zip(CROWD[3:6], outputs, strict=True):
        check_sampled(prompt, params, output.outputs)


def test_greedy_and_random_rows_in_one_batch():
    """Temperature 0 beside temperature 1, with tokens banned by bias and by min_tokens: the greedy rows are as on their own."""
    banned = {token: -100 for token in oracle().greedy(CROWD[0], 3)}
    params = [greedy(6), SamplingParams(seed=1, max_tokens=6, ignore_eos=True), greedy(6, logit_bias=banned, min_tokens=6)]
    for prompt, own, output in zip([CROWD[0]] * 3, params, run(make_engine(), [CROWD[0]] * 3, params), strict=True):
        if own.greedy:
            assert oracle().count_ties(prompt, output.outputs[0].token_ids, processors_of(own, len(prompt))) == 0


@pytest.mark.parametrize("mix", ["hf", "continuous", "chunked", "cpu+swap"])
@pytest.mark.parametrize(
    "penalty",
    [{"repetition_penalty": 1.3}, {"repetition_penalty": 0.8}, {"presence_penalty": 2.0}, {"frequency_penalty": 1.5}],
    ids=lambda penalty: next(iter(penalty)),
)
def test_penalties_are_transformers(mix, penalty):
    """Repetition counts prompt and output, the other two the output only; prompts of unequal length, and after preemption too."""
    params = greedy(20, **penalty)
    small = {"num_kv_blocks": 9} if mix in PAGED_MIXES else {}
    engine = make_engine(MIXES[mix], num_host_blocks=5, **small)
    plain = [oracle().greedy(prompt, 20) for prompt in CROWD]
    outputs = ids_of(run(engine, CROWD, params))
    assert not small or engine.stats().num_preemptions > 0
    for prompt, tokens in zip(CROWD, outputs, strict=True):
        assert oracle().count_ties(prompt, tokens, processors_of(params, len(prompt))) == 0
    assert outputs != plain, "the penalty changes nothing here, and the test tests nothing"


def expected_logprobs(ids: list[int], k: int, at: int) -> dict[int, float]:
    """Of token `at` of these ids, and the k likeliest in its place."""
    values = oracle().logprobs(ids)[at - 1]
    return {token: float(values[token]) for token in [ids[at], *values.topk(k).indices.tolist()]}


@pytest.mark.parametrize("k", [0, 1, 5])
@pytest.mark.parametrize("filters", [{}, {"top_k": 1}, {"top_p": 0.1}, {"logit_bias": {9: 100.0}}], ids=str)
def test_logprobs_are_the_raw_models(k, filters):
    """log_softmax of transformers' logits before bias and filters; the sampled token always among them; JSON can carry them."""
    params = SamplingParams(seed=4, max_tokens=6, ignore_eos=True, logprobs=k, **filters)
    engine = make_engine()
    for prompt, output in zip(CROWD, run(engine, CROWD, params), strict=True):
        completion = output.outputs[0]
        assert len(completion.logprobs) == len(completion.token_ids) == 6
        for i, entry in enumerate(completion.logprobs):
            assert next(iter(entry)) == completion.token_ids[i]
            assert len(entry) in (k, k + 1)
            expected = expected_logprobs([*prompt, *completion.token_ids], k, len(prompt) + i)
            assert {token: value.logprob for token, value in entry.items()} == pytest.approx(expected, abs=1e-4)
            ranks = {value.rank for value in entry.values()} - {None}
            assert ranks == set(range(1, k + 1))
        first = [next(iter(entry.values())).logprob for entry in completion.logprobs]
        assert completion.cumulative_logprob == pytest.approx(sum(first))
        json.dumps(asdict(output), allow_nan=False)


@pytest.mark.parametrize("mix", [name for name in MIXES if "+" not in name or "swap" in name or "prefix" in name])
@quick
@given(data=st.data(), texts=prompts(max_prompts=4, max_len=12), k=st.integers(0, 3), budget=st.sampled_from([1, 2, 3, 64]))
def test_prompt_logprobs_are_the_raw_models(mix, data, texts, k, budget):
    """One entry a prompt token, None for the first; under chunks, cached prefixes and preemption, beside requests without."""
    params = [greedy(6, prompt_logprobs=k if i % 3 != 1 else None, n=1 + i % 2, logprobs=1) for i in range(len(texts))]
    room = data.draw(sizes(max(map(len, texts)) + 6, paged=mix in PAGED_MIXES), label="sizes")
    engine = make_engine(MIXES[mix], **{**room, "max_num_batched_tokens": budget})
    for _ in range(2):  # the second time from the cache, where there is one
        for prompt, own, output in zip(texts, params, run(engine, texts, params), strict=True):
            if own.prompt_logprobs is None:
                assert output.prompt_logprobs is None
                continue
            assert len(output.prompt_logprobs) == len(prompt)
            assert output.prompt_logprobs[0] is None
            for at, entry in enumerate(output.prompt_logprobs[1:], start=1):
                expected = expected_logprobs(prompt, k, at)
                assert {token: value.logprob for token, value in entry.items()} == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("mix", ["chunked", "cpu", "chunked+swap", "cpu+swap"])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_prompt_that_gives_way_half_read_is_scored_once(mix, steps):
    """Its chunks are computed again, or moved: still one entry a prompt token, each the model's."""
    prompt = [3 + 7 * i % 300 for i in range(12)]
    engine = make_engine(MIXES[mix], max_num_batched_tokens=3, num_host_blocks=8)
    engine.add_request("0", prompt, greedy(3, prompt_logprobs=1))
    for _ in range(steps):
        engine.step()
    engine.scheduler._preempt(engine.scheduler.running[0])
    entries = finish(engine)["0"].prompt_logprobs
    assert len(entries) == 12
    for at, entry in enumerate(entries[1:], start=1):
        found = {token: value.logprob for token, value in entry.items()}
        assert found == pytest.approx(expected_logprobs(prompt, 1, at), abs=1e-4)


def test_unseen_filters_change_nothing():
    """top_k off, at, and beyond the vocabulary, top_p = 1 and min_p = 0 give the same tokens; top_k = 1 the likeliest."""
    base = SamplingParams(seed=5, max_tokens=8, ignore_eos=True)
    same = [base, *(replace(base, top_k=k) for k in (-1, 0, 320, 321, 10**9)), replace(base, top_p=1.0, min_p=0.0)]
    outputs = ids_of(run(make_engine(max_num_seqs=16), [CROWD[1]] * len(same), same))
    assert all(tokens == outputs[0] for tokens in outputs)
    narrow = [replace(base, top_k=1), replace(base, top_p=1e-9), replace(base, min_p=1.0), replace(base, temperature=0.0)]
    for tokens in ids_of(run(make_engine(), [CROWD[1]] * len(narrow), narrow)):
        assert oracle().count_ties(CROWD[1], tokens) == 0


def test_swap_moves_blocks_and_computes_nothing_again():
    """With host memory enough, a preempted sequence goes on where it was; without any, its tokens are computed again."""
    computed = {}
    for host in (0, 64):
        engine = make_engine(MIXES["chunked+swap"], num_kv_blocks=9, num_host_blocks=host)
        run(engine, CROWD, greedy(16))
        assert engine.stats().num_preemptions > 0
        computed[host] = engine.scheduler.served[""]
    assert computed[64] == sum(map(len, CROWD)) + len(CROWD) * 15 < computed[0]


def test_metrics_tell_the_requests_story():
    """Arrival, first scheduling, first token and end in this order; preemptions and cached tokens are counted."""
    engine = make_engine("cpu", num_kv_blocks=9)
    outputs = run(engine, CROWD, greedy(12))
    assert sum(output.metrics.num_preemptions for output in outputs) == engine.stats().num_preemptions > 0
    for output in outputs:
        metrics = output.metrics
        assert metrics.arrival_time <= metrics.first_scheduled_time <= metrics.first_token_time <= metrics.finished_time
        assert metrics.time_to_first_token == metrics.first_token_time - metrics.arrival_time
    engine.add_request("again", [*CROWD[5]], greedy(2))
    assert finish(engine)["again"].num_cached_tokens % 4 == 0


def test_paging_wastes_less():
    """Short requests under a long max_model_len: contiguous reservations are nearly all waste, pages nearly none."""
    stats = {}
    for stage, blocks in (("hf", 8), ("decoder", 8), ("paged", 100), ("chunked", 100)):
        engine = make_engine(stage, num_kv_blocks=blocks)
        run(engine, CROWD, greedy(8))
        stats[stage] = engine.stats()
    assert stats["decoder"].peak_kv_bytes == 8 * 128 * engine.config.model.kv_bytes_per_token(torch.float32)
    assert stats["chunked"].peak_kv_bytes < stats["hf"].peak_kv_bytes < stats["decoder"].peak_kv_bytes
    assert stats["decoder"].kv_wasted > 0.8
    assert max(stats["paged"].kv_wasted, stats["chunked"].kv_wasted) < 0.25
    assert stats["chunked"].num_steps < stats["paged"].num_steps + 8


def test_another_dtype_runs():
    """bfloat16 on a CPU: its tokens are near the top in transformers' float32."""
    engine = make_engine("cpu", checkpoint(), dtype="bfloat16")
    tokens = ids_of(run(engine, CROWD[:3], greedy(6)))
    for prompt, output in zip(CROWD, tokens, strict=False):
        rows = oracle().logits([*prompt, *output])[len(prompt) - 1 : -1]
        gaps = rows.amax(-1) - rows[torch.arange(6), output]
        assert gaps.max() <= 0.1 * rows.abs().max()
