"""`minfer generate` and `minfer chat`: what they print is what the engine says."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from cli_runner import opening, run, tiny_model, words

from minfer import LLM, SamplingParams
from minfer.cli.chat import chat
from minfer.cli.options import LLMOptions, SamplingOptions
from minfer.errors import MinferError
from minfer.outputs import CompletionOutput


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


def test_generate_json_is_the_outputs_of_the_engine(tiny):
    """The list has one entry a prompt, in order, and holds what LLM.generate gives."""
    prompts = ["hello", "the thing", "a"]
    result = run("generate", *prompts, "--model", tiny, "--max-tokens", 6, "--logprobs", 1, "--n", 2, "--json")
    found = json.loads(result.stdout, parse_constant=pytest.fail)
    with LLM(tiny) as llm:
        expected = llm.generate(prompts, SamplingParams(temperature=0, max_tokens=6, logprobs=1, n=2))
    assert [each["prompt"] for each in found] == prompts
    for mine, theirs in zip(found, expected, strict=True):
        assert mine["prompt_token_ids"] == theirs.prompt_token_ids
        assert [each["text"] for each in mine["outputs"]] == [each.text for each in theirs.outputs]
        assert [each["token_ids"] for each in mine["outputs"]] == [each.token_ids for each in theirs.outputs]
        assert [len(each["logprobs"]) for each in mine["outputs"]] == [len(each["token_ids"]) for each in mine["outputs"]]
    assert "stage cpu" in result.stderr


def test_generate_shows_prompts_and_texts(tiny):
    """Without --json the text is for people, and stderr says which stage was taken and why."""
    result = run(
        "generate", "hello", "--model", tiny, "--max-tokens", 4, "--stage", "paged", "--swap", "policy=minfer.policy.priority:policy"
    )
    with LLM(tiny) as llm:
        text = llm.generate("hello", SamplingParams(temperature=0, max_tokens=4))[0].outputs[0].text
    assert result.stdout == f"prompt: hello\ntext: {text}\n\n"
    assert result.stderr == "stage paged, policy=minfer.policy.priority:policy: it was asked for\n"


@pytest.mark.parametrize("arguments", [["--file", "-"], ["-"], ["--file", "FILE"]])
def test_prompts_come_from_a_file_or_stdin(tiny, tmp_path, arguments):
    """One prompt a line; lines without text are skipped."""
    text = "hello\n\n   \nthe thing\n"
    (tmp_path / "prompts").write_text(text)
    arguments = [str(tmp_path / "prompts") if each == "FILE" else each for each in arguments]
    stdin = text if "-" in arguments else None
    found = json.loads(run("generate", *arguments, "--model", tiny, "--max-tokens", 1, "--json", stdin=stdin).stdout)
    assert [each["prompt"] for each in found] == ["hello", "the thing"]


def test_no_prompt_is_a_usage_error(tmp_path):
    assert "no prompt" in run("generate", code=2).stderr
    assert "cannot be read" in words(run("generate", "--file", tmp_path / "none", code=2).stderr)


def test_a_part_from_a_file_is_swapped_in(tiny, tmp_path):
    """A reader's own part runs with --swap slot=file.py:Name."""
    source = "import torch\n\ndef zero(gate_up: torch.Tensor) -> torch.Tensor:\n    return gate_up.chunk(2, -1)[0] * 0\n"
    (tmp_path / "mine.py").write_text(source)
    plain, swapped = (
        json.loads(run("generate", "hello", "--model", tiny, "--json", "--ignore-eos", "--stage", "chunked", *more).stdout)
        for more in ([], ["--swap", f"activation={tmp_path / 'mine.py'}:zero"])
    )
    assert plain[0]["outputs"][0]["token_ids"] != swapped[0]["outputs"][0]["token_ids"]


class FakeChat:
    """Answers every message with its number of messages, in two pieces, and remembers what it was asked."""

    def __init__(self):
        self.asked: list[list[tuple[str, str]]] = []

    def stream(self, messages, params):
        self.asked.append([(each["role"], each["content"]) for each in messages])
        for text, delta in (("an", "an"), (f"answer {len(messages)}", f"swer {len(messages)}")):
            yield SimpleNamespace(outputs=[CompletionOutput(0, text, [], None, None, delta=delta)])


@pytest.fixture
def fake_chat(monkeypatch):
    fake = FakeChat()
    monkeypatch.setattr(LLMOptions, "open", opening(fake))
    return fake


def test_chat_keeps_its_history_until_reset(fake_chat):
    """Each question goes to the model with all that was said since the last /reset, and with the system message."""
    result = run("chat", "--system", "be brief", stdin="one\n\ntwo\n/reset\nthree\n/quit\nfour\n")
    system = ("system", "be brief")
    assert fake_chat.asked == [
        [system, ("user", "one")],
        [system, ("user", "one"), ("assistant", "answer 2"), ("user", "two")],
        [system, ("user", "three")],
    ]
    assert result.stdout == "answer 2\nanswer 4\nanswer 2\n"


def test_chat_ends_with_its_input_and_names_its_commands(fake_chat):
    """EOF is a normal end; an unknown command is not sent to the model."""
    assert "/reset and /quit" in run("chat", stdin="/help\n").stderr
    assert fake_chat.asked == []


def test_chat_streams_what_the_engine_says(tiny):
    """The same tokens as LLM.chat, in the form in which they came."""
    with LLM(tiny) as llm:
        params = SamplingParams(temperature=0, max_tokens=9)
        expected = llm.chat([{"role": "user", "content": "hello"}], params)[0].outputs[0].text
    assert run("chat", "--model", tiny, "--temperature", 0, "--max-tokens", 9, stdin="hello\n").stdout == f"{expected}\n"


def test_chat_without_a_template_says_so(tmp_path):
    path = tiny_model(tmp_path, chat=False)
    assert "chat template" in run("chat", "--model", path, stdin="hello\n", code=1).stderr


def test_at_a_terminal_a_bad_message_is_left_out_of_the_chat(monkeypatch, fake_chat, capsys):
    """The chat goes on after a message that the engine refuses, and without it."""
    lines = iter(["fine", "too long", "fine again", "/quit"])
    stream = fake_chat.stream

    def refuse(messages, params):
        if messages[-1]["content"] == "too long":
            raise MinferError("the prompt has 999 tokens")
        return stream(messages, params)

    fake_chat.stream = refuse
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    chat(system=None, **vars(LLMOptions()), **vars(SamplingOptions()))
    assert [content for _, content in fake_chat.asked[-1]] == ["fine", "answer 1", "fine again"]
    assert "999 tokens" in capsys.readouterr().err
