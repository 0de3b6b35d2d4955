"""`minfer batch`: the output, broken off at any byte and gone on with, or refused; and the command."""

from __future__ import annotations

import json

import pytest
from batch_files import answers_of, line, records, write
from cli_runner import run
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.batch.items import read_items
from minfer.batch.lines import read_lines
from minfer.batch.output import Output
from minfer.batch.run import run_batch
from minfer.errors import MinferError


@given(st.data())
@settings(deadline=None, max_examples=25)
def test_a_run_that_was_broken_off_at_any_byte_ends_with_the_same_file(llm, unbroken, tmp_path_factory, data):
    """Cut anywhere, as by a kill, once or twice: the output is that of an unbroken run, byte for byte."""
    source, whole = unbroken
    path = tmp_path_factory.mktemp("cut") / "out.jsonl"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    window = data.draw(st.integers(1, 9))
    for _ in range(data.draw(st.integers(0, 1))):
        stop = data.draw(st.integers(0, 5))
        with Output(path) as output:
            _, rest = output.resume(read_items(read_lines(source)), "tiny")
            for i, done in enumerate(answers_of(llm, window)(rest)):
                if i == stop:
                    output.write(done.record[: data.draw(st.integers(0, len(done.record)))])
                    break
                output.write(done.record)
    run_batch(source, path, answers_of(llm, window), "tiny")
    assert path.read_bytes() == whole
    assert not llm.has_unfinished()


def test_a_whole_output_needs_no_engine(unbroken, tmp_path):
    source, whole = unbroken
    (tmp_path / "out.jsonl").write_bytes(whole)
    summary = run_batch(source, tmp_path / "out.jsonl", None, "tiny")
    assert summary.line().startswith("nothing left to run; 26 were there already")


def test_lines_that_were_added_to_the_input_are_run_alone(llm, unbroken, tmp_path):
    """The records that are there stay as they are."""
    source, whole = unbroken
    longer = write(tmp_path / "in", [*source.read_bytes().splitlines(), line("new", {"prompt": [5], "max_tokens": 1})])
    (tmp_path / "out").write_bytes(whole)
    assert run_batch(longer, tmp_path / "out", answers_of(llm), "tiny").kinds == {"answered": 1}
    assert (tmp_path / "out").read_bytes().startswith(whole)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"my notes", "line 1 is not the record"),
        (b"my notes\n", "line 1 is not the record"),
        (b'{"id": "batch_req_1", "custom_id": "other", }\n', "line 1 is not the record"),
        (b'{"id": "batch_req_1", "custom_id": "r0", "response": null}\n\n', "line 2 is not the record"),
        (b'{"id": "batch_req_2', "line 1 is not the record"),
    ],
)
def test_a_file_that_is_something_else_is_left_alone(unbroken, tmp_path, content, message):
    """It is refused, whole as it was."""
    (tmp_path / "out").write_bytes(content)
    with pytest.raises(MinferError, match=message):
        run_batch(unbroken[0], tmp_path / "out", None, "tiny")
    assert (tmp_path / "out").read_bytes() == content


def test_an_output_longer_than_its_input_or_another_model_s_is_refused(unbroken, tmp_path):
    source, whole = unbroken
    (tmp_path / "out").write_bytes(whole)
    short = write(tmp_path / "in", source.read_bytes().splitlines()[:5])
    with pytest.raises(MinferError, match="line 6 is not the record"):
        run_batch(short, tmp_path / "out", None, "tiny")
    with pytest.raises(MinferError, match="answers of the model 'tiny', and this run's is 'large'"):
        run_batch(source, tmp_path / "out", None, "large")
    assert (tmp_path / "out").read_bytes() == whole


def test_one_run_writes_at_a_time(unbroken, tmp_path):
    with Output(tmp_path / "out"), pytest.raises(MinferError, match="written by another run"):
        run_batch(unbroken[0], tmp_path / "out", None, "tiny")


def test_files_that_cannot_be(unbroken, tmp_path):
    """No input, input and output in one, an output without a folder: said before an engine is built."""
    with pytest.raises(MinferError, match="no file; name one"):
        run_batch(tmp_path / "none", tmp_path / "out", None, "tiny")
    with pytest.raises(MinferError, match="input and output at once"):
        run_batch(unbroken[0], unbroken[0], None, "tiny")
    with pytest.raises(MinferError, match="cannot be written: No such file"):
        run_batch(unbroken[0], tmp_path / "no" / "out", None, "tiny")


def test_without_a_terminal_a_line_now_and_then_says_how_far_it_is(llm, unbroken, tmp_path, monkeypatch):
    """Lines, share of the input, speed, and the time left; the last one says that all is done."""
    monkeypatch.setattr("minfer.batch.progress.EVERY", -1.0)
    said: list[str] = []
    run_batch(unbroken[0], tmp_path / "out", answers_of(llm), "tiny", said.append)
    assert len(said) == 26
    assert said[0].startswith("1 lines, ")
    assert said[-1].startswith("26 lines, 100% of the input, ")
    assert said[-1].endswith("tokens/s, about 0 min left")


def test_a_step_that_fails_leaves_what_was_done_and_an_engine_that_works(llm, unbroken, tmp_path, monkeypatch):
    """The error reaches the caller; the next run goes on."""
    source, whole = unbroken
    step, count = llm.step, 0

    def failing():
        nonlocal count
        count += 1
        if count == 12:
            raise RuntimeError("out of memory")
        return step()

    monkeypatch.setattr(llm, "step", failing)
    with pytest.raises(RuntimeError, match="out of memory"):
        run_batch(source, tmp_path / "out", answers_of(llm), "tiny")
    assert not llm.has_unfinished()
    assert whole.startswith((tmp_path / "out").read_bytes())
    run_batch(source, tmp_path / "out", answers_of(llm), "tiny")
    assert (tmp_path / "out").read_bytes() == whole


def test_the_command_runs_a_file_and_says_what_became_of_it(tiny, tmp_path):
    """On stderr: lines, tokens, speed; nothing on stdout. A second time nothing is left."""
    source = write(tmp_path / "in", [line("a", {"prompt": [5], "max_tokens": 2}), line("b", {"prompt": [999]}), b"{"])
    arguments = ["batch", source, tmp_path / "out", "--model", tiny, "--stage", "chunked", "--max-num-seqs", 4]
    result = run(*arguments)
    assert "1 answered, 1 refused, 1 unreadable; 2 output tokens" in result.stderr
    assert result.stdout == ""
    assert [each["response"]["body"].get("model") for each in records(tmp_path / "out")[:1]] == ["tiny"]
    assert "nothing left to run; 3 were there already" in run(*arguments).stderr
    assert json.loads((tmp_path / "out").read_bytes().splitlines()[2])["error"]["code"] == "invalid_json"
