"""How an output ends: end-of-sequence tokens, stop tokens, stop strings, lengths; and what a reader of the stream sees of it."""

import functools
import json
import shutil
from itertools import pairwise

import pytest
from engine_fixtures import PROMPT, SCRIPTED, checkpoint, finish, greedy, make_engine, oracle, run, script, tokenizer
from hypothesis import example, given, settings
from hypothesis import strategies as st

from minfer.params import SamplingParams
from minfer.testing.oracle import processors_of
from minfer.testing.tokenizers import EOS

EOS_ID = tokenizer().eos_token_id
NO_TOKEN = 310  # in the model's vocabulary, beyond the tokenizer's

texts = st.text(st.sampled_from("ab é你😀"), max_size=10)


@functools.cache
def engine():
    """One engine for all scripts."""
    return make_engine("cpu", swap=SCRIPTED)


def follow(params: SamplingParams) -> tuple[list, object]:
    """Run one scripted request step by step → all its outputs' first completions, and the last of them."""
    engine().add_request("0", PROMPT, params)
    seen = [output.outputs[0] for _ in range(200) for output in engine().step()]
    finish(engine())
    for before, after in pairwise(seen):
        assert before.finish_reason is None
        assert after.text.startswith(before.text), "text that was shown was taken back"
        assert after.text == before.text + after.delta
    assert "".join(completion.delta for completion in seen) == seen[-1].text
    return seen, seen[-1]


def first_stop(text: str, stops: list[str]) -> tuple[int, str] | None:
    """The stop string that begins first, and of two the shorter."""
    found = [(text.find(stop), len(stop), stop) for stop in stops if stop in text]
    return (min(found)[0], min(found)[2]) if found else None


@settings(max_examples=150)
@given(
    text=texts,
    stops=st.lists(st.text(st.sampled_from("ab é你😀"), min_size=1, max_size=3), max_size=3),
    include=st.booleans(),
    max_tokens=st.integers(1, 30),
)
@example("ab", ["bé"], False, 2)  # a stop string that begins at the very end of the text
@example("aab", ["ab", "aab"], True, 30)
def test_stop_strings_cut_the_text_exactly(text, stops, include, max_tokens):
    """The text ends before the stop that begins first (after it, if asked), however tokens split it, and never shows more."""
    params = script(text, stop=stops, include_stop_str_in_output=include, max_tokens=max_tokens)
    _, last = follow(params)
    ids = tokenizer().encode(text, add_special_tokens=False)[:max_tokens]
    full = tokenizer().decode(ids, skip_special_tokens=True)
    stop = first_stop(full, stops)
    if stop is None:
        ended = len(ids) < max_tokens
        assert (last.text, last.finish_reason, last.stop_reason) == (full, "stop" if ended else "length", None)
        assert last.token_ids == [*ids, EOS_ID][:max_tokens]
    else:
        at, string = stop
        assert (last.finish_reason, last.stop_reason) == ("stop", string)
        assert last.text == full[:at] + (string if include else "")
    whole = run(engine(), [PROMPT], params)[0].outputs[0]
    assert (whole.text, whole.token_ids, whole.stop_reason) == (last.text, last.token_ids, last.stop_reason), "not streamed"


@pytest.mark.parametrize("text", ["naïve 你好, 👩‍👧 ไทย", "é" * 5, "😀😀", "\ud7ff\ue000", "a  the thing"])
def test_characters_over_several_tokens_come_whole(text):
    """Deltas join to the text, and no step shows half a character."""
    seen, last = follow(script(text))
    assert last.text == text
    assert not any("\ufffd" in completion.text for completion in seen)


def test_bytes_that_are_no_character():
    """What is no UTF-8 becomes U+FFFD as the tokenizer writes it, at the end too."""
    euro = tokenizer().encode("€", add_special_tokens=False)
    for ids in ([*euro[:2], *euro], euro[:2]):
        _, last = follow(script(ids))
        assert last.text == tokenizer().decode(ids)


def test_ids_without_a_token_have_no_text():
    """The model's vocabulary is larger than the tokenizer's: such ids decode to nothing, among the log-probabilities too."""
    ids = tokenizer().encode("ab", add_special_tokens=False)
    _, last = follow(script([ids[0], NO_TOKEN, ids[1]], logprobs=20))
    assert last.text == "ab"
    assert last.logprobs[1][NO_TOKEN].decoded_token == ""
    assert all(isinstance(entry.decoded_token, str) for entries in last.logprobs for entry in entries.values())


def test_special_tokens_in_the_text():
    """Left out, or shown if asked; the token that ended the output is shown only if the stop is."""
    ids = [*tokenizer().encode("a", add_special_tokens=False), EOS_ID]
    for skip, include, expected in [(True, False, "a"), (True, True, "a"), (False, False, "a"), (False, True, f"a{EOS}")]:
        _, last = follow(script(ids, skip_special_tokens=skip, include_stop_str_in_output=include))
        assert (last.text, last.token_ids) == (expected, ids)


@settings(max_examples=60)
@given(length=st.integers(0, 6), min_tokens=st.integers(0, 8), max_tokens=st.integers(8, 10), stop=st.booleans())
def test_nothing_ends_before_min_tokens(length, min_tokens, max_tokens, stop):
    """Neither an end token nor a stop string ends an output of fewer than min_tokens; max_tokens always does."""
    params = script("ab" * 10 if stop else "x" * length, min_tokens=min_tokens, max_tokens=max_tokens, stop=["b"] if stop else [])
    _, last = follow(params)
    if stop:
        assert last.text == ("ab" * 10)[: min(min_tokens | 1, max_tokens)], "up to the first b after the first min_tokens tokens"
    assert min_tokens <= len(last.token_ids) <= max_tokens


@pytest.mark.parametrize(("min_tokens", "ends_with"), [(0, 4), (2, 4), (3, 4), (4, 8), (7, 8), (8, 12), (11, 12), (12, None)])
def test_a_stop_string_may_begin_within_min_tokens(min_tokens, ends_with):
    """It ends the output if its last token comes after them, and none of it is shown; complete within them, it is text."""
    text = "abcdabcdabcdab"
    ids = tokenizer().convert_tokens_to_ids(list(text))
    _, last = follow(script(ids, min_tokens=min_tokens, stop=["bcd"], max_tokens=len(text)))
    expected = (text, None, len(text)) if ends_with is None else (text[: ends_with - 3], "bcd", ends_with)
    assert (last.text, last.stop_reason, len(last.token_ids)) == expected


def test_end_and_stop_tokens_are_banned_before_min_tokens():
    """The model cannot choose them: the output is transformers' with them at minus infinity, and may end right after."""
    tokens = oracle().greedy([7, 8, 9], 12)
    params = SamplingParams(temperature=0, max_tokens=12, stop_token_ids=tokens[:1], min_tokens=4)
    completion = run(make_engine(), [[7, 8, 9]], params)[0].outputs[0]
    banned = {*tokens[:1], *make_engine()._eos_ids}
    assert oracle().count_ties([7, 8, 9], completion.token_ids, processors_of(params, 3, banned)) == 0
    assert not banned & set(completion.token_ids[:4])


def with_eos(path, config, generation):
    """A copy of the tiny checkpoint with other end tokens in its two files; None leaves one out."""
    shutil.copytree(checkpoint(), path)
    settings = json.loads((path / "config.json").read_text())
    settings["eos_token_id"] = config
    (path / "config.json").write_text(json.dumps(settings))
    (path / "generation_config.json").unlink()
    if generation is not None:
        (path / "generation_config.json").write_text(json.dumps({"eos_token_id": generation}))
    return path


def test_end_tokens_are_the_union_of_all_files(tmp_path):
    """config.json, generation_config.json and the tokenizer each may name some, as one id or a list: the first to come ends it."""
    prompt = [7, 8, 9]
    tokens = list(dict.fromkeys(oracle().greedy(prompt, 12)))
    a, b = tokens[2], tokens[5]
    at = oracle().greedy(prompt, 12).index
    for number, (config, generation, end) in enumerate(
        [(2, [b, a], a), (a, None, a), ([b], a, a), ([2, b], None, b), (None, [b], b), (None, b, b)]
    ):
        engine = make_engine(path=with_eos(tmp_path / str(number), config, generation))
        completion = run(engine, [prompt], SamplingParams(temperature=0, max_tokens=12))[0].outputs[0]
        assert (completion.finish_reason, completion.stop_reason) == ("stop", None)
        assert completion.token_ids == oracle().greedy(prompt, 12)[: at(end) + 1]
        assert run(engine, [prompt], greedy(12))[0].outputs[0].finish_reason == "length", "ignore_eos goes on"
    _, last = follow(script("ab"))
    assert last.token_ids[-1] == tokenizer().eos_token_id, "the tokenizer's own ends it too"


def test_stop_tokens_say_which():
    """A stop token ends the output, is its last token, and is the stop_reason; on the last token allowed it still counts as a stop."""
    ids = tokenizer().encode("abca", add_special_tokens=False)
    for max_tokens in (2, 9):
        _, last = follow(script(ids, stop_token_ids=[ids[2], ids[1]], max_tokens=max_tokens))
        assert (last.token_ids, last.text) == (ids[:2], "a")
        assert (last.finish_reason, last.stop_reason) == ("stop", ids[1])


@pytest.mark.parametrize("steps", range(1, 6))
def test_an_aborted_text_keeps_what_was_held_back(steps):
    """Text that might have been the beginning of a stop string is no longer held once nothing more comes."""
    ids = tokenizer().encode("abcabd", add_special_tokens=False)
    engine().add_request("0", PROMPT, script(ids, stop=["abcabe", "d!"]))
    deltas = [engine().step()[0].outputs[0].delta for _ in range(steps)]
    last = engine().abort("0").outputs[0]
    assert (last.finish_reason, last.text) == ("abort", "abcabd"[:steps])
    assert "".join(deltas) + last.delta == last.text
    finish(engine())
