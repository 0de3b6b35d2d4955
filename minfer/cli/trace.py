"""`minfer trace`: record what an engine decides at every step, look at it, compare it, export it.

From: the command line. To: `minfer/trace/`; the files that it names.
"""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer.core import TyperGroup

from minfer.cli.console import note
from minfer.cli.generate import read_prompts
from minfer.cli.options import LLMOptions, SamplingOptions, Shape, with_options, with_shape

if TYPE_CHECKING:
    from minfer.bench.workload import Workload
    from minfer.llm import LLM

REQUESTS = 12  # of a mixed workload: few enough to follow with one's eyes
PROMPT_LEN, OUTPUT_LEN = (4, 48), (8, 32)
TraceFile = Annotated[Path, typer.Argument(help="A trace: JSON, or the same gzipped.")]


class RecordUnlessNamed(TyperGroup):
    """`minfer trace --stage paged "a prompt"` means `minfer trace record ...`: what names no command of the group is for that one."""

    def parse_args(self, ctx, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["record", *args]
        return super().parse_args(ctx, args)


@with_options(engine=LLMOptions(), sampling=SamplingOptions())
def record(
    *,
    prompts: Annotated[list[str] | None, typer.Argument(metavar="PROMPT", help="Texts; - is stdin.")] = None,
    file: Annotated[str | None, typer.Option(help="Read prompts from a file, one a line; - is stdin.")] = None,
    workload: Annotated[Literal["mixed"] | None, typer.Option(help="Random prompts of mixed lengths in place of texts.")] = None,
    requests: Annotated[int, typer.Option(help="How many of them.")] = REQUESTS,
    n: Annotated[int, typer.Option("--n", help="Completions of each prompt.")] = 1,
    shape: Shape = None,
    out: Annotated[Path, typer.Option(help="Where the trace goes; gzipped where the name ends in .gz.")] = Path("trace.json"),
    engine: LLMOptions,
    sampling: SamplingOptions,
) -> None:
    """Run prompts, or a workload, and write a trace of it. `minfer trace view` shows it."""
    from minfer.trace.recording import check_place
    from minfer.trace.recording import record as start

    if workload is not None and (prompts or file):
        raise typer.BadParameter("prompts and a workload are two different things; give one of them", param_hint="--workload")
    check_place(out)
    texts = None if workload else read_prompts(prompts or [], file)
    with with_shape(engine, shape).open() as llm, start(llm, out) as recording:
        if workload:
            mixed = made(llm, requests)
            llm.generate(mixed.prompts, mixed.params())
        else:
            llm.generate(texts, sampling.params(n=n))
    steps, sequences = recording.trace.num_steps, len(recording.trace.sequences)
    note(f"wrote {out}: {steps} steps of {sequences} sequences; look at it with\n  minfer trace view {out}")


def made(llm: LLM, requests: int) -> Workload:
    """Random prompts that fit into the engine."""
    from minfer.bench.workload import mixed

    longest = llm.engine.max_len
    prompt, output = ((min(low, longest // 4), min(high, longest // 2)) for low, high in (PROMPT_LEN, OUTPUT_LEN))
    return mixed(requests, prompt, output, llm.config.model.vocab_size, longest)


def view(
    file: TraceFile,
    out: Annotated[Path | None, typer.Option(help="The HTML file; otherwise the trace's name with .html.")] = None,
    compare: Annotated[Path | None, typer.Option(help="A second trace beside it; the first difference is marked.")] = None,
    chapters: Annotated[str | None, typer.Option(help="Where links to chapters go; {} stands for a chapter's folder.")] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Make the player: one HTML file that needs no network."""
    from minfer.errors import MinferError
    from minfer.trace.compare import first_difference
    from minfer.trace.page import page
    from minfer.trace.trace import Trace

    trace = Trace.load(file)
    other = Trace.load(compare) if compare is not None else None
    out = out or Path(file.name.removesuffix(".gz")).with_suffix(".html")
    try:
        out.expanduser().write_text(page(trace, other, chapters), encoding="utf-8")
    except OSError as error:
        raise MinferError(f"the player cannot be written to {out} ({error.strerror}); name another place with --out") from error
    if other is not None:
        difference = first_difference(trace, other)
        note(f"the first difference: {difference.message}" if difference else "the two traces agree from beginning to end")
    note(f"wrote {out}; open it in a browser")
    if open_it:
        webbrowser.open(out.expanduser().resolve().as_uri())


def export(
    file: TraceFile,
    out: Annotated[Path, typer.Option(help="The file for chrome://tracing or ui.perfetto.dev.")] = Path("chrome.json"),
) -> None:
    """Turn a trace into the Chrome trace event format."""
    from minfer.trace.chrome import export_chrome
    from minfer.trace.trace import Trace

    export_chrome(Trace.load(file), out)
    note(f"wrote {out}; open it in chrome://tracing or ui.perfetto.dev")
