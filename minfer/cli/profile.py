"""`minfer bench profile`.

From: the command line. To: `minfer/bench/breakdown.py`; its results to stdout, whole into a report, and the timeline into a trace.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minfer.cli.console import note, print_table
from minfer.cli.options import LLMOptions, Shape, with_options, with_shape
from minfer.cli.workload import heading

if TYPE_CHECKING:
    from minfer.bench.breakdown import Breakdown, Phase
    from minfer.bench.profile import Kernel

SHOWN = 16  # kernels
HOST = ["schedule", "launch", "wait", "commit", "rest"]
STEPS = ["step", "sequences", "tokens", "ms", *HOST, "GPU busy", "launches", "gaps", "gaps µs"]
KERNELS = ["kernel", "calls", "µs", "share"]
WIDTH = 88  # characters of a kernel's name


@with_options(engine=LLMOptions())
def profile(
    *,
    shape: Shape = None,
    batch: Annotated[int, typer.Option(min=1, help="Sequences that decode side by side.")] = 1,
    context: Annotated[int, typer.Option(min=1, help="Tokens of each prompt.")] = 512,
    steps: Annotated[int, typer.Option(min=2, help="Decode steps to time; at most 8 of them are profiled.")] = 32,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the timeline, for chrome://tracing or Perfetto.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw three decode steps, host and device: .svg or .png.")] = None,
    report: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all that was measured.")] = None,
    engine: LLMOptions,
) -> None:
    """Where the time of a decode step and of a prefill step goes: host, launches, kernels, and the floor that memory sets."""
    from minfer.bench.breakdown import break_down
    from minfer.bench.plot import check_matplotlib
    from minfer.bench.report import check_writable, write_json
    from minfer.bench.timeline import plot_timeline

    for path in filter(None, (trace, plot, report)):
        check_writable(path)
    if plot is not None:
        check_matplotlib()
    engine = with_shape(engine, shape)
    if (engine.tp or 1) > 1 and (trace is not None or plot is not None):
        raise typer.BadParameter("a timeline is of one process: leave --trace and --plot out with --tp", param_hint="--tp")
    with engine.open() as llm:
        result = break_down(llm, batch, context, steps, trace)
        stage, dtype = llm.stage.name, str(llm.config.dtype).removeprefix("torch.")
    show(result, f"{engine.model}, stage {stage}, {dtype} on {llm.config.device}, milliseconds a step")
    if report is not None:
        write_json(report, {"kind": "profile", **heading(engine), "stage": stage, "dtype": dtype, **result.describe()})
        note(f"wrote {report}")
    if plot is not None:
        plot_timeline(result.timeline.describe(), f"{engine.model}, stage {stage}, {batch} sequences, context {context}", plot)
    for path in filter(None, (trace, plot)):
        note(f"wrote {path}")


def show(result: Breakdown, title: str) -> None:
    """The steps, the floor, and the kernels that take longest."""
    print_table(title, STEPS, [row(result.decode), row(result.prefill)], STEPS[1:])
    typer.echo(
        f"A decode step moves {result.weight_bytes / 1e6:.1f} MB of weights and {result.kv_bytes / 1e6:.1f} MB of K and V (context "
        f"{result.context}). A copy here runs at {result.copy_rate / 1e9:.1f} GB/s: the floor is {result.floor_ms:.3f} ms, and the "
        f"step reaches {result.share_of_floor:.0%} of it.\n"
    )
    for phase in (result.decode, result.prefill):
        kernels = phase.activity.kernels
        others = kernels[SHOWN:]
        rows = [line(each.name[:WIDTH], [each]) for each in kernels[:SHOWN]]
        if others:
            rows.append(line(f"{len(others)} others", others))
        what = "Kernels" if phase.activity.device_ms else "Operators on the CPU"
        print_table(f"{what} of a {phase.name} step", KERNELS, rows, KERNELS[1:])


def line(name: str, kernels: list[Kernel]) -> list[str]:
    """The kernels in one row."""
    count, microseconds, share = (sum(getattr(each, field) for each in kernels) for field in ("count", "microseconds", "share"))
    return [name, f"{count:g}", f"{microseconds:.1f}", f"{share:.1%}"]


def row(phase: Phase) -> list[object]:
    """One kind of step. What only a GPU has is left out without one."""
    seen = phase.activity
    device = [None] * 4
    if seen.device_ms:
        device = [f"{phase.device_busy:.0%}", f"{seen.launches:.0f}", f"{seen.gaps:.0f}", f"{seen.gap_us:.0f}"]
    verbs = [f"{phase.verbs_ms[verb]:.3f}" for verb in HOST]
    return [phase.name, phase.sequences, phase.tokens, f"{phase.ms_per_step:.3f}", *verbs, *device]
