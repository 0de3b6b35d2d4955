"""`minfer batch`: what each line becomes, in which order, and what its result depends on."""

from __future__ import annotations

import pytest
from batch_files import CHAT, line, outcome
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.batch import lines as batch_lines
from minfer.batch.items import read_items
from minfer.batch.jobs import Jobs, run_items
from minfer.batch.lines import Line, read_lines
from minfer.params import SamplingParams


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
    expected = llm.chat(messages, SamplingParams(temperature=0, max_tokens=5))[0].outputs[0].text
    assert made["response"]["body"]["choices"][0]["message"]["content"] == expected
