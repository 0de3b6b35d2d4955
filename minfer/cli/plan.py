"""`minfer plan`: what a model needs of a card, on paper.

From: the command line. To: `minfer/plan/`; its figures to stdout.
"""

from __future__ import annotations

from typing import Annotated

import typer

from minfer.cli.console import note, print_json, print_table


def plan(
    model: Annotated[str, typer.Argument(help="A shape (llama-8b), a short name, a hub id, a folder, or a .gguf file.")],
    gpu: Annotated[str, typer.Option(help="b200, h200, h100, a100, l40s, l4, t4, rtx4090, rtx3090.")] = "h200",
    tp: Annotated[int, typer.Option(help="Cards that share the model (tensor parallelism).")] = 1,
    dtype: Annotated[str, typer.Option(help="float32, float16 or bfloat16.")] = "bfloat16",
    context: Annotated[int, typer.Option(help="Tokens of a sequence, prompt and output.")] = 2048,
    batch: Annotated[int, typer.Option(help="Sequences side by side.")] = 64,
    block_size: Annotated[int, typer.Option(help="Tokens in a block of the K/V cache.")] = 16,
    memory_share: Annotated[float, typer.Option(help="Share of the card's memory to use, 0 to 1.")] = 0.9,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """K/V bytes a token, sequences that fit, and the least time of a decode step and of a prompt. Nothing is run."""
    from minfer.plan.cards import find_card
    from minfer.plan.report import figures, shape_of

    listed = find_card(gpu)
    shape = shape_of(model)
    lines = figures(shape, listed, dtype=dtype, context=context, batch=batch, block_size=block_size, share=memory_share, tp=tp)
    if as_json:
        given = {"model": model, "gpu": gpu, "tp": tp, "dtype": dtype, "context": context, "batch": batch}
        return print_json({**given, "source": listed.source, **{each.key: each.value for each in lines}})
    cards = listed.name if tp == 1 else f"{tp} × {listed.name}, figures of each card"
    rows = [(each.what, shown(each.value), each.unit) for each in lines]
    print_table(f"{model}, {dtype}, on {cards}", ["figure", "value", ""], rows, ["value"])
    note(f"from the card's data sheet, {listed.source}; a real step takes longer, and minfer/plan/formulas.py says what is left out")


def shown(value: float | None) -> str:
    """Whole numbers whole, others with three digits; none as a word."""
    if value is None:
        return "never"
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:.3g}"
