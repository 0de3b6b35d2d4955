"""Stop strings: the earliest one cuts the text, however the text arrives, and nothing is shown that is cut later."""

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from minfer.testing.tokenizers import byte_level_tokenizer
from minfer.text.detokenize import Detokenizer
from minfer.text.stop import StopStrings

alphabet = st.sampled_from("aab")
texts = st.text(alphabet, max_size=30)
stop_tuples = st.lists(st.text(alphabet, min_size=1, max_size=6), max_size=4).map(tuple)


def oracle(text, stops, include, early=0):
    """On the whole text: the stop that begins first, of those the shortest; the text up to it; and it. None ends in the early text."""
    begins = [(text.find(stop, max(0, early - len(stop) + 1)), len(stop), stop) for stop in stops]
    begins = [found for found in begins if found[0] >= 0]
    if not begins:
        return text, None
    start, length, stop = min(begins)
    return text[: start + length * include], stop


def split(text, data):
    """The text in pieces of any size, empty ones included."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=len(text))))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@settings(deadline=None, max_examples=500)
@given(texts, stop_tuples, st.booleans(), st.data())
def test_equal_to_the_oracle_however_split(text, stops, include, data):
    """Joined pieces and the stop found equal the oracle's on the whole text; after a match nothing comes."""
    watcher = StopStrings(stops, include)
    shown = ""
    for delta in split(text, data):
        was_matched = watcher.matched
        piece = watcher.feed(delta)
        assert not (was_matched and piece)
        shown += piece
    shown += watcher.flush()
    assert (shown, watcher.matched) == oracle(text, stops, include)
    if watcher.matched:
        assert watcher.feed("ab") + watcher.flush() == ""


@settings(deadline=None, max_examples=300)
@given(texts, texts, stop_tuples, st.booleans(), st.data())
def test_a_stop_may_begin_where_none_may_end(early, late, stops, include, data):
    """Text that may not end passes through, but for the beginning of a stop that is complete after it."""
    watcher = StopStrings(stops, include)
    shown = "".join(watcher.feed(piece, may_end=False) for piece in split(early, data))
    assert early.startswith(shown)
    assert watcher.matched is None
    shown += "".join(map(watcher.feed, split(late, data))) + watcher.flush()
    assert (shown, watcher.matched) == oracle(early + late, stops, include, len(early))


@settings(deadline=None, max_examples=300)
@given(texts, stop_tuples, st.booleans(), texts)
def test_nothing_shown_is_cut_later(text, stops, include, future):
    """At any moment, what has been shown begins the final text, whatever follows."""
    watcher = StopStrings(stops, include)
    shown = "".join(watcher.feed(char) for char in text)
    assert oracle(text + future, stops, include)[0].startswith(shown)


@settings(deadline=None, max_examples=300)
@given(texts, stop_tuples)
def test_no_more_is_held_than_a_stop_could_need(text, stops):
    """While nothing has matched, what is held back is the longest end of the text that begins some stop, not more."""
    watcher = StopStrings(stops)
    shown = "".join(watcher.feed(char) for char in text)
    if not any(stop in text for stop in stops):
        beginnings = {stop[:length] for stop in stops for length in range(1, len(stop))}
        held = max((len(end) for start in range(len(text)) if (end := text[start:]) in beginnings), default=0)
        assert shown == text[: len(text) - held]


@settings(deadline=None, max_examples=200)
@given(texts, st.text(alphabet, min_size=1, max_size=6), st.booleans())
@example("aab", "b", False)
def test_one_stop_is_found_with_its_last_character(text, stop, include):
    """A single stop is matched as soon as it is complete, so that no token is generated in vain."""
    watcher = StopStrings((stop,), include)
    for count, char in enumerate(text, start=1):
        watcher.feed(char)
        assert (watcher.matched is not None) == (stop in text[:count])


def test_overlapping_stops():
    """A stop that began earlier and is still open decides first; without it, the one already complete cuts."""
    watcher = StopStrings(("<end>", "nd"))
    assert [watcher.feed(char) for char in "x<end"] == ["x", "", "", "", ""]
    assert watcher.matched is None
    assert watcher.feed(">") == ""
    assert watcher.matched == "<end>"

    watcher = StopStrings(("<end>", "nd"))
    assert watcher.feed("x<endless") == "x<e"
    assert watcher.matched == "nd"

    watcher = StopStrings(("<end>", "nd"))
    assert watcher.feed("x<end") + watcher.flush() == "x<e"
    assert watcher.matched == "nd"


def test_of_stops_that_begin_together_the_shorter_wins():
    """The text is the same either way, and the shorter one needs no more text."""
    watcher = StopStrings(("\n\n", "\n"), include=True)
    assert watcher.feed("a\n") == "a\n"
    assert watcher.matched == "\n"


def test_flush_releases_a_beginning_that_never_became_a_stop():
    """Text held back as a possible stop is not lost when the sequence ends for another reason."""
    watcher = StopStrings(("STOP",))
    assert [watcher.feed("one ST"), watcher.flush(), watcher.flush()] == ["one ", "ST", ""]
    assert watcher.matched is None


def test_without_stops_text_passes_through():
    """No stops: nothing is held back."""
    watcher = StopStrings(())
    assert [watcher.feed("a"), watcher.feed(""), watcher.flush(), watcher.matched] == ["a", "", "", None]


@pytest.mark.parametrize("include", [False, True])
def test_stops_across_and_inside_tokens(include):
    """Through a tokenizer: each piece of the text is a stop that starts and ends anywhere among the tokens."""
    tokenizer = byte_level_tokenizer()
    text = "hello the 你好 thing 😀 hell"
    ids = tokenizer(text, add_special_tokens=False).input_ids
    for start in range(len(text)):
        for end in range(start + 1, min(start + 7, len(text) + 1)):
            detokenizer, watcher = Detokenizer(tokenizer), StopStrings((text[start:end],), include)
            shown = "".join([watcher.feed(detokenizer.add([token])) for token in ids])
            shown += watcher.feed(detokenizer.finish()) + watcher.flush()
            assert (shown, watcher.matched) == oracle(text, (text[start:end],), include)


def test_time_is_linear_in_the_text_and_not_in_the_stop():
    """A stop of 2000 characters that nearly matches everywhere costs about what a stop of 20 does.

    Within a factor of 8, the best of three; a naive search would be 100 times slower.
    """

    def seconds(length):
        best = float("inf")
        for _ in range(3):
            watcher = StopStrings(("a" * length + "b",))
            start = time.perf_counter()
            for _ in range(5000):
                watcher.feed("aaaa")
            best = min(best, time.perf_counter() - start)
        return best

    assert seconds(2000) < 8 * seconds(20)
