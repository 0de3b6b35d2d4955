"""`minfer generate`: complete prompts.

From: the command line, a file or stdin. To: stdout, as text or as JSON.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minfer.cli.console import print_json
from minfer.cli.options import LLMOptions, SamplingOptions, with_options

if TYPE_CHECKING:
    from minfer.outputs import RequestOutput

STDIN = "-"


@with_options(engine=LLMOptions(), sampling=SamplingOptions())
def generate(
    *,
    prompts: Annotated[list[str] | None, typer.Argument(metavar="PROMPT", help="Texts; - is stdin.")] = None,
    file: Annotated[str | None, typer.Option(help="Read prompts from a file, one a line; - is stdin.")] = None,
    n: Annotated[int, typer.Option("--n", help="Completions of each prompt.")] = 1,
    logprobs: Annotated[int | None, typer.Option(help="Log-probabilities of each token and of so many others (JSON).")] = None,
    prompt_logprobs: Annotated[int | None, typer.Option(help="The same for the prompt's tokens (JSON).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the request outputs as a JSON list.")] = False,
    engine: LLMOptions,
    sampling: SamplingOptions,
) -> None:
    """Complete prompts, all in one batch."""
    texts = read_prompts(prompts or [], file)
    params = sampling.params(n=n, logprobs=logprobs, prompt_logprobs=prompt_logprobs)
    with engine.open() as llm:
        outputs = llm.generate(texts, params)
    if as_json:
        print_json([asdict(output) for output in outputs])
    else:
        for output in outputs:
            show(output)


def read_prompts(prompts: list[str], file: str | None) -> list[str]:
    """The prompts of the command line, then those of the file; lines without text are skipped."""
    if prompts == [STDIN] and file is None:
        prompts, file = [], STDIN
    if file == STDIN:
        text = sys.stdin.read()
    elif file is not None:
        try:
            text = Path(file).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"{file} cannot be read: {error}", param_hint="--file") from None
    else:
        text = ""
    texts = [*prompts, *(line for line in text.splitlines() if line.strip())]
    if not texts:
        raise typer.BadParameter("there is no prompt; write one, or use --file", param_hint="PROMPT")
    return texts


def show(output: RequestOutput) -> None:
    """A prompt and its completions, for people."""
    typer.echo(f"{typer.style('prompt:', dim=True)} {output.prompt}")
    for completion in output.outputs:
        label = "text:" if len(output.outputs) == 1 else f"text {completion.index}:"
        typer.echo(f"{typer.style(label, dim=True)} {completion.text}")
    typer.echo()
