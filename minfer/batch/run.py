"""From an input to its output: what is there already is left, the rest is run.

From: `minfer batch`. To: the output, and a Summary.
"""

from __future__ import annotations

import importlib.util
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from minfer.batch.items import Item, read_items
from minfer.batch.jobs import Done, Jobs, run_items
from minfer.batch.lines import read_lines
from minfer.batch.output import Output
from minfer.batch.progress import BatchProgress
from minfer.errors import MinferError

if TYPE_CHECKING:
    from minfer.llm import LLM

WINDOW = 4  # lines on their way for each sequence that may run at once

Answers = Callable[[Iterable[Item]], Iterator[Done]]  # how the items are run; in their order


@dataclass
class Summary:
    """What a run did."""

    before: int = 0  # records that were there
    kinds: Counter = field(default_factory=Counter)  # of the new ones: answered, refused, unreadable
    output_tokens: int = 0
    seconds: float = 0.0

    def line(self) -> str:
        """For people."""
        counts = ", ".join(f"{self.kinds[kind]} {kind}" for kind in ("answered", "refused", "unreadable") if self.kinds[kind])
        before = f"; {self.before} were there already" if self.before else ""
        speed = self.output_tokens / self.seconds if self.seconds else 0
        return f"{counts or 'nothing left to run'}{before}; {self.output_tokens} output tokens in {self.seconds:.1f} s ({speed:.0f}/s)"


def run_batch(source: Path, target: Path, answers: Answers, model: str, announce: Callable[[str], None] = lambda text: None) -> Summary:
    """Run what has no record yet, and add the records.

    Args:
        answers: how the items are run, such as `on_engine(...)`; it is not called where nothing is left.
        model: the name that responses give.
        announce: called with a line of progress now and then, where there is no terminal for a bar.

    Raises:
        MinferError: a file cannot be read or written, or `target` is something else's output.
    """
    if not source.is_file():
        raise MinferError(f"{source} is no file; name one with a request a line")
    if target.exists() and os.path.samefile(source, target):
        raise MinferError(f"{source} is input and output at once; name another output")
    with Output(target) as output:
        summary = Summary()
        summary.before, rest = output.resume(read_items(read_lines(source)), model)
        first = next(rest, None)
        if first is None:
            return summary
        with BatchProgress(source.stat().st_size, first.end, announce) as progress:
            for done in answers(chain([first], rest)):
                output.write(done.record)
                summary.kinds[done.kind] += 1
                summary.output_tokens += done.output_tokens
                progress.finished(done)
        output.sync()
        summary.seconds = progress.seconds
    return summary


def on_engine(open_engine: Callable[[], LLM], model: str, window: int | None = None) -> Answers:
    """One engine, built when the first item comes.

    Args:
        window: lines on their way at once; None: WINDOW for each sequence that may run at once.
    """

    def answers(items: Iterable[Item]) -> Iterator[Done]:
        with open_engine() as llm:
            yield from run_items(Jobs(llm, model), items, window or WINDOW * llm.config.max_num_seqs)

    return answers


def name_of(model: str) -> str:
    """What responses call a model: a folder's or a file's own name, else as it was asked for."""
    path = Path(model).expanduser()
    return path.resolve().name if path.exists() else model


def check_installed(package: str, extra: str) -> None:
    """Raises: MinferError where it is not installed."""
    if importlib.util.find_spec(package) is None:
        raise MinferError(f'this needs the {package} package, which is not installed: pip install "minfer[{extra}]"')
