"""Items on many engines, through Ray Data: each actor holds an engine, on GPUs of its own.

From: `run.py`. To: records, in the order of the input.

What crosses the cluster are spans of the input (where each begins, and how many lines it has) and the records. An actor reads its span
from the file by itself, so the input must lie under the same path on every machine that runs an engine, as must the model. It runs the
span as one stream and hands the records over piece by piece; only at a span's end, once for some thousand lines, does it run empty.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from minfer.batch.items import Item, repeated, understand
from minfer.batch.jobs import Done, Jobs, run_items
from minfer.batch.lines import read_lines
from minfer.batch.run import WINDOW, Answers
from minfer.errors import MinferError
from minfer.executor.ray import join

if TYPE_CHECKING:
    from minfer.llm import LLM

SPAN = 16  # lines of a span, for each sequence that an engine runs at once, where nobody asks for another size
PIECE = 64  # records handed over at once


class Span(NamedTuple):
    """A part of the input. What only the whole input tells comes along: which lines repeat a custom_id, and whose."""

    start: int  # offset of its first line, in bytes
    number: int  # of that line
    count: int  # lines, blank ones not counted
    repeats: list[int]  # pairs, one after the other: a line and the earlier one with its custom_id


def spans_of(items: Iterable[Item], size: int) -> Iterator[Span]:
    """The items in spans of `size`."""
    items = iter(items)
    while part := list(islice(items, size)):
        repeats = [number for item in part if item.repeats is not None for number in (item.number, item.repeats)]
        yield Span(part[0].start, part[0].number, len(part), repeats)


def items_of(path: Path, span: Span) -> Iterator[Item]:
    """The items of a span, read again from the file."""
    first = dict(zip(span.repeats[::2], span.repeats[1::2], strict=True))
    for line in islice(read_lines(path, span.start, span.number - 1), span.count):
        item = understand(line)
        yield repeated(item, first[line.number]) if line.number in first else item


class EngineActor:
    """One engine of the cluster; Ray Data calls it with a block of spans."""

    def __init__(self, open_engine: Callable[[], LLM], model: str, path: str, window: int | None):
        if not Path(path).is_file():
            raise MinferError(f"{path} is not there on a machine that runs an engine; put the input where all see it under one path")
        self.llm, self.path = open_engine(), Path(path)
        self.jobs = Jobs(self.llm, model)
        self.window = window or WINDOW * self.llm.config.max_num_seqs

    def __call__(self, block: dict[str, Any]) -> Iterator[dict[str, list]]:
        columns = [column.tolist() for column in block.values()]
        items = (item for span in zip(*columns, strict=True) for item in items_of(self.path, Span(*span)))
        pieces = run_items(self.jobs, items, self.window)
        while piece := list(islice(pieces, PIECE)):
            yield dict(zip(Done._fields, map(list, zip(*piece, strict=True)), strict=True))


def on_ray(
    open_engine: Callable[[], LLM],
    model: str,
    source: Path,
    *,
    address: str | None = None,
    engines: int | None = None,
    gpus: int = 1,
    max_num_seqs: int = 256,
    window: int | None = None,
    span: int | None = None,
) -> Answers:
    """Engines in a Ray cluster.

    Args:
        open_engine: builds one; it is sent to the actors.
        address: of the cluster, "HOST:PORT" or "auto"; None: one that is made here, and ends with this process.
        engines: how many; None: as many as the cluster's GPUs allow, or one without GPUs.
        gpus: of one engine; not asked for in a cluster without GPUs.
        max_num_seqs: of one engine; window: lines on their way in each; span: lines that an engine takes at once.
    """

    def answers(items: Iterable[Item]) -> Iterator[Done]:
        ray = join(address)
        import ray.data  # noqa: F811

        there = int(ray.cluster_resources().get("GPU", 0))
        if there and gpus * (engines or 1) > there:
            raise MinferError(f"{engines or 1} engines of {gpus} GPUs each are more than the cluster's {there} GPUs; ask for fewer")
        count = engines or max(1, there // gpus)
        needs = {"num_gpus": gpus} if there else {"num_cpus": 1}
        context = ray.data.DataContext.get_current()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False  # run.py has one of its own
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # it shows stacks of forty frames
        spans = [each._asdict() for each in spans_of(items, span or SPAN * max_num_seqs)]
        made = ray.data.from_items(spans, override_num_blocks=len(spans)).map_batches(
            EngineActor,
            fn_constructor_args=(open_engine, model, str(source.resolve()), window),
            batch_size=None,
            compute=ray.data.ActorPoolStrategy(size=min(count, len(spans)), max_tasks_in_flight_per_actor=2),
            **needs,
        )
        try:
            for row in made.iter_rows():
                yield Done(**row)
        except (ray.exceptions.RayError, ray.exceptions.UserCodeException) as error:
            reason = reason_of(error, ray.exceptions.RayError)
            raise MinferError(f"an engine of the Ray cluster failed: {reason}; the same command goes on from here") from error

    return answers


def reason_of(error: BaseException, kind: type[BaseException]) -> str:
    """The last line of what an actor said, without the frames that Ray puts around it. `kind`: of the errors that carry such a text."""
    told = next((each for each in (error, error.__cause__) if isinstance(each, kind)), error)
    lines = [line for line in str(told).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(told).__name__
