"""`minfer batch`: what each line becomes, the order, the seeds, and files that were broken off at any byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from batch_files import BAD, CHAT, line, many_lines, records, write
from cli_runner import run, tiny_model
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.batch import lines as batch_lines
from minfer.batch.items import read_items
from minfer.batch.jobs import Jobs, run_items
from minfer.batch.lines import Line, read_lines
from minfer.batch.output import Output
from minfer.batch.run import run_batch
from minfer.errors import MinferError
from minfer.llm import LLM

OPTIONS = {"dtype": "float32", "device": "cpu", "max_num_seqs": 6, "num_kv_blocks": 4, "max_model_len": 128}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    return tiny_model(tmp_path_factory.mktemp("tiny") / "tiny")


@pytest.fixture(scope="module")
def llm(tiny):
    """With a prefix cache, and so few blocks that sequences give way."""
    with LLM(tiny, stage="cpu-torch", **OPTIONS) as llm:
        yield llm


def answers_of(llm, window: int = 8):
    """The answers of an engine that is already there."""
    return lambda items: run_items(Jobs(llm, "tiny"), items, window)


def outcome(llm, folder: Path, lines: list[bytes], **options) -> list[dict]:
    source = write(folder / "in.jsonl", lines)
    (folder / "out.jsonl").unlink(missing_ok=True)
    run_batch(source, folder / "out.jsonl", answers_of(llm, **options), "tiny")
    return records(folder / "out.jsonl")


@pytest.fixture(scope="module")
def unbroken(llm, tmp_path_factory):
    """An input of every kind of line, and the output of one run."""
    folder = tmp_path_factory.mktemp("unbroken")
    source = write(folder / "in.jsonl", [*many_lines(24, seed=1, longest=14), *BAD[:2], b""])
    run_batch(source, folder / "out.jsonl", answers_of(llm), "tiny")
    assert llm.stats().num_preemptions, "too many blocks: nothing gave way"
    return source, (folder / "out.jsonl").read_bytes()


def test_a_record_has_openai_s_form(llm, tmp_path):
    """An answer, a refused body and a line that is no request; the body is the server's response without times."""
    lines = [line("a", {"prompt": [5, 6], "max_tokens": 3, "ignore_eos": True}), line("b", {"prompt": [5], "temperature": -1}), b"{"]
    good, refused, bad = outcome(llm, tmp_path, lines)
    assert (good["id"], good["custom_id"], good["error"]) == ("batch_req_1", "a", None)
    assert (good["response"]["status_code"], good["response"]["request_id"]) == (200, "req_1")
    body = good["response"]["body"]
    assert body["usage"] == {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
    assert (body["object"], body["created"], body["model"], body["id"]) == ("text_completion", 0, "tiny", "cmpl-1")
    assert body["choices"][0]["finish_reason"] == "length"
    assert refused["response"]["status_code"] == 400
    assert refused["response"]["body"]["error"]["param"] == "temperature"
    assert refused["error"] is None
    assert (bad["id"], bad["custom_id"], bad["response"], bad["error"]["code"]) == ("batch_req_3", None, None, "invalid_json")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"{", "invalid_json"),
        (b"\xff\xfe", "invalid_json"),
        (b'{"custom_id": "a", "x": NaN}', "invalid_json"),
        (b"[" * 100000, "invalid_json"),
        (b"[1]", "invalid_line"),
        (b'{"method": "POST"}', "invalid_custom_id"),
        (b'{"custom_id": ""}', "invalid_custom_id"),
        (b'{"custom_id": 7}', "invalid_custom_id"),
        (b'{"custom_id": "a", "method": "GET"}', "invalid_method"),
        (line("a", {}, "/v1/embeddings"), "invalid_url"),
        (b'{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": []}', "invalid_body"),
    ],
)
def test_a_bad_line_becomes_an_error_record_and_harms_no_other(llm, tmp_path, content, code):
    good = line("good", {"prompt": [5, 6, 7], "max_tokens": 2})
    first, bad, last = outcome(llm, tmp_path, [good, content, line("last", {"prompt": [5], "max_tokens": 1})])
    assert bad["error"]["code"] == code
    assert bad["error"]["message"].startswith("line 2 ")
    assert first["response"]["status_code"] == last["response"]["status_code"] == 200


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": [9999]},
        {"prompt": list(range(3, 203))},
        {"prompt": []},
        {"prompt": [[5], [9999]], "max_tokens": 1},
        {"prompt": [5], "stream": True},
        {"prompt": [5], "n": 0},
        {},
    ],
)
def test_a_body_that_is_refused_has_status_400(llm, tmp_path, body):
    """Also where its first prompt is fine and was given to the engine already, which could have ended with it long ago."""
    slow = line("slow", {"prompt": [7], "max_tokens": 30, "ignore_eos": True})
    _, refused, good = outcome(llm, tmp_path, [slow, line("a", body), line("b", {"prompt": [5], "max_tokens": 1})])
    assert refused["response"]["status_code"] == 400
    assert refused["response"]["body"]["error"]["message"]
    assert good["response"]["status_code"] == 200
    assert not llm.has_unfinished()


def test_a_line_that_is_too_long_is_read_past(llm, tmp_path, monkeypatch):
    monkeypatch.setattr(batch_lines, "LONGEST", 300)
    monkeypatch.setattr("minfer.batch.items.LONGEST", 300)
    good = line("good", {"prompt": [5], "max_tokens": 1})
    made = outcome(llm, tmp_path, [good, b'{"x": "' + b"a" * 1000 + b'"}', line("last", {"prompt": [6], "max_tokens": 1})])
    assert [each["custom_id"] for each in made] == ["good", None, "last"]
    assert made[1]["error"]["code"] == "line_too_long"


def test_the_second_line_with_a_custom_id_is_not_run(llm, tmp_path):
    """Its record says which line came first; so does that of a third one."""
    body = {"prompt": [5], "max_tokens": 1}
    made = outcome(llm, tmp_path, [line("a", body), line("b", body), line("a", body), line("a", body)])
    assert [each["response"] is None for each in made] == [False, False, True, True]
    assert made[3]["error"] == {
        "code": "duplicate_custom_id",
        "message": "line 4 has the custom_id of line 1; give each line one of its own",
    }


@given(st.lists(st.sampled_from([b"", b"  ", b'{"a": 1}', b"x", b"\xef\xbb\xbf{}"])), st.sampled_from([b"\n", b"\r\n"]), st.booleans())
@settings(deadline=None, max_examples=40)
def test_lines_are_numbered_as_an_editor_does(tmp_path_factory, contents, end, ended):
    """Blank ones count and are left out; the last may lack its end; reading can begin behind any of them."""
    path = tmp_path_factory.mktemp("lines") / "in"
    path.write_bytes(end.join(contents) + (end if ended else b""))
    found = list(read_lines(path))
    expected = [(i, each.strip().removeprefix(b"\xef\xbb\xbf") if i == 1 else each) for i, each in enumerate(contents, start=1)]
    assert [(each.number, each.content) for each in found] == [(i, each) for i, each in expected if each.strip()]
    for i, each in enumerate(found):
        assert list(read_lines(path, each.end, each.number)) == found[i + 1 :]
        assert each.number == 1 or list(read_lines(path, each.start, each.number - 1)) == found[i:]


def test_records_are_in_the_input_s_order(llm, tmp_path):
    """Though short requests end long before the long one in front of them."""
    lines = [line(f"r{i}", {"prompt": [5 + i], "max_tokens": 40 if i == 0 else 1, "ignore_eos": True}) for i in range(20)]
    assert [each["custom_id"] for each in outcome(llm, tmp_path, lines)] == [f"r{i}" for i in range(20)]


def test_no_more_than_a_window_of_lines_is_read_ahead(llm):
    """A file of any size is run in little memory."""
    taken = []

    def items():
        for i in range(30):
            taken.append(i)
            yield from read_items([Line(i + 1, line(f"r{i}", {"prompt": [5], "max_tokens": 4, "ignore_eos": True}), 0, 1)])

    for count, _ in enumerate(run_items(Jobs(llm, "tiny"), items(), 5)):
        assert len(taken) <= count + 5
    assert len(taken) == 30


def test_a_result_depends_on_seed_and_line_only(llm, tmp_path):
    """The same body in two lines, without a seed: two texts, and the same two in another window. With a seed: one text."""
    body = {"prompt": [5, 6, 7], "max_tokens": 12, "ignore_eos": True, "temperature": 1}
    lines = [line("a", body), line("b", body), line("c", {**body, "seed": 3}), line("d", {**body, "seed": 3})]
    lines.append(line("e", {**body, "prompt": [[5, 6, 7]] * 2, "n": 2}))
    first = outcome(llm, tmp_path, lines)
    assert outcome(llm, tmp_path, lines, window=1) == first
    a, b, c, d, e = ([choice["text"] for choice in each["response"]["body"]["choices"]] for each in first)
    assert a != b
    assert c == d
    assert len(set(e)) == 4


def test_an_answer_is_the_api_s(llm, tmp_path):
    """The text is what `LLM.chat` gives for the same conversation."""
    messages = [{"role": "user", "content": "hé"}]
    (made,) = outcome(llm, tmp_path, [line("a", {"messages": messages, "max_tokens": 5, "temperature": 0}, CHAT)])
    from minfer.params import SamplingParams

    expected = llm.chat(messages, SamplingParams(temperature=0, max_tokens=5))[0].outputs[0].text
    assert made["response"]["body"]["choices"][0]["message"]["content"] == expected


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
