"""`minfer bench serve`, against a fake server whose tokens come at known times: what it counts, how it sends, what faults become."""

from __future__ import annotations

import json

import pytest
from cli_runner import run, words
from fake_openai import Fake, serving
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.bench import serve_client
from minfer.bench.arrivals import poisson
from minfer.bench.serve import find_server, load
from minfer.bench.serve_client import Served
from minfer.bench.serve_load import Load, Objective
from minfer.bench.workload import Workload
from minfer.errors import MinferError

SMALL = ["--requests", 6, "--prompt-len", "1:4", "--output-len", "3:5", "--warm-up", 0, "--clients", 1]


def workload(requests: int, tokens: int = 4, first: list[int] | None = None) -> Workload:
    return Workload("test", [[n] for n in first or [0] * requests], [tokens] * requests, temperature=0.5)


def test_a_closed_loop_keeps_so_many_requests_open_and_sends_each_once():
    """Five streams over two processes: never more than five open, and every request is sent exactly once, as its body says."""
    with serving(Fake(interval=0.02)) as fake:
        result = load(find_server(fake.url), workload(20), concurrency=5, clients=2)
    assert fake.most_open == 5
    assert sorted(body["seed"] for body in fake.bodies) == list(range(20))
    assert [each.index for each in result.served] == list(range(20))
    assert all(body["max_tokens"] == 4 and body["ignore_eos"] and body["stream"] and body["temperature"] == 0.5 for body in fake.bodies)
    assert result.output_tokens == 80
    assert len(result.busy) == 2


def test_connections_are_used_again():
    """One stream needs one connection, besides that of /v1/models: setting one up is no part of a time to first token."""
    with serving(Fake()) as fake:
        load(find_server(fake.url), workload(10), concurrency=1)
    assert fake.connections == 2


def test_times_are_the_server_s():
    """First token after 0.3 s, the others 0.1 s apart: no time is shorter; and the mean of later tokens does not count the first."""
    with serving(Fake(ttft=0.3, interval=0.1)) as fake:
        times = load(find_server(fake.url), workload(2), concurrency=2).times()
    assert all(len(times[name]) == 2 for name in ("ttft_ms", "tpot_ms", "request_ms"))
    assert len(times["itl_ms"]) == 6
    assert min(times["ttft_ms"]) > 0.25
    assert min(times["tpot_ms"]) > 0.05
    assert min(times["request_ms"]) > 0.5


def test_an_open_loop_sends_when_requests_are_due():
    """Requests come at their times while earlier ones still run, and a time to first token counts from then."""
    due = [0.0, 0.2, 0.4, 0.6]
    with serving(Fake(ttft=1.0)) as fake:
        result = load(find_server(fake.url), workload(4), due=due, clients=2)
    assert fake.most_open > 1
    assert [round(each.due - result.start, 6) for each in result.served] == due
    assert all(each.token_times[0] - each.due >= 0.95 for each in result.served)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("refuse", "HTTP 429: busy"),
        ("cut", "RemoteProtocolError"),
        ("error", 'in the stream: {"message": "out of order"}'),
        ("nonsense", "an event that is not OpenAI's: <html>"),
        ("silent", "ReadTimeout"),
        ("empty", "an answer without a token"),
        ("early", "the stream ended without [DONE]"),
    ],
)
def test_a_request_that_fails_is_counted_and_harms_no_other(fault, said):
    """Its tokens count in nothing; the others' do."""
    with serving(Fake(fault=fault)) as fake:
        result = load(find_server(fake.url), workload(5, first=[0, 1, 0, 1, 0]), concurrency=2, timeout=3)
    (error, count), *others = result.errors.items()
    assert not others
    assert error.startswith(said)
    assert count == 2
    assert result.output_tokens == 3 * 4
    assert len(result.describe()["percentiles"]["ttft_ms"]) == 3


def test_when_all_fail_the_first_reason_is_told():
    with serving(Fake(fault="refuse", bad=0)) as fake, pytest.raises(MinferError, match=r"none of 3 requests was answered.*429: busy"):
        load(find_server(fake.url), workload(3), concurrency=2)


@pytest.mark.parametrize(("fake", "counted"), [(Fake(pieces=7), "server"), (Fake(usage=False), "events")])
def test_events_may_come_in_pieces_and_without_usage(fake, counted):
    """Seven bytes at a time are the same answer; without the server's count, events are counted."""
    with serving(fake):
        facts = load(find_server(fake.url), workload(3), concurrency=3).describe()
    assert (facts["output_tokens"], facts["tokens_counted_by"]) == (12, counted)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_pieces_of_any_size_are_the_same_answer(data):
    """However a body is cut, the same events are read from it."""
    import asyncio

    event = b'data: {"choices": [{"text": "x", "finish_reason": null}]}'
    body = (
        b": a comment\n\n"
        + b"\r\n\r\n".join([event] * 3)
        + b'\n\ndata: {"choices": [], "usage": {"completion_tokens": 5}}\n\ndata: [DONE]\n\n'
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=30)))

    class Response:
        async def aiter_raw(self):
            for low, high in zip([0, *cuts], [*cuts, len(body)], strict=True):
                yield body[low:high]

    served = Served(0, 0.0)
    asyncio.run(serve_client.read(Response(), served))
    assert (len(served.token_times), served.tokens, served.error) == (3, 5, None)


def test_an_end_is_no_token_unless_it_is_all_there_is():
    """An event with a reason and no text brings no token; but where the whole answer has no text, it is when the answer came."""
    end = b'{"choices": [{"text": "", "finish_reason": "length"}]}'
    served = Served(0, 0.0)
    for now, data in enumerate([b'{"choices": [{"text": "", "finish_reason": null}]}', end]):
        assert not serve_client.note(data, float(now), served)
    assert served.token_times == [0.0]
    alone = Served(0, 0.0)
    serve_client.note(end, 3.0, alone)
    assert alone.token_times == [3.0]


def test_goodput_counts_what_kept_every_objective():
    """One is good, one starts late, one goes on slowly, one failed; one of a single token has no later ones to miss."""
    good, late, slow = Served(0, 0.0, [0.1, 0.2, 0.3], 3, 0.3), Served(1, 0.0, [0.9, 1.0], 2, 1.0), Served(2, 0.0, [0.1, 0.9], 2, 0.9)
    single, failed = Served(3, 0.0, [0.1], 1, 0.1), Served(4, 0.0, [0.1, 0.2], None, 2.0, "gone")
    result = Load(0.0, [good, late, slow, single, failed], [0.1])
    both = Objective(500, 150)
    assert [both.kept_by(each) for each in (good, late, slow, single)] == [True, False, False, True]
    assert result.goodput(both) == 2 / 2.0
    assert result.describe(both)["good_share"] == 2 / 5
    assert "slo" not in result.describe(Objective())
    assert result.output_tokens == 8


def test_several_tokens_in_an_event_are_counted_as_the_server_does():
    """Nine tokens in three events over 0.8 s: 0.1 s for each after the first."""
    result = Load(0.0, [Served(0, 0.0, [0.2, 0.6, 1.0], 9, 1.0)], [])
    assert result.times()["tpot_ms"] == pytest.approx([0.1])
    assert result.times()["itl_ms"] == pytest.approx([0.4, 0.4])


def test_nobody_answers():
    with pytest.raises(MinferError, match=r"no server answers at http://127.0.0.1:1: .*start one with `minfer serve`"):
        find_server("http://127.0.0.1:1/v1")


def test_a_server_s_models_and_its_key():
    """The first model is taken, an unknown one refused; the key goes along with every request."""
    with serving(Fake()) as fake:
        assert find_server(fake.url + "/v1/").model == "fake"
        with pytest.raises(MinferError, match="no model 'other'; it has fake"):
            find_server(fake.url, "other")
        load(find_server(fake.url, api_key="secret"), workload(1), concurrency=1)
        assert [head.split(b" ")[0] for head in fake.headers if b"Bearer secret" in head] == [b"GET", b"GET", b"POST"]
        fake.models = b"[]"
        with pytest.raises(MinferError, match="HTTP 200 without a list of models"):
            find_server(fake.url)


def test_the_command_shows_times_and_writes_report_and_plot(tmp_path):
    """A closed loop with objectives, then an open one; the report says with what it can be made again."""
    report, plot = tmp_path / "a.json", tmp_path / "a.svg"
    with serving(Fake()) as fake:
        options = ["--slo-ttft-ms", 60000, "--slo-tpot-ms", 60000, "--json", report, "--plot", plot]
        result = run("bench", "serve", "--url", fake.url, *SMALL, "--concurrency", 2, *options)
        open_loop = run("bench", "serve", "--url", fake.url, *SMALL, "--rate", 100)
        warm = len(fake.bodies)
        run("bench", "serve", "--url", fake.url, *SMALL[:-4], "--warm-up", 2, "--clients", 1)
        assert len(fake.bodies) == warm + 2 + 6
    assert "(100% of the requests)" in result.stdout
    assert "time to first token" in open_loop.stdout
    content = json.loads(report.read_text())
    assert content["kind"] == "serve"
    assert content["hardware"]["cpu"]
    assert (content["concurrency"], content["rate"], content["answered"], content["failed"]) == (2, None, 6, 0)
    assert content["output_tokens"] == sum(content["requests"]["max_tokens"])
    assert content["good_share"] == 1
    assert plot.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--concurrency", 2, "--rate", 1], 2, "choose one"),
        (["--prompt-len", "x"], 2, "is not LOW:HIGH"),
        (["--prompt-len", "4000:5000"], 1, "the limit is 4096"),
        (["--workload", "w1", "--vocab-size", 100], 1, "workload w1"),
        (["--rate", 0], 1, "rate=0.0"),
    ],
)
def test_what_cannot_be_asked_for(arguments, code, message):
    with serving(Fake()) as fake:
        assert message in words(run("bench", "serve", "--url", fake.url, *arguments, code=code).stderr)


def test_poisson_times_are_what_the_open_loop_sends():
    """The command's rate and seed fix when requests come."""
    with serving(Fake()) as fake:
        result = load(find_server(fake.url), workload(5), due=poisson(5, 50.0, seed=3))
    assert [each.due - result.start for each in result.served] == pytest.approx(poisson(5, 50.0, seed=3))
