"""Stop strings: where the text ends, also when a stop string is spread over several tokens.

From: the sure text of `text/detokenize.py`. To: the caller, who never sees text that a stop string cuts off.
"""

from __future__ import annotations


class StopStrings:
    """Watches one sequence's text for several stop strings.

    The stop that *begins* earliest wins; of two that begin together, the shorter. So a stop that has been found is final only
    once no stop that began before it can still be completed: until then more text is awaited, and `flush` settles it.

    How the text is split into deltas changes nothing, and the time is linear in the text: each stop is followed by the
    Knuth-Morris-Pratt automaton.
    """

    def __init__(self, stops: tuple[str, ...], include: bool = False):
        """stops: non-empty strings. include: whether the stop itself stays at the text's end."""
        self._stops = [_Automaton(stop) for stop in stops]
        self._include = include
        self._held = ""  # text taken but not given out: it may yet be cut
        self._given = 0  # characters given out; where the held text begins
        self._position = 0  # characters read
        self._found: tuple[int, str] | None = None  # the best stop so far: where it begins, and it
        self._matched: str | None = None

    @property
    def matched(self) -> str | None:
        """The stop string that ended the text; None while it goes on."""
        return self._matched

    def feed(self, delta: str, may_end: bool = True) -> str:
        """Take more text; return what is safe to give out. After a match: always "".

        may_end: whether a stop that is complete within this text counts; one that only begins in it always does.
        """
        if self._matched is not None:
            return ""
        if not self._stops:
            return delta
        self._held += delta
        for char in delta:
            self._read(char, may_end)
            if self._found and self._earliest_open() >= self._found[0]:
                return self._cut()
        safe = self._earliest_open() if self._found is None else min(self._found[0], self._earliest_open())
        return self._release(safe)

    def flush(self) -> str:
        """No more text follows: return what was held back, or cut it at a stop that was found but not final; see `matched`."""
        if self._matched is not None:
            return ""
        return self._release(self._position) if self._found is None else self._cut()

    def _read(self, char: str, may_end: bool) -> None:
        self._position += 1
        for stop in self._stops:
            if stop.read(char) and may_end:
                start = self._position - len(stop.text)
                if self._found is None or start < self._found[0]:
                    self._found = start, stop.text

    def _earliest_open(self) -> int:
        """Where the earliest stop that is not yet complete, but may become so, begins; the text's end if none."""
        return self._position - max(stop.length for stop in self._stops)

    def _cut(self) -> str:
        start, self._matched = self._found
        end = start + len(self._matched) if self._include else start
        return self._release(end)

    def _release(self, end: int) -> str:
        """Give out the held text up to this position of the whole text."""
        count = end - self._given
        text, self._held = self._held[:count], self._held[count:]
        self._given = end
        return text


class _Automaton:
    """Reads a text and knows how long a prefix of `text` it ends with (Knuth, Morris and Pratt, 1977)."""

    def __init__(self, text: str):
        self.text = text
        self.length = 0  # of the longest proper prefix of `text` that the characters read end with
        self._border = [0]  # per prefix of `text`: the longest shorter prefix that it ends with
        for char in text[1:]:
            self._border.append(self._advance(self._border[-1], char))

    def read(self, char: str) -> bool:
        """Whether `text` is complete with this character."""
        length = self._advance(self.length, char)
        complete = length == len(self.text)
        self.length = self._border[-1] if complete else length
        return complete

    def _advance(self, length: int, char: str) -> int:
        while length and self.text[length] != char:
            length = self._border[length - 1]
        return length + (self.text[length] == char)
