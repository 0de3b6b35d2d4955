"""Runs the properties of a suite on a part: draws cases, shrinks the first that fails, and finds out what the fault depends on.

From: a part and its slot's suite. To: a Result per property; `report.py` writes them for people, and as JSON.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

from minfer.errors import MinferError
from minfer.testing.properties import CPU, Case, OutOfTime, Place, Property
from minfer.testing.stubs import unwritten

EFFORT = 10.0  # seconds: a simpler case is looked for no longer, and what a fault depends on no longer either
# Where nobody says how many examples: Triton's interpreter is slow, and on a GPU a kernel is compiled for each new size.
INTERPRETED_SHARE = 2  # one example in so many
INTERPRETED_SECONDS, GPU_SECONDS = 3.0, 15.0  # no further example once a property has taken so long


@dataclass(frozen=True)
class Result:
    """What came of one property."""

    prop: Property
    status: str  # "passed", "failed", or "not written": the part raised NotImplementedError
    examples: int  # that held
    case: Case | None = None  # the simplest that failed
    error: BaseException | None = None
    varying: dict[str, dict[str, bool]] = field(default_factory=dict)  # what was varied → value → whether it holds there
    flaky: bool = False  # the case failed once and held when it was run again

    @property
    def passed(self) -> bool:
        return self.status == "passed"

    @property
    def replay(self) -> str | None:
        """What `--replay` takes to run this very case again."""
        return None if self.case is None else f"{self.prop.name} {one_line(self.case)}"


def one_line(case: Case) -> str:
    return json.dumps(case, allow_nan=False)


@contextmanager
def threads(place: Place) -> Iterator[None]:
    """PyTorch's threads as the place says, and afterwards as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(place.threads or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def failure(prop: Property, part: Any, case: Case) -> BaseException | None:
    """Run one case → what went wrong, or None. A part may do anything; only an interrupt from the keyboard gets through."""
    try:
        prop.check(part, json.loads(one_line(case)))  # its own copy, so that the case stays as it was drawn
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, or what pytest.skip raises
        return error
    return None


def check(
    prop: Property,
    part: Any,
    place: Place = CPU,
    examples: int | None = None,
    at: int = 0,
    shrink: bool = True,
    effort: float = EFFORT,
) -> Result:
    """Draw cases until one fails or all have held. The same `at` (a seed) draws the same cases.

    shrink=False stops at the first case that fails, as it was drawn. So does a case that takes too long (`limits.py`).
    """
    held, deadline = 0, float("inf")
    if examples is None:
        examples = max(3, prop.examples // INTERPRETED_SHARE) if place.interpreted else prop.examples
        if place.interpreted or place.device != "cpu":
            deadline = time.monotonic() + (INTERPRETED_SECONDS if place.interpreted else GPU_SECONDS)
    failed: dict[str, BaseException] = {}
    last: list[Case] = []

    @seed(at)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(prop.cases(place))
    def run(case: Case) -> None:
        nonlocal held, deadline
        key = one_line(case)
        error = failed.get(key)
        if error is None:
            if time.monotonic() > deadline:
                return
            error = failure(prop, part, case)
        if error is not None:
            if not failed:
                deadline = time.monotonic() + (0 if isinstance(error, OutOfTime) else effort)
            failed[key] = error
            last.append(case)
            raise error
        held += not failed

    with threads(place):
        try:
            run()
        except KeyboardInterrupt:
            raise
        except BaseException:
            if not failed:
                raise  # not the part's doing but a fault of the suite
        if not failed:
            return Result(prop, "passed", held)
        case = last[-1]
        return failed_result(prop, part, place, held, case, failed[one_line(case)], effort if shrink else 0.0)


def replay(prop: Property, part: Any, place: Place, case: Case) -> Result:
    """Run one case, exactly as it is written."""
    with threads(place):
        error = failure(prop, part, case)
        return Result(prop, "passed", 1) if error is None else failed_result(prop, part, place, 0, case, error, EFFORT)


def failed_result(prop: Property, part: Any, place: Place, held: int, case: Case, error: BaseException, effort: float) -> Result:
    """effort: the seconds for finding out what it depends on."""
    if unwritten(error) is not None:
        return Result(prop, "not written", held, case, error)
    if isinstance(error, OutOfTime):
        return Result(prop, "failed", held, case, error)
    flaky = failure(prop, part, case) is None
    return Result(prop, "failed", held, case, error, varied(prop, part, case, place, effort), flaky)


def varied(prop: Property, part: Any, case: Case, place: Place, effort: float) -> dict[str, dict[str, bool]]:
    """Whether the property holds where one thing differs from the case. What makes no difference is left out."""
    deadline = time.monotonic() + effort
    found: dict[str, dict[str, bool]] = {}
    for label, cases in (prop.vary(case, place) if prop.vary and effort else {}).items():
        outcomes = {}
        for value, other in cases.items():
            if time.monotonic() < deadline:
                outcomes[str(value)] = failure(prop, part, other) is None
        if len(set(outcomes.values())) == 2:
            found[label] = outcomes
    return found


def parse_replay(text: str, suite: list[Property], place: Place) -> tuple[Property, Case]:
    """What `--replay` was given → the property and the case.

    Raises:
        MinferError: it is not a property's name and a case of it.
    """
    name, _, rest = text.strip().partition(" ")
    prop = next((prop for prop in suite if prop.name == name), None)
    if prop is None:
        names = ", ".join(prop.name for prop in suite)
        raise MinferError(f"the replay must begin with a property's name, and {name!r} is none; they are {names}")
    try:
        case = json.loads(rest)
    except ValueError as error:
        raise MinferError(f"after {name!r} the replay must go on with a case in JSON, as it was printed: {error}") from None
    wanted = simplest(prop, place)
    device = {"device": wanted.pop("device")} if "device" in wanted else {}  # this machine's, wherever the case was drawn
    if not isinstance(case, dict) or set(case) - {"device"} != set(wanted):
        raise MinferError(f"a case of {name!r} is a JSON object with {', '.join(sorted(wanted))}; the replay has {rest}")
    case.pop("device", None)
    return prop, {**case, **device}


def simplest(prop: Property, place: Place) -> Case:
    """Some case of the property, drawn without running it."""
    cases: list[Case] = []

    @settings(max_examples=1, database=None, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    @given(prop.cases(place))
    def draw(case: Case) -> None:
        cases.append(case)

    draw()
    return cases[0]


def narrowed(prop: Property, held: Case) -> Property:
    """The same property on those cases only that have these values in these fields."""
    return replace(prop, cases=lambda place: prop.cases(place).map(lambda case: {**case, **held}))


def check_suite(suite: list[Property], part: Any, place: Place, examples: int | None = None, at: int = 0) -> Iterator[Result]:
    """Every property in turn; each result comes as soon as it is known. None follows one that ran out of time (`limits.py`)."""
    for prop in suite:
        yield (result := check(prop, part, place, examples, at))
        if isinstance(result.error, OutOfTime):
            return
