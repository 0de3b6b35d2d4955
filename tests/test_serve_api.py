"""The API as the openai client and plain HTTP see it: the same texts as without a server, in the API's form."""

from __future__ import annotations

import asyncio
import math

import openai
import pytest
from serve_fixtures import NAME, PATIENCE, Running, events_of, running

from minfer import SamplingParams

ASK = {"max_tokens": 8, "temperature": 0, "extra_body": {"ignore_eos": True}}
MESSAGES = [{"role": "system", "content": "be short"}, {"role": "user", "content": "héllo 😀"}]


@pytest.fixture(scope="module")
def server():
    with running() as this:
        yield this
        this.settle()


def greedy(**others) -> SamplingParams:
    return SamplingParams(**{"temperature": 0, "max_tokens": 8, "ignore_eos": True, **others})


def test_completion(server: Running):
    """The openai client's answer is what LLM gives, with the tokens counted."""
    answer = server.client.completions.create(model=NAME, prompt="hello", **ASK)
    assert [answer.choices[0].text] == server.offline("hello", greedy())
    assert (answer.object, answer.model, answer.choices[0].finish_reason) == ("text_completion", NAME, "length")
    assert answer.usage.completion_tokens == 8
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 8
    assert answer.usage.prompt_tokens == len(server.llm.tokenizer("hello").input_ids)


def test_completion_streams_the_same(server: Running):
    whole = server.client.completions.create(model=NAME, prompt="hello", **ASK).choices[0].text
    pieces = list(server.client.completions.create(model=NAME, prompt="hello", stream=True, **ASK))
    assert "".join(each.choices[0].text for each in pieces) == whole


def test_chat(server: Running):
    """A chat, whole and in a stream, with and without text parts."""
    ask = {"model": NAME, **ASK}
    whole = server.client.chat.completions.create(messages=MESSAGES, **ask)
    assert (whole.object, whole.choices[0].message.role) == ("chat.completion", "assistant")
    pieces = list(server.client.chat.completions.create(messages=MESSAGES, stream=True, **ask))
    assert "".join(each.choices[0].delta.content or "" for each in pieces) == whole.choices[0].message.content
    parts = [{"role": each["role"], "content": [{"type": "text", "text": each["content"]}]} for each in MESSAGES]
    again = server.client.chat.completions.create(messages=parts, **ask)
    assert again.choices[0].message.content == whole.choices[0].message.content
    ids = server.llm.tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, tokenize=True, return_dict=False)
    assert whole.usage.prompt_tokens == len(ids)
    with_params = server.llm.tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, tokenize=False)
    assert ids.count(server.llm.tokenizer.bos_token_id) == with_params.count("<s>") == 1


def test_the_async_client(server: Running):
    """Many at once, whole and in streams: each gets its own answer."""
    prompts = [f"{i} and so on" for i in range(12)]

    async def ask_all() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=PATIENCE) as client:

            async def ask(i: int) -> str:
                options = {"model": NAME, "prompt": prompts[i], **ASK}
                if i % 2:
                    return (await client.completions.create(**options)).choices[0].text
                return "".join([each.choices[0].text async for each in await client.completions.create(stream=True, **options)])

            return await asyncio.gather(*map(ask, range(len(prompts))))

    expected = [server.offline(prompt, greedy())[0] for prompt in prompts[:3]]
    texts = asyncio.run(ask_all())
    assert texts[:3] == expected
    assert texts == [server.complete(prompt, max_tokens=8, ignore_eos=True).json()["choices"][0]["text"] for prompt in prompts]


def test_several_prompts_and_n(server: Running):
    """Choice i of prompt p has the index p * n + i, whole and streamed; a seed fixes them all."""
    fields = {"n": 2, "seed": 7, "temperature": 1, "max_tokens": 6, "ignore_eos": True}
    answer = server.complete(["one", "two", "three"], **fields).json()
    assert [each["index"] for each in answer["choices"]] == list(range(6))
    texts = [each["text"] for each in answer["choices"]]
    assert texts[2:4] == server.offline("two", SamplingParams(**fields))
    assert texts[0] != texts[1]
    assert answer["usage"]["completion_tokens"] == 36
    streamed = [""] * 6
    ended = []
    for event in events_of(server.complete(["one", "two", "three"], stream=True, **fields).text)[:-1]:
        choice = event["choices"][0]
        streamed[choice["index"]] += choice["text"]
        if choice["finish_reason"] is not None:
            ended.append(choice["index"])
    assert streamed == texts
    assert sorted(ended) == list(range(6))


@pytest.mark.parametrize("as_ids", [False, True])
def test_prompt_forms(server: Running, as_ids):
    """A text, several, ids, and several lists of ids."""
    texts = ["hello there", "in the"]
    prompts = [server.llm.tokenizer(text).input_ids for text in texts] if as_ids else texts
    fields = {"max_tokens": 4, "ignore_eos": True}
    one = [server.complete(prompt, **fields).json()["choices"][0]["text"] for prompt in prompts]
    both = [each["text"] for each in server.complete(prompts, **fields).json()["choices"]]
    assert one == both == [server.offline(text, greedy(max_tokens=4))[0] for text in texts]


def test_stop_strings(server: Running):
    """The text ends before the earliest stop, and the stream has nothing of it."""
    text = server.complete(max_tokens=20, ignore_eos=True).json()["choices"][0]["text"]
    stop = text[5:8]
    choice = server.complete(max_tokens=20, ignore_eos=True, stop=[stop, "never"]).json()["choices"][0]
    assert (choice["text"], choice["finish_reason"], choice["stop_reason"]) == (text[: text.index(stop)], "stop", stop)
    pieces = events_of(server.complete(max_tokens=20, ignore_eos=True, stop=stop, stream=True).text)
    assert "".join(each["choices"][0]["text"] for each in pieces[:-1]) == choice["text"]


@pytest.mark.parametrize("k", [0, 1, 5])
def test_logprobs_of_completions(server: Running, k):
    """Four lists of one length, for prompt and output with echo; what they say is what LLM says."""
    answer = server.complete("hello", max_tokens=4, ignore_eos=True, logprobs=k, echo=True).json()["choices"][0]
    found = answer["logprobs"]
    ids = server.llm.tokenizer("hello").input_ids
    assert {len(found[name]) for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")} == {len(ids) + 4}
    assert found["token_logprobs"][0] is None
    assert all(math.isfinite(each) for each in found["token_logprobs"][1:])
    assert all(token in top for token, top in zip(found["tokens"][1:], found["top_logprobs"][1:], strict=True))
    assert all(1 <= len(top) <= k + 1 for top in found["top_logprobs"][1:])  # tokens with the same text are one entry
    assert found["text_offset"][len(ids)] == len("hello")
    assert answer["text"].startswith("hello")
    streamed = events_of(server.complete("hello", max_tokens=4, ignore_eos=True, logprobs=k, echo=True, stream=True).text)[:-1]
    for name in ("tokens", "token_logprobs", "text_offset"):
        assert [x for each in streamed for x in each["choices"][0]["logprobs"][name]] == pytest.approx(found[name], abs=1e-4)
    alone = server.complete("hello", max_tokens=4, ignore_eos=True, logprobs=k).json()["choices"][0]["logprobs"]
    assert alone["token_logprobs"] == pytest.approx(found["token_logprobs"][len(ids) :], abs=1e-4)


def test_scoring_without_generating(server: Running):
    """max_tokens=0 with echo gives the prompt and its scores, and generates nothing."""
    full = server.complete("hello there", max_tokens=1, logprobs=1, echo=True).json()["choices"][0]["logprobs"]
    for stream in (False, True):
        answer = server.complete("hello there", max_tokens=0, logprobs=1, echo=True, stream=stream)
        choices = [answer.json()["choices"][0]] if not stream else [each["choices"][0] for each in events_of(answer.text)[:-1]]
        assert "".join(each["text"] for each in choices) == "hello there"
        assert choices[-1]["finish_reason"] == "length"
        assert choices[0]["logprobs"]["token_logprobs"] == pytest.approx(full["token_logprobs"][:-1])
    assert server.complete("hello there", max_tokens=0, echo=True).json()["usage"]["completion_tokens"] == 0
    assert server.complete("hello there", max_tokens=0).status_code == 400


def test_logprobs_of_chats(server: Running):
    """Each token with its bytes, and so many others beside it as asked for."""
    for top in (None, 0, 3):
        answer = server.chat(max_tokens=3, ignore_eos=True, logprobs=True, top_logprobs=top).json()["choices"][0]
        assert len(answer["logprobs"]["content"]) == 3
        joined = b"".join(bytes(each["bytes"]) for each in answer["logprobs"]["content"])
        assert joined.decode(errors="replace") == answer["message"]["content"]
        for each in answer["logprobs"]["content"]:
            assert bytes(each["bytes"]).decode(errors="replace") == each["token"]
            assert len(each["top_logprobs"]) == (top or 0)
            if top:
                assert each["top_logprobs"][0]["logprob"] >= each["logprob"] - 1e-6
    assert server.chat(top_logprobs=2).status_code == 400


def test_logit_bias_and_extra_parameters(server: Running):
    """What the OpenAI API has, and what vLLM adds, reaches the engine."""
    token = server.llm.tokenizer("x", add_special_tokens=False).input_ids[0]
    text = server.complete(max_tokens=3, logit_bias={str(token): 100}).json()["choices"][0]["text"]
    assert text == "xxx"
    fields = {"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.2, "min_tokens": 3, "seed": 3, "temperature": 0.9, "max_tokens": 6}
    assert [server.complete(**fields).json()["choices"][0]["text"]] == server.offline("hello", SamplingParams(**fields))


def test_models_and_tokens(server: Running):
    """The model by its name, and its tokenizer there and back."""
    assert [each.id for each in server.client.models.list()] == [NAME]
    assert server.client.models.retrieve(NAME).id == NAME
    assert server.http.get("/v1/models/other").status_code == 404
    answer = server.http.post("/tokenize", json={"prompt": "héllo 😀"}).json()
    assert answer["tokens"] == server.llm.tokenizer("héllo 😀").input_ids
    assert answer["count"] == len(answer["tokens"])
    plain = server.http.post("/tokenize", json={"prompt": "héllo 😀", "add_special_tokens": False}).json()["tokens"]
    assert server.http.post("/detokenize", json={"tokens": plain}).json() == {"prompt": "héllo 😀"}
    chat = server.http.post("/tokenize", json={"messages": MESSAGES}).json()["tokens"]
    assert len(chat) == server.client.chat.completions.create(model=NAME, messages=MESSAGES, max_tokens=1).usage.prompt_tokens
    assert server.http.post("/tokenize", json={}).status_code == 400


def test_metrics(server: Running):
    """Counters move by what was done; names are vLLM's but for the prefix."""

    def values() -> dict[str, float]:
        lines = [line for line in server.http.get("/metrics").text.splitlines() if not line.startswith("#")]
        return {line.rpartition(" ")[0].partition("{")[0]: float(line.rpartition(" ")[2]) for line in lines}

    before = values()
    server.complete(["one", "two"], max_tokens=5, ignore_eos=True)
    server.complete("three", max_tokens=5, ignore_eos=True, stream=True)
    after = values()
    grown = {name: after[name] - before.get(name, 0) for name in after}
    assert grown["minfer:generation_tokens_total"] == 15
    assert grown["minfer:prompt_tokens_total"] == sum(len(server.llm.tokenizer(text).input_ids) for text in ("one", "two", "three"))
    for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds", "request_prompt_tokens"):
        assert grown[f"minfer:{name}_count"] == 3
    assert grown["minfer:inter_token_latency_seconds_count"] == 4
    assert after["minfer:num_requests_running"] == after["minfer:num_requests_waiting"] == after["minfer:kv_cache_usage_perc"] == 0
