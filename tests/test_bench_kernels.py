"""`minfer bench kernels`: its reckoning, its report and its picture, with a clock that is told what to show. Real times need a GPU."""

from __future__ import annotations

import json
import sys

import pytest
import typer
from typer.testing import CliRunner

from minfer.bench import kernels as bench
from minfer.bench.kernel_cases import MINFER, Case
from minfer.cli.kernels import kernels as command
from minfer.errors import MinferError

RATE = 4e12  # bytes a second


class Contender:
    """Takes the given microseconds, and one more in every round; with None it cannot be run."""

    def __init__(self, microseconds: float | None):
        self.microseconds = microseconds
        self.sets: list[int] = []

    def __call__(self, i: int) -> None:
        if self.microseconds is None:
            raise ValueError("no kernel for this\nand more lines")
        self.sets.append(i)


class Recording:
    """In place of a CUDA graph."""

    def __init__(self, calls):
        for call in calls:
            call()
        self.microseconds = calls[0].func.microseconds


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr(bench, "Recording", Recording)
    monkeypatch.setattr(
        bench, "compare", lambda recordings, repeats: [[each.microseconds + i for i in range(repeats)] for each in recordings]
    )
    monkeypatch.setattr(bench, "copy_rate", lambda repeats: RATE)


def make_case(slot: str = "norm", flops: int = 0, **microseconds: float | None) -> Case:
    return Case(slot, "8 x 4", 400_000_000, flops, 3, {name: Contender(each) for name, each in microseconds.items()})


def test_rates_follow_from_medians():
    """400 MB in 125 µs are 3.2 TB/s, 80 % of a copy at 4; others are given as multiples of minfer's time."""
    case = make_case(minfer=124.0, slow=499.0, quick=99.0, flops=25_000_000_000)
    result = bench.measure(case, RATE, 3).describe()
    ours, slow, quick = result["contenders"]
    assert [each["name"] for each in result["contenders"]] == [MINFER, "slow", "quick"]
    assert ours["median_us"] == 125
    assert ours["repeats_us"] == [124, 125, 126]
    assert ours["gb_per_s"] == pytest.approx(3200)
    assert ours["share_of_copy"] == pytest.approx(0.8)
    assert ours["tflop_per_s"] == pytest.approx(200)
    assert [each["times_as_long_as_minfer"] for each in (ours, slow, quick)] == [1, 4, 0.8]
    assert all(contender.sets == [0, 1, 2] for contender in case.contenders.values()), "each set of data is used once"


def test_what_cannot_run_says_why_and_stops_nobody():
    """The first line of the error is kept; minfer's own kernel must run."""
    result = bench.measure(make_case(minfer=10.0, broken=None, other=20.0), RATE, 2)
    assert [each.error for each in result.timings] == [None, "ValueError: no kernel for this", None]
    assert result.describe()["contenders"][1] == {"name": "broken", "error": "ValueError: no kernel for this"}
    assert result.times_faster(result.timings[1]) is None
    with pytest.raises(ValueError, match="no kernel"):
        bench.measure(make_case(minfer=None, other=20.0), RATE, 2)


def three_cases():
    for slot in ("attention, decode", "attention, prefill", "norm"):
        yield make_case(slot, minfer=10.0, **{"PyTorch eager": 50.0, "broken": None})


def run(*arguments: str, code: int = 0):
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_command_writes_a_report_and_a_picture(monkeypatch, tmp_path):
    """Each contender has a line, what failed says why; the report holds machine, versions, commit and every repeat."""
    monkeypatch.setattr(bench, "check_gpu", lambda: None)
    monkeypatch.setattr(bench, "cases", three_cases)
    picture = tmp_path / "kernels.png"
    result = run("--json", tmp_path / "new" / "kernels.json", "--repeats", 4, *(["--plot", picture] if has_matplotlib() else []))
    assert [line.split()[-1] for line in result.stdout.splitlines() if "PyTorch eager" in line] == ["4.48"] * 3
    assert result.stdout.count("broken: ValueError: no kernel for this") == 3
    found = json.loads((tmp_path / "new" / "kernels.json").read_text(), parse_constant=pytest.fail)
    assert set(found) >= {"kind", "date", "commit", "hardware", "versions", "options", "copy_gb_per_s", "results"}
    assert found["copy_gb_per_s"] == 4000
    assert [len(each["contenders"][0]["repeats_us"]) for each in found["results"]] == [4, 4, 4]
    assert not has_matplotlib() or picture.read_bytes().startswith(b"\x89PNG")


def test_chosen_slots_only(monkeypatch):
    """Both kinds of attention belong to its slot; an unknown slot is a mistake in the command line."""
    monkeypatch.setattr(bench, "check_gpu", lambda: None)
    monkeypatch.setattr(bench, "cases", three_cases)
    announced: list[str] = []
    assert len(bench.run(1, announced.append, ["attention"])[1]) == 2
    assert announced == ["attention, decode, 8 x 4", "attention, prefill, 8 x 4"]
    assert "none of" in run("--slot", "loop", code=2).output


def test_no_gpu_no_times(monkeypatch):
    """The message says what is missing and what can be run instead."""
    monkeypatch.setattr(bench.torch.cuda, "is_available", lambda: False)
    with pytest.raises(MinferError, match=r"no CUDA device.*bench throughput"):
        bench.check_gpu()


def test_without_matplotlib_the_picture_is_refused(monkeypatch, tmp_path):
    """The message names the package."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MinferError, match="pip install matplotlib"):
        bench.plot([], tmp_path / "x.png")


def has_matplotlib() -> bool:
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return False
    return True
