"""The commands, the options that go before them, and what becomes of errors.

From: `__main__.py`. To: one file a command.
"""

from __future__ import annotations

import logging
from typing import Annotated

import typer
from typer.core import TyperGroup

from minfer.cli import (
    batch,
    bench,
    bench_serve,
    chat,
    check,
    classroom,
    console,
    course,
    demo,
    doctor,
    generate,
    kernels,
    ladder,
    plan,
    profile,
    pull,
    serve,
    soak,
    stages,
    startup,
    trace,
)

EPILOG = (
    "Exit codes: 0 it went well; 1 it could not be done, and the reason is on stderr; 2 the command line is wrong; "
    "130 interrupted by Ctrl-C."
)


class Commands(TyperGroup):
    """Errors are for people: one message on stderr, no traceback unless it is asked for."""

    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            console.note("interrupted")
            raise typer.Exit(130) from None
        except Exception as error:
            is_typers_own = isinstance(error, typer.Exit | typer.Abort) or hasattr(error, "exit_code")
            if is_typers_own or isinstance(error, BrokenPipeError) or ctx.params["debug"]:
                raise
            from minfer.errors import MinferError

            if isinstance(error, MinferError):
                console.note(f"error: {error}")
            else:
                console.note(f"error: {type(error).__name__}: {error}\n`minfer --debug` shows where it happened")
            raise typer.Exit(1) from error


app = typer.Typer(
    cls=Commands,
    help="An LLM inference engine to learn from.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(wanted: bool) -> None:
    """--version says it and leaves."""
    if wanted:
        from minfer import __version__

        typer.echo(f"minfer {__version__}")
        raise typer.Exit


@app.callback()
def before_any_command(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Say on stderr what is being done.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    console.log_from(logging.INFO if verbose else logging.WARNING)


bench_app = typer.Typer(help="Measure this machine, or soak the engine.", no_args_is_help=True)
for function in (
    bench.throughput, bench.latency, bench_serve.serve, startup.startup, profile.profile, soak.soak, kernels.kernels,
):  # fmt: skip
    bench_app.command(epilog=EPILOG)(function)
trace_app = typer.Typer(cls=trace.RecordUnlessNamed, help="Record what an engine decides, look at it, export it.", no_args_is_help=True)
for function in (trace.record, trace.view, trace.export):
    trace_app.command(epilog=EPILOG)(function)
for function in (generate.generate, chat.chat, serve.serve, batch.batch, stages.stages, ladder.ladder):
    app.command(epilog=EPILOG)(function)
app.add_typer(bench_app, name="bench", epilog=EPILOG)
classroom_app = typer.Typer(help="For instructors: grade submissions, and build what a class needs.", no_args_is_help=True)
for function in (classroom.grade, classroom.build):
    classroom_app.command(epilog=EPILOG)(function)
app.add_typer(classroom_app, name="classroom", epilog=EPILOG)
app.add_typer(trace_app, name="trace", epilog=EPILOG)
for function in (check.check, course.start, course.status, course.hint, course.diff, plan.plan, pull.pull, doctor.doctor, demo.demo):
    app.command(epilog=EPILOG)(function)
