"""Slot `runner`, cuda_graph on a CPU: static buffers and padding rows give what the eager runner gives, and touch nobody's K/V.

Recording and replay themselves are tested on a GPU, in `test_gpu_engine.py`.
"""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
from engine_fixtures import checkpoint, greedy, ids_of, make_engine, oracle, run
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.config import make_config
from minfer.errors import PartError
from minfer.inputs.static_batch import ROWS, TOKENS, StaticBatch, Unknown, no_batch
from minfer.params import SamplingParams
from minfer.runner.cuda_graph import CudaGraphRunner, buckets
from minfer.runner.eager import EagerRunner
from minfer.testing.batches import make_batch
from minfer.testing.strategies import prompts, sampling_params
from minfer.types import Bucket

RUNNER = {"runner": "minfer.runner.cuda_graph:CudaGraphRunner"}


def make_prompts(count: int, length: int = 5) -> list[list[int]]:
    return [[3 + (7 * i + 5 * j) % 300 for j in range(length + i % 3)] for i in range(count)]


def both(texts, params, **options) -> tuple[list, list]:
    """The same requests through the static buffers and eagerly → the outputs of both."""
    return tuple(run(make_engine("chunked", swap=swap, **options), texts, params) for swap in (RUNNER, {}))


@pytest.mark.parametrize("count", [1, 3, 5, 7, 9])
def test_padded_batches_equal_eager_ones(count):
    """Between two buckets, at one and below: the same tokens and log-probabilities as without padding."""
    ours, theirs = both(make_prompts(count), greedy(6, logprobs=2), max_num_seqs=16)
    assert ids_of(ours) == ids_of(theirs)
    for one, other in zip(ours, theirs, strict=True):
        for mine, expected in zip(one.outputs[0].logprobs, other.outputs[0].logprobs, strict=True):
            assert [entry.logprob for entry in mine.values()] == pytest.approx([e.logprob for e in expected.values()], abs=1e-4)


def test_wide_and_narrow_tables_in_turn():
    """A long sequence, then short ones, then one that fills the model's length to the last position."""
    engine = make_engine("chunked", swap=RUNNER, max_model_len=64, max_num_seqs=4)
    for texts, count in ((make_prompts(2, 40), 12), (make_prompts(3, 3), 4), (make_prompts(1, 63), 1), (make_prompts(4, 2), 20)):
        for prompt, tokens in zip(texts, ids_of(run(engine, texts, greedy(count))), strict=True):
            assert len(tokens) == count
            assert oracle().count_ties(prompt, tokens) == 0


@settings(max_examples=15)
@given(texts=prompts(), data=st.data())
def test_any_way_of_sampling_equals_eager(texts, data):
    """Greedy, random, filtered and penalised rows side by side: each step takes its own recording, and tokens stay the same."""
    params = [data.draw(sampling_params()) for _ in texts]
    ours, theirs = both(texts, params, max_num_seqs=5, graph_sizes=(2, 5))
    assert ids_of(ours) == ids_of(theirs)


def test_steps_beyond_the_largest_bucket_run_eagerly():
    """With more sequences than the largest bucket has rows, and again with fewer, the tokens are right; both ways were taken."""
    engine = make_engine("chunked", swap=RUNNER, graph_sizes=(2,))
    with (
        patch.object(StaticBatch, "fill", autospec=True, side_effect=StaticBatch.fill) as filled,
        patch.object(EagerRunner, "run", autospec=True, side_effect=EagerRunner.run) as eager,
    ):
        texts = make_prompts(5)
        params = [greedy(4), greedy(4), greedy(4), greedy(9), greedy(9)]
        outputs = run(engine, texts, params)
    for prompt, tokens in zip(texts, ids_of(outputs), strict=True):
        assert oracle().count_ties(prompt, tokens) == 0
    assert filled.call_count >= 5
    assert any(call.args[1].num_decode == 5 for call in eager.call_args_list)


def config(max_num_seqs: int = 40, **options):
    return make_config(checkpoint(), device="cpu", max_model_len=68, max_num_seqs=max_num_seqs, block_size=4, **options)


def decode_batch(rows: int, width: int, device: str = "cpu"):
    """A batch of `rows` decodes whose tables have `width` columns."""
    tables = [[1 + (row * width + column) % 90 for column in range(width)] for row in range(rows)]
    return make_batch([([5 + row], 4 * width - 1 - row % 3) for row in range(rows)], tables, 4)


@pytest.mark.parametrize("widths", [(17, 3), (3, 17)])
def test_nothing_of_an_earlier_batch_remains(widths):
    """33 rows of 17 columns, then 3 of 3, and the other way round: rows and columns beyond the batch are padding again."""
    static = StaticBatch(config(), 4, 40, 40)
    static.fill(decode_batch(33, widths[0]), Bucket(40))
    batch = decode_batch(3, widths[1])
    view = static.fill(batch, Bucket(8))
    assert torch.equal(view.block_tables[:3, : widths[1]], batch.block_tables)
    assert not view.block_tables[:3, widths[1] :].any()
    assert not view.block_tables[3:].any()
    for name, (_, padding) in (TOKENS | ROWS).items():
        column = getattr(view, name)
        assert torch.equal(column[:3], getattr(batch, name))
        assert (column[3:] == padding).all()
    assert view.query_start.tolist() == list(range(9))
    assert view.contexts == batch.contexts + [0] * 5
    assert view.max_context == max(batch.contexts)


def test_a_mixed_batch_is_filled_up():
    """Two decodes and a chunk of 5, up to 8 rows and 16 tokens: padding rows have no tokens, and padding tokens no row."""
    static = StaticBatch(config(), 4, 8, 16)
    batch = make_batch([([1], 6), ([2], 0), ([3, 4, 5, 6, 7], 2)], [[1, 2], [3], [4, 5]], 4)
    view = static.fill(batch, Bucket(8, 16))
    assert view.query_start.tolist() == [0, 1, 2, *[7] * 6]
    assert view.context_lens.tolist() == [7, 1, 7, 0, 0, 0, 0, 0]
    assert view.token_ids.tolist() == [1, 2, 3, 4, 5, 6, 7, *[0] * 9]
    assert view.slots[7:].tolist() == [0] * 9
    assert (view.num_decode, view.query_lens) == (2, [1, 1, 5, 0, 0, 0, 0, 0])
    assert view.sample_at.tolist() == [0, 1, 6, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("inputs", ["host:HostInputs", "resident:ResidentInputs"])
def test_padding_rows_write_to_the_padding_block_only(inputs):
    """Every block but 0 and those of the batch's own rows keeps its bytes; the padding rows' token goes to slot 0."""
    engine = make_engine("chunked", swap={**RUNNER, "inputs": f"minfer.inputs.{inputs}"}, max_num_seqs=8, graph_sizes=(8,))
    engine.add_request("0", [5, 6, 7], greedy(4))
    engine.step()
    pool = engine.executor.cache.device_pool
    before = pool.clone()
    engine.step()
    changed = (pool.nan_to_num(7) != before.nan_to_num(7)).flatten(3).any(-1).any(0).any(0)
    assert changed.nonzero()[:, 0].tolist() == [0, 1]
    assert pool[:, :, 0, 1:].isnan().all()


def test_a_recording_cannot_use_what_it_does_not_know():
    """A part that reads the host's context lengths while a step is recorded gets an error that says what to swap."""
    contexts = Unknown(3)
    assert len(contexts) == 3
    for read in (max, list, lambda each: 0 in each, lambda each: each[:1]):
        with pytest.raises(PartError, match=r"runner=minfer\.runner\.eager"):
            read(contexts)


def test_a_recording_runs_on_padding_only():
    """It moves no sequence, whatever was in the buffers."""
    used, fresh = (StaticBatch(config(), 4, 40, 40) for _ in range(2))
    used.fill(decode_batch(33, 17), Bucket(40))
    ours, theirs = (static.fill(no_batch(), Bucket(40)) for static in (used, fresh))
    for name in (*TOKENS, *ROWS, "block_tables", "query_start"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name))
    assert not ours.slots.any()
    assert ours.contexts == [0] * 40


@given(st.integers(1, 600))
def test_buckets_cover_every_batch_and_waste_little(max_num_seqs):
    """The largest bucket is max_num_seqs, and no batch is padded by more than 7 rows."""
    sizes = buckets(max_num_seqs)
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == max_num_seqs
    for rows in range(1, max_num_seqs + 1):
        assert next(size for size in sizes if size >= rows) - rows < 8


def test_no_size_is_beyond_what_can_run():
    """A size above max_num_seqs is taken as that: the inputs' buffers have no more rows."""
    assert CudaGraphRunner(None, [], None, None, config(max_num_seqs=4, graph_sizes=(2, 64))).buckets == [2, 4]
    texts = make_prompts(4)
    engine = make_engine("chunked", swap=RUNNER, max_num_seqs=4, graph_sizes=(64,))
    assert ids_of(run(engine, texts, greedy(3))) == ids_of(run(make_engine("chunked", max_num_seqs=4), texts, greedy(3)))


@pytest.mark.parametrize("record_random", [False, True])
def test_what_is_recorded_at_start_up(record_random):
    """Every size for greedy steps, the largest first; a server asks for random ones too, which its clients want most often."""
    runner = CudaGraphRunner(None, [], None, None, config(max_num_seqs=4, record_random=record_random))
    seen, runner.on_gpu = [], True
    runner._record = lambda bucket, mode: seen.append((bucket.rows, mode.samples, mode.all_greedy, mode.any_filter))
    runner.warm_up()
    for greedy_rows in (True, False):
        wanted = [4, 2, 1] if greedy_rows or record_random else []
        assert [rows for rows, *mode in seen if mode == [True, greedy_rows, False]] == wanted
    assert len(seen) == (6 if record_random else 3)


def test_one_step_that_needs_logits_between_others():
    """Penalties from the first token on, beside rows that sample in the recording: tokens as if each were alone."""
    texts = make_prompts(3)
    params = [greedy(6), SamplingParams(temperature=0, repetition_penalty=1.4, max_tokens=3, ignore_eos=True), greedy(6, logprobs=1)]
    engine = make_engine("chunked", swap=RUNNER)
    together = ids_of(run(engine, texts, params))
    assert together == [ids_of(run(engine, [text], own))[0] for text, own in zip(texts, params, strict=True)]
