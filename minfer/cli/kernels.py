"""`minfer bench kernels`.

From: the command line. To: `minfer/bench/kernels.py`; its results to stdout, whole into a report, and as a picture.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from minfer.cli.console import note, print_table

SLOTS = ("attention", "norm", "write_kv", "activation", "linear", "sample")  # those that have cases
COLUMNS = ["kernel", "shape", "contender", "µs", "GB/s", "of a copy", "TFLOP/s", "times minfer's"]


def kernels(
    *,
    report: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all that was measured.")] = None,
    picture: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw it, as .png, .svg or .pdf.")] = None,
    slot: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(SLOTS)}; repeatable. Otherwise all.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Replays of each contender; medians are shown.")] = 20,
) -> None:
    """Time the Triton kernels beside PyTorch and other libraries, against the rate of a copy on the same card."""
    from minfer.bench import kernels as bench
    from minfer.bench.report import check_writable, header, write_json

    bench.check_gpu()
    unknown = set(slot or ()) - set(SLOTS)
    if unknown:
        raise typer.BadParameter(f"{', '.join(sorted(unknown))} is none of {', '.join(SLOTS)}", param_hint="--slot")
    for path in filter(None, (report, picture)):
        check_writable(path)
    rate, results = bench.run(repeats, lambda name: note(f"timing {name}"), slot or ())
    print_table(
        f"Kernels, bfloat16, medians of {repeats}; a copy runs at {rate / 1e9:.0f} GB/s",
        COLUMNS,
        [line(result.slot, result.shape, each) for result in results for each in result.describe()["contenders"]],
        COLUMNS[3:],
    )
    if report is not None:
        content = {"kind": "kernels", **header(), "options": {"repeats": repeats, "slot": slot}, "copy_gb_per_s": rate / 1e9}
        write_json(report, {**content, "results": [result.describe() for result in results]})
        note(f"wrote {report}")
    if picture is not None:
        bench.plot(results, picture)
        note(f"wrote {picture}")


def line(slot: str, shape: str, timing: dict) -> list[str | None]:
    """A row of the table; what could not run shows why."""
    if "error" in timing:
        return [slot, shape, f"{timing['name']}: {timing['error']}"]
    return [
        slot,
        shape,
        timing["name"],
        f"{timing['median_us']:.1f}",
        f"{timing['gb_per_s']:.0f}",
        f"{timing['share_of_copy']:.0%}",
        f"{timing['tflop_per_s']:.0f}" if timing["tflop_per_s"] else None,
        f"{timing['times_as_long_as_minfer']:.2f}",
    ]
