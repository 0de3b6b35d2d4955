"""`minfer demo`: a few prompts through every stage that this machine can run; their text once, then the ladder.

From: `make demo`. To: `minfer/bench/ladder.py`, whose table it shows.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

import typer

from minfer.cli.console import log_from, note
from minfer.cli.ladder import show, with_max_model_len
from minfer.cli.options import EngineOptions, with_options
from minfer.errors import MinferError

if TYPE_CHECKING:
    from minfer.bench.workload import Workload


class Ask(NamedTuple):
    """One request of the demo."""

    text: str
    max_tokens: int
    is_chat: bool = True


SHOWN = (
    Ask("What is the capital of France?", 16),
    Ask("Explain what a computer program is, in one sentence.", 32),
    Ask("Why do we need sleep?", 24),
    Ask("Once upon a time, there was a little girl named Lily who", 48, is_chat=False),
)
OTHERS = (  # of quite different lengths, so that one can see what waiting for the longest costs
    Ask("What is a library?", 40),
    Ask("The opposite of hot is", 8, is_chat=False),
    Ask("Write one sentence about the sea.", 48),
    Ask("Water boils at", 12, is_chat=False),
    Ask("Give me three tips for sleeping well.", 48),
    Ask("In the year 1969, the first man", 20, is_chat=False),
    Ask("What is gravity?", 32),
    Ask("The best way to learn programming is", 16, is_chat=False),
)
NEXT = """
Where to go next (after `. .venv/bin/activate`, where the shell does not find minfer)
  minfer start ch01                             write your own part: the first chapter of the course
  minfer chat                                   talk with the model
  minfer stages                                 what each stage swaps; then open minfer/stages.py and minfer/engine.py
  minfer bench throughput                       this engine beside transformers' own generate
"""


@with_options(engine=EngineOptions(max_num_seqs=4))
def demo(*, engine: EngineOptions) -> None:
    """Get the model, run a few prompts through every stage, show their text and the table of the stages."""
    from minfer.bench.ladder import climb, runnable, with_ratios
    from minfer.hub import find_model
    from minfer.model_config import ModelConfig

    log_from(logging.INFO)
    path = find_model(engine.model, engine.revision)
    note(f"model {engine.model}: {path}")
    log_from(logging.WARNING)
    workload = written(path)
    stages, refused = runnable(engine.device)
    options = with_max_model_len(engine, ModelConfig.load(path))
    results = climb(path, stages, [workload], options, engine.swaps(), announce=lambda name: note(f"running {name}"))
    typer.echo()
    for asked, text in zip(SHOWN, results[0].runs[0].texts, strict=False):
        typer.echo(typer.style(asked.text, bold=True) + ("\n" if asked.is_chat else "") + text + "\n")
    show(with_ratios([result.describe() for result in results]), list(refused))
    typer.echo(NEXT)


def written(path) -> Workload:
    """The demo's prompts as token ids; questions go through the chat template, where the model has one.

    Raises:
        MinferError: the model has no tokenizer.
    """
    from minfer.bench.workload import Workload
    from minfer.text.chat import chat_prompt_ids, encode_prompt
    from minfer.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(path)
    if tokenizer is None:
        raise MinferError(f"the demo shows text, and {path} has no tokenizer; name a model that has one")
    asks = SHOWN + OTHERS
    prompts = [
        chat_prompt_ids(tokenizer, [{"role": "user", "content": ask.text}])
        if ask.is_chat and tokenizer.chat_template
        else encode_prompt(tokenizer, ask.text)
        for ask in asks
    ]
    return Workload("demo", prompts, [ask.max_tokens for ask in asks], ignore_eos=False)
