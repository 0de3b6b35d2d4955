"""A trace carried out again gives the engine's own state at every step, whatever the parts and the traffic."""

from __future__ import annotations

import json

import pytest
from engine_fixtures import finish, greedy, make_engine
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_fixtures import RecordedTraffic, Seen, small_trace

from minfer.errors import MinferError
from minfer.testing.traffic import cases
from minfer.trace import Trace, record
from minfer.trace.edits import apply_edit, edit_of, table_edit
from minfer.trace.replay import outputs

TRAFFIC = cases(None, ahead=True)
NOTHING = Seen(None, ([], [], []), {}, {}, {}, {}, set(), 0, {})  # before the first plan


@settings(max_examples=150)
@given(TRAFFIC)
def test_every_step_is_there_again(case):
    """Queues, block tables, host blocks, tokens, cached blocks, plans and copies: all that a witness saw beside the recorder."""
    traffic = RecordedTraffic(case)
    traffic.play()
    trace = Trace(json.loads(json.dumps(traffic.recorder.stop().content)))
    frames = [frame for frame in trace.frames() if "step" in frame.entry]
    assert len(frames) == len(traffic.seen) == trace.num_steps
    for frame, seen in zip(frames, traffic.seen, strict=True):
        assert (frame.held, frame.waiting, frame.running) == seen.queues
        assert frame.tables == seen.tables
        assert frame.swapped == seen.swapped
        assert {seq: frame.computed[seq] for seq in frame.running} == seen.computed
        assert {seq: frame.num_output[seq] for seq in seen.num_output} == seen.num_output
        assert frame.cached == seen.cached
        assert frame.num_free == seen.num_free
        assert [tuple(task) for task in frame.work] == [(w.seq_id, w.row, w.start, w.num_new, w.samples) for w in seen.plan.work]
        assert frame.entry.get("copies", []) == [list(each) for each in seen.plan.copies]
    for before, seen, frame in zip([NOTHING, *traffic.seen], traffic.seen, frames, strict=False):
        gave_way = {seq for seq, count in seen.preemptions.items() if count > before.preemptions.get(seq, 0)}
        assert set(frame.entry.get("preempted", ())) & set(seen.preemptions) == gave_way  # the aborted are not seen
        back = {copy.dst for copy in seen.plan.copies if copy.kind == "in"}
        fresh = [w for w in seen.plan.work if w.start and (w.seq_id in gave_way or w.seq_id not in before.tables)]
        hits = [[w.seq_id, w.start] for w in fresh if not back & set(seen.tables[w.seq_id])]
        assert frame.entry.get("hits", []) == hits
    assert outputs(trace) == {seq.seq_id: seq.output_ids for seq in traffic.seqs}
    *_, last = trace.frames()
    assert not last.tables
    assert not last.swapped
    assert last.num_free == traffic.blocks.num_total
    assert {seq.seq_id: seq.finish_reason for seq in traffic.seqs} == {i: each["finish"] for i, each in trace.sequences.items()}


@settings(max_examples=40)
@given(TRAFFIC)
def test_a_trace_survives_its_file(tmp_path_factory, case):
    """What is written is read again, plain and gzipped, and is found to be right."""
    traffic = RecordedTraffic(case)
    traffic.play()
    trace = traffic.recorder.stop()
    for name in ("t.json", "t.json.gz"):
        path = tmp_path_factory.mktemp("traces") / name
        trace.save(path)
        assert Trace.load(path) == trace


@pytest.mark.parametrize("mix", ["decoder", "paged+prefix", "continuous+swap", "cpu", "cpu+ahead+swap", "cpu+fair_share"])
def test_slots_are_those_that_the_inputs_computed(mix):
    """Of any mix of parts; the slots in a trace follow from its block tables and plans, and the engine's own do so by another way."""
    blocks, host_blocks = 3 if mix == "decoder" else 20, 9 if "swap" in mix else 0
    engine = make_engine(mix, num_kv_blocks=blocks, max_num_batched_tokens=16, num_host_blocks=host_blocks)
    inputs, built = engine.executor.inputs, []
    with record(engine) as recording:
        build = inputs.build
        inputs.build = lambda plan: built.append((plan, build(plan))) or built[-1][1]
        for i in range(6):
            engine.add_request(str(i), [1 + i] * (3 + 2 * i), greedy(9, n=1 if mix == "decoder" else 2))
        for _ in range(4):
            engine.step()
        engine.abort("2")
        finish(engine)
    trace = recording.trace
    planned = [frame for frame in trace.frames() if "step" in frame.entry]
    size = trace.engine["block_size"]
    for frame, (plan, batch) in zip(planned, built, strict=True):
        slots = frame.slots(size)
        assert [w.seq_id for w in plan.work] == list(slots)
        if "ahead" not in mix:  # the resident inputs compute slots on the device
            assert [slot for each in slots.values() for slot in each] == batch.slots.tolist()
    assert {trace.sequences[seq]["finish"] for seq in trace.sequences} == {"length", "abort"}
    engine.close()


def test_a_recording_may_begin_and_end_in_the_middle():
    """Sequences that were running already are taken from where they are, and the engine runs on after the end."""
    engine = make_engine("cpu", num_kv_blocks=30)
    for i in range(5):
        engine.add_request(str(i), [i + 1] * 7, greedy(12))
    for _ in range(3):
        engine.step()
    before = {seq.seq_id: (list(seq.block_table), seq.num_output) for seq in engine.scheduler.running}
    with record(engine) as recording:
        engine.step()
        middle = recording.trace
        engine.step()
    first = next(middle.frames())
    assert {seq: table for seq, (table, _) in before.items()} == {seq: first.tables[seq][: len(before[seq][0])] for seq in before}
    assert all(first.num_output[seq] == known for seq, (_, known) in before.items())
    assert middle.num_steps == 1
    assert recording.trace.num_steps == 2
    assert "hits" not in middle.content["steps"][0]
    finish(engine)
    assert recording.trace.num_steps == 2
    engine.close()


def test_prefix_hits_are_those_of_the_sequences():
    trace = small_trace()
    hits = {seq: tokens for frame in trace.frames() for seq, tokens in frame.entry.get("hits", ())}
    assert hits
    size = trace.engine["block_size"]
    for seq, tokens in hits.items():
        forked = "parent" in trace.sequences[seq] and tokens == trace.sequences[seq]["num_prompt"] - 1
        assert tokens % size == 0 or forked


def test_two_recordings_of_one_engine_are_refused():
    engine = make_engine("cpu")
    with record(engine), pytest.raises(MinferError, match="recorded already"):
        record(engine)
    with record(engine):
        pass
    engine.close()
    with pytest.raises(MinferError, match="closed"):
        record(engine)


def test_an_engine_that_is_not_recorded_has_nothing_on_it():
    """Off means off: no wrapper stays on the scheduler, the executor, the runner or the blocks."""
    engine = make_engine("cpu+ahead")
    parts = (engine.scheduler, engine.executor, engine.executor.runner, engine.blocks)
    before = [set(vars(part)) for part in parts]
    with record(engine):
        assert [set(vars(part)) for part in parts] != before
    assert [set(vars(part)) for part in parts] == before
    assert engine.blocks.changed is None
    engine.close()


def test_a_class_with_slots_is_refused_and_nothing_stays_wrapped():
    """It has no place for a wrapper; the message says so, and the parts that had one lose it again."""

    class Slotted:
        __slots__ = ("executor",)

        def __init__(self, executor):
            self.executor = executor

        def launch(self, plan):
            return self.executor.launch(plan)

        def close(self):
            self.executor.close()

    engine = make_engine("cpu")
    engine.executor = Slotted(engine.executor)
    with pytest.raises(MinferError, match=r"Slotted\.launch cannot be recorded: the class has __slots__"):
        record(engine)
    assert "schedule" not in vars(engine.scheduler)
    engine.close()


def test_a_step_that_fails_is_in_the_trace_and_the_next_ones_are_too():
    engine = make_engine("cpu+ahead")
    with record(engine) as recording:
        engine.add_request("a", [1, 2, 3], greedy(9))
        engine.step()
        launch = engine.executor.launch
        engine.executor.launch = lambda plan: 1 / 0
        with pytest.raises(ZeroDivisionError):
            engine.step()
        engine.executor.launch = launch
        engine.add_request("b", [4, 5, 6], greedy(4))
        finish(engine)
    *_, last = recording.trace.frames()
    assert last.num_output == {0: 0, 1: 4}
    assert not last.in_flight
    assert not last.tables
    assert recording.trace.sequences[0]["finish"] == "abort"
    engine.close()


NUMBERS = st.lists(st.integers(0, 30), unique=True, max_size=12)


@given(NUMBERS, NUMBERS)
def test_edits(old, new):
    """Any list becomes any other, and the old one stays as it is."""
    kept = list(old)
    assert apply_edit(old, edit_of(old, new)) == new
    keep, added = table_edit(old, new)
    assert old[:keep] + added == new
    assert old == kept


def test_an_edit_is_small():
    """One that leaves and one that comes cost a few numbers, and not the queue."""
    edit = edit_of(list(range(256)), [*range(10), *range(11, 256), 300])
    assert edit == {"out": [10], "in": [255, 300]}
    assert table_edit([1, 2, 3], [1, 2, 3, 9]) == (3, [9])
