"""Requests become prompts and SamplingParams, outputs become responses: no server is needed, an LLM in the same process is enough."""

from __future__ import annotations

import json

import pytest
from engine_fixtures import checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from serve_fixtures import SAMPLING

from minfer import LLM, SamplingParams
from minfer.outputs import Logprob
from minfer.serve.convert import SAME, detokenize, params_of, prompts_of, tokenize
from minfer.serve.errors import LONGEST, ApiError, from_validation
from minfer.serve.logprobs import LEAST, Places, chat_logprobs, completion_logprobs, entries_of, prompt_logprobs
from minfer.serve.protocol import NOT_OFFERED, ChatCompletionRequest, CompletionRequest, DetokenizeRequest, TokenizeRequest
from minfer.serve.replies import json_response
from minfer.serve.responses import response_of
from minfer.testing.tokenizers import byte_fallback_tokenizer, byte_level_tokenizer

TOKENIZERS = [byte_level_tokenizer(), byte_fallback_tokenizer()]
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def llm():
    with LLM(str(checkpoint()), max_model_len=128, max_num_seqs=8, block_size=4, device="cpu") as llm:
        yield llm


VALUES = st.fixed_dictionaries({}, optional={**SAMPLING, "min_tokens": st.integers(0, 3)})


@settings(max_examples=60)
@given(VALUES, st.integers(3, 99), st.integers(0, 20))
def test_every_field_reaches_the_engine(values, max_tokens, logprobs):
    """Under its own name, in both kinds of request; what is left out or null is SamplingParams' default."""
    expected = SamplingParams(**values, max_tokens=max_tokens, logprobs=logprobs)
    completion = CompletionRequest(prompt="x", **values, max_tokens=max_tokens, logprobs=logprobs)
    assert params_of(completion) == expected
    chat = ChatCompletionRequest(messages=HELLO, **values, max_completion_tokens=max_tokens, logprobs=True, top_logprobs=logprobs)
    assert params_of(chat) == expected
    nothing = dict.fromkeys(set(SAME) - set(values))
    assert params_of(CompletionRequest(prompt="x", **values, **nothing, max_tokens=max_tokens, logprobs=logprobs)) == expected


def test_defaults_are_the_apis():
    assert params_of(CompletionRequest(prompt="x")) == SamplingParams()
    assert params_of(ChatCompletionRequest(messages=HELLO)) == SamplingParams(max_tokens=None)
    assert params_of(ChatCompletionRequest(messages=HELLO, max_tokens=3)).max_tokens == 3
    assert params_of(ChatCompletionRequest(messages=HELLO, max_tokens=3, max_completion_tokens=5)).max_tokens == 5
    assert params_of(CompletionRequest(prompt="x", echo=True, logprobs=2)).prompt_logprobs == 2
    assert params_of(CompletionRequest(prompt="x", logprobs=2)).prompt_logprobs is None
    assert params_of(ChatCompletionRequest(messages=HELLO, logprobs=True)).logprobs == 0


@pytest.mark.parametrize("name", sorted(NOT_OFFERED))
def test_what_is_not_offered(name):
    """Refused, except with the values that ask for nothing."""
    for value in NOT_OFFERED[name]:
        ChatCompletionRequest(messages=HELLO, **{name: value})
    with pytest.raises(ValidationError, match=f"{name} is not offered"):
        ChatCompletionRequest(messages=HELLO, **{name: "something"})
    CompletionRequest(prompt="x", metadata={"a": 1}, store=True, whatever=[])


def test_types_are_strict():
    for field, value in (("n", "1"), ("n", 1.5), ("n", True), ("temperature", "0"), ("stream", 1), ("stop", 3), ("echo", "yes")):
        with pytest.raises(ValidationError):
            CompletionRequest(prompt="x", **{field: value})


@given(st.sampled_from(["n", "seed", "max_tokens", "min_tokens", "top_k", "logprobs"]), st.integers(-9, 2**53))
def test_a_whole_number_may_be_written_with_a_point(field, value):
    """As JSON Schema has it, which the OpenAPI document is written in; its type afterwards is int."""
    request = CompletionRequest.model_validate_json(json.dumps({"prompt": "x", field: float(value)}))
    assert type(getattr(request, field)) is int
    assert getattr(request, field) == value


def test_a_response_without_a_server(llm):
    """As `minfer batch` makes it."""
    body = json.dumps({"prompt": ["hello", "the thing"], "n": 2, "seed": 1, "max_tokens": 3, "ignore_eos": True, "echo": True})
    request = CompletionRequest.model_validate_json(body)
    prompts = prompts_of(request, llm.tokenizer)
    outputs = llm.generate([prompt.ids for prompt in prompts], params_of(request), progress=False)
    answer = response_of(request, outputs, llm.tokenizer, "m").model_dump(mode="json")
    assert [each["index"] for each in answer["choices"]] == [0, 1, 2, 3]
    assert [each["text"] for each in answer["choices"]] == [
        prompt.text + made.text for prompt, output in zip(prompts, outputs, strict=True) for made in output.outputs
    ]
    assert answer["usage"]["completion_tokens"] == 12
    assert answer["usage"]["prompt_tokens"] == sum(len(prompt.ids) for prompt in prompts)
    chat = ChatCompletionRequest(messages=HELLO, max_tokens=2)
    outputs = llm.chat(HELLO, params_of(chat), progress=False)
    assert prompts_of(chat, llm.tokenizer)[0].ids == outputs[0].prompt_token_ids
    assert response_of(chat, outputs, llm.tokenizer, "m").choices[0].message.content == outputs[0].outputs[0].text


@settings(max_examples=50)
@given(st.text(st.characters(codec="utf-8", exclude_characters="<"), max_size=20))
def test_tokens_there_and_back(llm, text):
    ids = tokenize(TokenizeRequest(prompt=text, add_special_tokens=False), llm.tokenizer)
    assert detokenize(DetokenizeRequest(tokens=ids), llm.tokenizer) == text


@settings(max_examples=80)
@given(st.sampled_from(TOKENIZERS), st.text(st.sampled_from("ab the  \n你好😀e\u0301ä"), max_size=20))
def test_offsets_are_places_in_the_text(tokenizer, text):
    """Of an echoed prompt: each token stands where it says, but for parts of characters and byte tokens; a BOS at the beginning."""
    ids = tokenizer(text).input_ids
    found = prompt_logprobs(ids, text, [None] * len(ids), tokenizer)
    assert found.text_offset == sorted(found.text_offset)
    for token, piece, place in list(zip(ids, found.tokens, found.text_offset, strict=True))[1:]:
        if "\ufffd" not in piece and not tokenizer.convert_ids_to_tokens(token).startswith("<0x"):
            assert text[place:].startswith(piece), (token, piece, place)
    assert all(0 <= place <= len(text) for place in found.text_offset)
    assert found.text_offset[0] == 0


def test_without_a_tokenizer():
    """Token ids are served; for text the error says what to do."""
    assert prompts_of(CompletionRequest(prompt=[1, 2]), None)[0].ids == [1, 2]
    for ask in (
        lambda: prompts_of(CompletionRequest(prompt="x"), None),
        lambda: prompts_of(ChatCompletionRequest(messages=HELLO), None),
        lambda: tokenize(TokenizeRequest(prompt="x"), None),
        lambda: detokenize(DetokenizeRequest(tokens=[1]), None),
    ):
        with pytest.raises(ApiError, match="no tokenizer") as error:
            ask()
        assert error.value.status == 400


def test_log_probabilities_are_json():
    """Minus infinity has no place in JSON; of tokens that look alike, the chosen one counts."""
    entry = {3: Logprob(float("-inf"), None, "x"), 4: Logprob(-0.5, 1, "x"), 5: Logprob(-1.0, 2, None)}
    made = completion_logprobs(entries_of([entry]), Places(None))
    assert made.token_logprobs == [LEAST]
    assert made.top_logprobs == [{"x": LEAST, "token_id:5": -1.0}]
    content = chat_logprobs(entries_of([entry]), 2, None).content[0]
    assert (content.logprob, [each.logprob for each in content.top_logprobs]) == (LEAST, [-0.5, -1.0])
    json.dumps([made.model_dump(), content.model_dump()], allow_nan=False)


def test_errors_say_which_field():
    """The place inside the field, one message however many types it may have; broken JSON has none; nothing is quoted at length."""
    user = {"role": "user", "content": "hi"}
    for kind, content, words in (
        (CompletionRequest, {"prompt": ["a", 5]}, r"^prompt\[1\]: .*string$"),
        (CompletionRequest, {"prompt": [[5], ["a"]]}, r"^prompt\[1\]\[0\]: .*integer$"),
        (ChatCompletionRequest, {"messages": [user, {"role": "user"}]}, r"^messages\[1\]\.content: Field required$"),
        (ChatCompletionRequest, {"messages": [user, 5]}, r"^messages\[1\]: it must be a JSON object$"),
        (ChatCompletionRequest, {"messages": [{**user, "content": [{"type": "image_url"}]}]}, r"^messages.*'image_url' is not offered"),
    ):
        with pytest.raises(ValidationError) as error:
            kind.model_validate(content)
        with pytest.raises(ApiError, match=words):
            raise from_validation(error.value.errors())
    with pytest.raises(ValidationError) as error:
        CompletionRequest.model_validate({"prompt": 3})
    made = from_validation(error.value.errors())
    assert (made.status, made.param) == (400, "prompt")
    assert " or " in str(made)
    broken = from_validation([{"loc": ("body", 12), "msg": "JSON decode error", "type": "json_invalid"}])
    assert (broken.param, str(broken)) == (None, "the body: it is no JSON, from character 12 on")
    assert json.loads(json_response({"said": "\ud83d"}).body) == {"said": "\ud83d"}  # which UTF-8 cannot say
    assert len(ApiError(400, "x" * 10**6).body["error"]["message"]) < LONGEST + 10
