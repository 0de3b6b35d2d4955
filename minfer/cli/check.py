"""`minfer check SLOT`: the slot's suite of properties on any part, and for what fails the simplest case and how to run it again.
`minfer check ch04` checks what a student has written for a chapter, in `check_chapter.py`.

From: the command line. To: `minfer/testing`, which draws the cases; its results to stdout, and whole into a report.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minfer.cli.console import log_from, note

if TYPE_CHECKING:
    from minfer.testing.checking import Result
    from minfer.testing.target import Target

MOST_EXAMPLES = 1_000_000  # for each property: days, for most parts
Report = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the results.")]


def check(
    context: typer.Context,
    slot: Annotated[str, typer.Argument(metavar="WHAT", help="A slot: attention, norm, scheduler, ...; or a chapter: ch04.")],
    file: Annotated[Path | None, typer.Argument(help="Of a chapter: your file, if it is not where `minfer start` put it.")] = None,
    part: Annotated[str | None, typer.Option(help="module:Name or file.py:Name; otherwise the default stage's.")] = None,
    examples: Annotated[int | None, typer.Option(min=1, max=MOST_EXAMPLES, help="Cases to draw for each property.")] = None,
    replay: Annotated[str | None, typer.Option(metavar="CASE", help="Run one case only, as it was printed.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other cases.")] = 0,
    report: Report = None,
    task: Annotated[str | None, typer.Option("-k", "--task", help="Of a chapter: one task only, such as task2.")] = None,
) -> None:
    """Check a part against its slot's properties, or your own parts against a chapter's, on cases drawn at random.

    Exits with 1 where one does not hold, and for a chapter, where points are missing.
    """
    from minfer.cli import check_chapter

    if check_chapter.is_chapter(slot):
        if part is not None or replay is not None:
            raise typer.BadParameter("--part and --replay go with a slot; a chapter takes your FILE", param_hint="WHAT")
        check_chapter.check_chapter(slot, file, task, examples, seed, report)
        return
    if file is not None or task is not None:
        raise typer.BadParameter("FILE and -k go with a chapter, such as ch04; a slot takes --part", param_hint="FILE")
    from minfer.bench.report import check_writable, write_json
    from minfer.parts import SLOTS
    from minfer.testing.report import summary, to_json
    from minfer.testing.target import find_target, interpreting, needs_interpreter

    if slot not in SLOTS:
        names = f"the slots are {', '.join(SLOTS)}; chapters are named as ch04"
        raise typer.BadParameter(f"no slot is called {slot!r}; {names}", param_hint="WHAT")
    if report is not None:
        check_writable(report)
    if not context.find_root().params["verbose"]:
        log_from(logging.ERROR)  # a warning of the part would be repeated for every example
        context.call_on_close(lambda: log_from(logging.WARNING))
    if part is not None and needs_interpreter(part) and not interpreting():
        raise typer.Exit(run_interpreted(context))
    with suppress(OSError, ValueError):  # stderr may be no file
        faulthandler.enable()  # a part in C may crash: say at which line of Python
    target = find_target(slot, part)
    for line in target.describe():
        typer.echo(line)
    results = []
    for result in run(target, examples, replay, seed):
        show(result, target, in_full=all(before.passed or before.flaky for before in results))
        if result.status == "failed" and context.find_root().params["debug"]:
            typer.echo("".join(traceback.format_exception(result.error)), err=True)
        results.append(result)
    typer.echo(summary(results))
    passed = all(result.passed for result in results)
    if report is not None:
        facts = {"slot": slot, "part": target.name, "file": str(target.file), "interpreted": target.place.interpreted, "seed": seed}
        write_json(report, {**facts, "passed": passed, "properties": [to_json(result, target) for result in results]})
        note(f"wrote {report}")
    if not passed:
        raise typer.Exit(1)


def run(target: Target, examples: int | None, replay: str | None, seed: int) -> Iterator[Result]:
    """The results, each as soon as it is known."""
    from minfer.errors import MinferError
    from minfer.testing import checking
    from minfer.testing.limits import limited_suite
    from minfer.testing.suites import suite_of

    suite = limited_suite(suite_of(target.slot, promised=replay is not None), target)
    if replay is None:
        yield from checking.check_suite(suite, target.part, target.place, examples, seed)
        return
    try:
        prop, case = checking.parse_replay(replay, suite, target.place)
    except MinferError as error:
        raise typer.BadParameter(str(error), param_hint="--replay") from None
    yield checking.replay(prop, target.part, target.place, case)


def show(result: Result, target: Target, in_full: bool) -> None:
    """A line a property. The first that fails whenever it is run is explained; of the others only the replay is shown."""
    from minfer.testing.report import explain, headline, replay_command

    typer.echo(headline(result))
    if result.status == "failed":
        lines = explain(result, target) if in_full else [f"replay:    {replay_command(result, target)}"]
        for line in lines:
            typer.echo(f"    {line}")


def run_interpreted(context: typer.Context) -> int:
    """The same command in a process of its own, whose Triton interprets its kernels → its exit code."""
    from minfer.testing.target import INTERPRET

    options = {name: value for name, value in context.params.items() if name not in ("slot", "file", "task") and value is not None}
    given = [f"--{'json' if name == 'report' else name}={value}" for name, value in options.items()]
    debug = ["--debug"] if context.find_root().params["debug"] else []
    quiet = ["-W", "ignore::RuntimeWarning"]  # the interpreter's arithmetic is numpy's, which warns of each infinity
    command = [sys.executable, *quiet, "-m", "minfer", *debug, "check", context.params["slot"], *given]
    return subprocess.run(command, env={**os.environ, INTERPRET: "1"}, check=False).returncode
