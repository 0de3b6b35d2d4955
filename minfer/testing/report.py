"""Results in words: what must hold, what came instead, on which case, what it depends on, and how to run that case again.

From: `checking.py`. To: `minfer check`, the pytest plugin, and JSON for programs.
"""

from __future__ import annotations

import shlex
import traceback
from pathlib import Path

from minfer.testing.checking import Result, one_line
from minfer.testing.properties import Differs, OutOfTime
from minfer.testing.stubs import unwritten
from minfer.testing.target import Target


def headline(result: Result, name: str | None = None) -> str:
    """The property (by another name, if one is given), what became of it, and after how many cases."""
    name = name or result.prop.name
    count = f"{result.examples} example{'' if result.examples == 1 else 's'}"
    if result.passed:
        return f"passed       {name:20} {count}"
    if result.status == "not written":
        return f"not written  {name:20} {count} passed before: {unwritten(result.error)}"
    return f"FAILED       {name:20} after {count} that passed"


def explain(result: Result, target: Target) -> list[str]:
    """A failure in a few lines, the most telling ones first."""
    lines = [f"must hold: {result.prop.statement}", *what_went_wrong(result.error, target)]
    if result.flaky:
        lines.append("not always: the same case passed when it was run again (memory that was never written? state that is kept?)")
    lines.append(f"case:      {one_line(result.case)}")
    for label, outcomes in result.varying.items():
        holds, fails = ([value for value, held in outcomes.items() if held is wanted] for wanted in (True, False))
        lines.append(f"depends:   {label}: fails at {', '.join(fails)}; holds at {', '.join(holds)}")
    return [*lines, f"replay:    {replay_command(result, target)}"]


def in_full(result: Result, target: Target) -> str:
    """All that there is to say of one failure."""
    return "\n".join([*target.describe(), headline(result), *explain(result, target)])


def summary(results: list[Result]) -> str:
    """How far the part got."""
    counts = [(sum(result.status == status for result in results), status) for status in ("passed", "failed", "not written")]
    noun = "property" if len(results) == 1 else "properties"
    stopped = "; the others were not tried, since this one took too long" if isinstance(results[-1].error, OutOfTime) else ""
    return f"{len(results)} {noun}: {', '.join(f'{count} {status}' for count, status in counts if count)}{stopped}"


def replay_command(result: Result, target: Target) -> str:
    command = ["minfer", "check", target.slot, "--part", target.name, "--replay", result.replay]
    return " ".join(shlex.quote(word) for word in command)


def what_went_wrong(error: BaseException, target: Target) -> list[str]:
    """What was expected and what came; of an exception, where in the part it was raised."""
    if isinstance(error, Differs):
        return [f"expected:  {error.expected}", f"came:      {error.came}"]
    if isinstance(error, AssertionError) and str(error):
        return [f"wrong:     {first_line(error)}"]
    return [f"raised:    {type(error).__name__}: {first_line(error)} ({raised_at(error, target)})"]


def first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def raised_at(error: BaseException, target: Target) -> str:
    """The deepest line of the part's own file, or where that has none, of all."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename) in (target.file, target.defined_in)]
    frame = (own or frames)[-1]
    return f"{Path(frame.filename).name}, line {frame.lineno}: {frame.line}"


def to_json(result: Result, target: Target) -> dict:
    """One property's result for programs."""
    failed = result.error is not None
    return {
        "name": result.prop.name,
        "statement": result.prop.statement,
        "status": result.status,
        "examples": result.examples,
        "case": result.case,
        "message": "; ".join(what_went_wrong(result.error, target)) if failed else None,
        "expected": getattr(result.error, "expected", None),
        "came": getattr(result.error, "came", None),
        "flaky": result.flaky,
        "varying": result.varying,
        "replay": result.replay,
    }
