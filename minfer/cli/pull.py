"""`minfer pull`: get a model.

From: the command line. To: `hub.find_model`; the folder to stdout, so that a script can use it.
"""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from minfer.cli.console import log_from
from minfer.hub import DEFAULT_MODEL


def pull(
    name: Annotated[str, typer.Argument(help="A short name, a hub id, a folder, or a .gguf file.")] = DEFAULT_MODEL,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub's model.")] = None,
) -> None:
    """Get a model, unless it is here already, and print its folder."""
    from minfer.hub import find_model

    log_from(logging.INFO)
    typer.echo(find_model(name, revision))
