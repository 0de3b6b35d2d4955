"""`minfer batch`: a file of requests, run on one engine or on many.

From: the command line and a file in OpenAI's batch format. To: `minfer/batch`; the answers into another file.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minfer.cli.console import note
from minfer.cli.options import LLMOptions, with_options

if TYPE_CHECKING:
    from minfer.batch.run import Answers


@with_options(engine=LLMOptions())
def batch(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="A request a line: custom_id, method, url, body.")],
    target: Annotated[
        Path, typer.Argument(metavar="OUTPUT", help="The answers, in the same order; one that is there is gone on with.")
    ],
    *,
    window: Annotated[int | None, typer.Option(min=1, help="Lines on their way at once; otherwise 4 times --max-num-seqs.")] = None,
    engines: Annotated[int | None, typer.Option(min=1, help="Engines in a Ray cluster; otherwise as many as its GPUs allow.")] = None,
    engine: LLMOptions,
) -> None:
    """Run a file of requests in OpenAI's batch format. After a kill, the same command goes on where it was.

    A line that cannot be read, or whose custom_id was there before, gets a record with an error; a body that is refused one with status
    400. The output is the same, byte for byte, however often the run was broken off: it holds no times, and a request without a seed
    gets one from --engine-seed and its line's number.

    With --ray-address or --engines the file is spread over engines in a Ray cluster, each on GPUs of its own (--tp of them). INPUT and
    the model must then lie under the same path on all machines. With --executor ray it is one engine over many machines.
    """
    from minfer.batch.run import check_installed, name_of, on_engine, run_batch

    check_installed("pydantic", "serve")
    name = name_of(engine.model)
    one_over_many = engine.executor == "ray"
    if one_over_many and engines is not None:
        raise typer.BadParameter("--executor ray makes one engine over many machines; leave one of the two out", param_hint="--engines")
    if engines is None and (engine.ray_address is None or one_over_many):
        answers = on_engine(engine.open, name, window)
    else:
        answers = spread(source, engine, name, window, engines)
    note(run_batch(source, target, answers, name, note).line())


def spread(source: Path, engine: LLMOptions, name: str, window: int | None, engines: int | None) -> Answers:
    """Many engines, as the options say."""
    from minfer.batch.ray_engines import on_ray
    from minfer.batch.run import check_installed
    from minfer.config import EngineConfig

    check_installed("ray", "ray")
    own = dataclasses.replace(engine, ray_address=None)
    rows = engine.max_num_seqs or EngineConfig.max_num_seqs
    return on_ray(
        own.open, name, source, address=engine.ray_address, engines=engines, gpus=engine.tp or 1, max_num_seqs=rows, window=window
    )
