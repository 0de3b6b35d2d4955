"""`minfer bench startup`: how long an engine takes to start.

From: the command line. To: `minfer/bench/startup.py`; its results to stdout, and whole into a report.
"""

from __future__ import annotations

from minfer.cli.bench import Repeats, Report, prepare, save
from minfer.cli.console import print_table
from minfer.cli.options import LLMOptions, Shape, with_options, with_shape

COLUMNS = ["start", "LLM(...), s", "process to first token, s"]


@with_options(engine=LLMOptions())
def startup(*, shape: Shape = None, repeats: Repeats = 3, report: Report = None, engine: LLMOptions) -> None:
    """Seconds to build an engine, and from the start of a process to its first token. A first process that warms up is not counted."""
    from minfer.bench import startup as bench

    prepare(report)
    engine = with_shape(engine, shape)
    options = {"model": engine.model, "revision": engine.revision, "stage": engine.stage, "swap": engine.swaps(), **engine.for_config()}
    starts = bench.startup(options, repeats)
    construction, since_process_start = bench.seconds_to_start(starts)
    rows = [[i, f"{each.construction:.1f}", f"{each.since_process_start:.1f}"] for i, each in enumerate(starts, start=1)]
    print_table(f"Starting {starts[0].stage}; medians {construction:.1f} and {since_process_start:.1f} s", COLUMNS, rows, COLUMNS)
    facts = {"workload": "startup", "construction_s": construction, "since_process_start_s": since_process_start}
    save(report, "startup", engine, {"stage": starts[0].stage}, facts, [each.describe() for each in starts])
