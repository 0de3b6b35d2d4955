"""`minfer batch`: a file of requests, run on one engine or on many.

From: the command line and a file in OpenAI's batch format. To: `minfer/batch`; the answers into another file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from minfer.cli.console import note
from minfer.cli.options import LLMOptions, with_options


@with_options(engine=LLMOptions())
def batch(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="A request a line: custom_id, method, url, body.")],
    target: Annotated[
        Path, typer.Argument(metavar="OUTPUT", help="The answers, in the same order; one that is there is gone on with.")
    ],
    *,
    window: Annotated[int | None, typer.Option(min=1, help="Lines on their way at once; otherwise 4 times --max-num-seqs.")] = None,
    engine: LLMOptions,
) -> None:
    """Run a file of requests in OpenAI's batch format. After a kill, the same command goes on where it was.

    A line that cannot be read, or whose custom_id was there before, gets a record with an error; a body that is refused one with status
    400. The output is the same, byte for byte, however often the run was broken off: it holds no times, and a request without a seed
    gets one from --engine-seed and its line's number.
    """
    from minfer.batch.run import check_installed, name_of, on_engine, run_batch

    check_installed()
    name = name_of(engine.model)
    note(run_batch(source, target, on_engine(engine.open, name, window), name, note).line())
