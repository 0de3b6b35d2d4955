"""`minfer serve`: an OpenAI-compatible server.

From: the command line. To: `minfer/serve/run.py`; where it listens is said on stderr.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from minfer.cli.console import note
from minfer.cli.options import LLMOptions, with_options

NEEDS = 'minfer serve needs FastAPI, uvicorn and prometheus_client; pip install "minfer[serve]" brings them'
KEY_VARIABLE = "MINFER_API_KEY"
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def server(help: str, **others):
    return typer.Option(help=help, rich_help_panel="Server", **others)


@with_options(engine=LLMOptions())
def serve(
    *,
    host: Annotated[str, server("Address to listen on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, server("0 takes a free one.", min=0, max=65535)] = 8000,
    api_key: Annotated[str | None, server(f"A key that requests must bring; otherwise the variable {KEY_VARIABLE}.")] = None,
    served_model_name: Annotated[list[str] | None, server("A name of the model in the API; repeatable.")] = None,
    max_waiting: Annotated[int, server("Sequences that may wait; beyond them a request gets 429.", min=0)] = 256,
    deadline: Annotated[float, server("Seconds that a request may take in all.", min=0.001)] = 600.0,
    max_output_tokens: Annotated[int | None, server("Tokens that one completion may ask for.", min=1)] = None,
    shutdown_seconds: Annotated[float, server("Seconds that what is under way gets at the end.", min=0)] = 30.0,
    engine: LLMOptions,
) -> None:
    """Serve the model by the OpenAI API, with a page to try it at /. Ctrl-C lets what is under way finish."""
    import logging

    from minfer.errors import MinferError

    try:
        from minfer.serve.front import Limits
        from minfer.serve.run import serve as run
    except ModuleNotFoundError as error:
        raise MinferError(f"{NEEDS} (no {error.name} here)") from error
    api_key = os.environ.get(KEY_VARIABLE) if api_key is None else api_key
    if api_key == "":
        raise MinferError(f"the API key is empty: give --api-key, or the variable {KEY_VARIABLE}, a key; or leave both out")
    if host not in LOOPBACK and api_key is None:
        note(f"warning: {host} may be reached from other machines, and no --api-key is set: whoever finds this server can use it")
    limits = Limits(max_waiting=max_waiting, deadline=deadline, max_tokens=max_output_tokens, shutdown=shutdown_seconds)
    options = {"stage": engine.stage, "swap": engine.swaps(), "revision": engine.revision, **engine.for_config()}
    options["record_random"] = True  # nobody should wait for it while others are served

    def announce(info, port: int) -> None:
        note(f"stage {info.stage}: {info.why_stage}")
        note(f"serving {info.name} at http://{f'[{host}]' if ':' in host else host}:{port} (API under /v1, a page to try it at /)")

    verbose = logging.getLogger("minfer").getEffectiveLevel() <= logging.INFO
    names = served_model_name or [engine.model]
    run(engine.model, options, limits, host=host, port=port, names=names, api_key=api_key, verbose=verbose, announce=announce)
