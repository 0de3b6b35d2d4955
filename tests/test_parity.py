"""Every stage and every part off the ladder gives transformers' greedy tokens, whatever the prompts, the sizes and the room."""

import math

import pytest
from engine_fixtures import CPU, KINDS, MIXES, PAGED_MIXES, SWAP, checkpoint, finish, greedy, ids_of, make_engine, oracle, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minfer.params import SamplingParams
from minfer.stages import CHUNKED, CONTINUOUS
from minfer.testing.oracle import processors_of
from minfer.testing.strategies import BUDGETS, prompts, sizes

quick = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
PROMPTS = [[3 + (7 * i + 5 * j) % 300 for j in range(4 + i % 5)] for i in range(12)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_oracle_agrees_with_generate(kind):
    """The oracle without a cache, and transformers' generate with one, give the same tokens, with and without its penalty."""
    import torch

    prompt = [4, 9, 16, 4]
    for penalty in (1.0, 1.3):
        params = SamplingParams(temperature=0, repetition_penalty=penalty)
        expected = oracle(kind).model.generate(
            torch.tensor([prompt]), do_sample=False, max_new_tokens=12, repetition_penalty=penalty, eos_token_id=None, pad_token_id=0
        )
        assert oracle(kind).greedy(prompt, 12, processors_of(params, len(prompt))) == expected[0, len(prompt) :].tolist()


@pytest.mark.parametrize("mix", MIXES)
@quick
@given(data=st.data(), kind=st.sampled_from(list(KINDS)), texts=prompts(), max_tokens=st.integers(1, 10))
def test_greedy_tokens_are_transformers(mix, data, kind, texts, max_tokens):
    """Prompts with shared prefixes, any budget, block size and pool: each token is the likeliest in transformers' eyes."""
    longest = max(map(len, texts)) + max_tokens
    options = data.draw(sizes(longest, paged=mix in PAGED_MIXES), label="sizes")
    engine = make_engine(MIXES[mix], checkpoint(kind), **options)
    outputs = run(engine, texts, [greedy(max_tokens, n=1 + i % 2) for i in range(len(texts))])
    for prompt, output in zip(texts, outputs, strict=True):
        assert output.prompt_token_ids == prompt
        assert len({tuple(completion.token_ids) for completion in output.outputs}) == 1
        assert len(output.outputs[0].token_ids) == max_tokens
        assert output.outputs[0].finish_reason == "length"
        assert oracle(kind).count_ties(prompt, output.outputs[0].token_ids) <= 1


@pytest.mark.parametrize("swap", [False, True], ids=["recompute", "swap"])
@pytest.mark.parametrize("stage", [CONTINUOUS, CHUNKED, CPU], ids=lambda stage: stage.name)
@pytest.mark.parametrize("kind", KINDS)
def test_preemption_loses_no_token(stage, swap, kind):
    """In a pool so small that requests give way again and again, everything is the same as in one twenty times as large."""
    stage = stage.with_parts(preemption=SWAP) if swap else stage
    params = greedy(14, logprobs=1)
    small = make_engine(stage, checkpoint(kind), num_kv_blocks=9, num_host_blocks=5)
    outputs = run(small, PROMPTS, params)
    large = run(make_engine(stage, checkpoint(kind), num_kv_blocks=180), PROMPTS, params)
    assert small.stats().num_preemptions >= 3
    assert max(output.metrics.num_preemptions for output in outputs) >= 2, "no request gave way twice"
    for prompt, ours, theirs in zip(PROMPTS, outputs, large, strict=True):
        ours, theirs = ours.outputs[0], theirs.outputs[0]
        assert oracle(kind).count_ties(prompt, ours.token_ids) == 0
        assert (ours.token_ids, ours.text, ours.finish_reason) == (theirs.token_ids, theirs.text, theirs.finish_reason)
        assert len(ours.logprobs) == len(ours.token_ids) == 14
        for one, other in zip(ours.logprobs, theirs.logprobs, strict=True):
            assert list(one) == list(other)
            assert [entry.logprob for entry in one.values()] == pytest.approx([entry.logprob for entry in other.values()], abs=1e-4)


@pytest.mark.parametrize("stage", [CHUNKED, CPU], ids=lambda stage: stage.name)
@pytest.mark.parametrize("budget", [*BUDGETS, 512])
def test_a_chunk_budget_changes_nothing(stage, budget):
    """A prompt of 37 tokens in chunks of any size: same tokens, same log-probabilities, and none before the last chunk."""
    prompt = [3 + 11 * i % 300 for i in range(37)]
    engine = make_engine(stage, max_num_batched_tokens=budget)
    engine.add_request("0", prompt, greedy(6, logprobs=2))
    for _ in range(math.ceil(len(prompt) / budget) - 1):
        assert engine.step() == []
    output = finish(engine)["0"].outputs[0]
    assert oracle().count_ties(prompt, output.token_ids) == 0
    rows = oracle().logprobs([*prompt, *output.token_ids])[len(prompt) - 1 : -1]
    for row, entry in zip(rows, output.logprobs, strict=True):
        assert {token: value.logprob for token, value in entry.items()} == pytest.approx(
            {token: float(row[token]) for token in row.topk(2).indices.tolist()}, abs=1e-4
        )


@pytest.mark.parametrize("mix", PAGED_MIXES)
def test_block_edges(mix):
    """Prompts one below, at and above one and two blocks, over two more blocks of output; never a block more than needed."""
    size = 4
    for length in (size - 1, size, size + 1, 2 * size - 1, 2 * size, 2 * size + 1):
        prompt = [3 + 13 * i % 300 for i in range(length)]
        engine = make_engine(MIXES[mix], block_size=size)
        engine.add_request("0", prompt, greedy(2 * size + 2))
        while engine.has_unfinished():
            outputs = engine.step()
            in_cache = outputs[0].outputs[0].token_ids if outputs and not outputs[0].finished else None
            if in_cache is not None:
                used = engine.stats().num_total_blocks - engine.stats().num_free_blocks
                ahead = int("ahead" in mix)  # the next step has been planned
                assert used == math.ceil((length + len(in_cache) - 1 + ahead) / size)
        assert oracle().count_ties(prompt, outputs[0].outputs[0].token_ids) == 0


@pytest.mark.parametrize("budget", [3, 64])
def test_prompts_that_are_cached_whole(budget):
    """Prompts of exactly 1, 2 and 3 blocks, again while another request decodes on the same blocks: as if nothing were cached."""
    stem = [3 + 17 * i % 300 for i in range(12)]
    engine = make_engine("cpu", max_num_batched_tokens=budget)
    engine.add_request("other", stem, greedy(60))
    for _ in range(12):
        engine.step()
    for blocks in (1, 2, 3, 3, 2, 1):
        engine.add_request(f"{blocks}", stem[: 4 * blocks], greedy(5), stream=False)
        output = next(output for _ in range(99) for output in engine.step() if output.request_id != "other")
        assert output.num_cached_tokens == 4 * (blocks - 1), "all full blocks but the last, whose last token must be computed"
        assert oracle().count_ties(stem[: 4 * blocks], output.outputs[0].token_ids) == 0
    assert oracle().count_ties(stem, finish(engine)["other"].outputs[0].token_ids) == 0


def test_a_request_of_one_token_leaves_its_prompt_behind():
    """It ends in the step that computes its prompt, and the next one like it finds the full blocks."""
    engine = make_engine("cpu")
    prompt = [3 + 17 * i % 300 for i in range(13)]
    for found in (0, 12):
        engine.add_request(f"{found}", prompt, greedy(1))
        assert finish(engine)[f"{found}"].num_cached_tokens == found


def test_half_read_prompts_do_not_evict_each_other():
    """Three prompts of 60 % of the pool in chunks of 4: they run one after another, in little more than the steps they need."""
    texts = [[3 + i + 5 * j % 290 for j in range(24)] for i in range(3)]
    engine = make_engine("chunked", num_kv_blocks=10, max_num_batched_tokens=4)
    outputs = run(engine, texts, greedy(6))
    assert engine.stats().num_steps <= 2 * 3 * (24 / 4 + 6)
    for prompt, tokens in zip(texts, ids_of(outputs), strict=True):
        assert oracle().count_ties(prompt, tokens) == 0


@pytest.mark.parametrize("mix", ["cpu", "cpu+swap"])
@quick
@given(texts=prompts(max_prompts=4, max_len=30), max_tokens=st.integers(1, 8), options=st.data())
def test_cached_prefixes_where_rope_depends_on_the_prompt(mix, texts, max_tokens, options):
    """Dynamic RoPE scaling rotates a long prompt by its own length: prompts of other lengths are not served its K/V."""
    expected = ids_of(run(make_engine("chunked", checkpoint("dynamic"), max_model_len=64), texts, greedy(max_tokens)))
    engine = make_engine(MIXES[mix], checkpoint("dynamic"), **options.draw(sizes(max(map(len, texts)) + max_tokens)))
    for _ in range(2):
        assert ids_of(run(engine, texts, greedy(max_tokens))) == expected


@quick
@given(texts=prompts(max_prompts=6, highest=5), max_tokens=st.integers(1, 8), options=st.data())
def test_a_constant_hash_never_serves_another_prompt(texts, max_tokens, options):
    """Where every block hashes alike, the tokens and the parent that are compared on a hit keep the prompts apart."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minfer.blocks.prefix.chain", lambda parent, tokens: 0)
        engine = make_engine("cpu", **options.draw(sizes(max(map(len, texts)) + max_tokens)))
        for _ in range(2):
            for prompt, tokens in zip(texts, ids_of(run(engine, texts, greedy(max_tokens))), strict=True):
                assert oracle().count_ties(prompt, tokens) <= 1
