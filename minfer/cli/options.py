"""The options that commands share, as dataclasses, and the decorator that lets a command take them whole.

From: the command line. To: `LLM(...)` and `SamplingParams`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from minfer.cli.console import note
from minfer.hub import DEFAULT_MODEL

if TYPE_CHECKING:
    from minfer.llm import LLM
    from minfer.params import SamplingParams


SHAPE_HELP = "Random weights of a named shape in place of a model: tiny, smollm2-135m, qwen3-0.6b, tinyllama-1.1b, llama-8b."
Shape = Annotated[str | None, typer.Option(help=SHAPE_HELP)]


def engine(*names: str, help: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Engine")


def sampling(*names: str, help: str) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Sampling")


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """What every engine is built with. None leaves the choice to `minfer.config`."""

    model: Annotated[str, engine(help="A short name, a hub id, a folder, a .gguf file, or dummy:SHAPE.")] = DEFAULT_MODEL
    revision: Annotated[str | None, engine(help="Branch, tag or commit of a hub's model.")] = None
    swap: Annotated[list[str], engine(help="slot=module:Name or slot=file.py:Name; repeatable.")] = field(default_factory=list)
    dtype: Annotated[str, engine(help="float32, float16, bfloat16; auto: float32 on a CPU, bfloat16 on a GPU.")] = "auto"
    device: Annotated[str, engine(help="cpu, cuda; auto: a GPU where there is one.")] = "auto"
    max_model_len: Annotated[int | None, engine(help="Tokens of prompt and output together, at most.")] = None
    max_num_seqs: Annotated[int | None, engine(help="Sequences that run at once, at most.")] = None
    max_num_batched_tokens: Annotated[int | None, engine(help="Tokens computed in one step, at most.")] = None
    num_kv_blocks: Annotated[int | None, engine(help="Blocks of the K/V cache; otherwise --memory-share decides.")] = None
    memory_share: Annotated[float | None, engine(help="Share of the device's memory to use, 0 to 1.")] = None
    block_size: Annotated[int | None, engine(help="Tokens in a block of the K/V cache.")] = None
    num_host_blocks: Annotated[int | None, engine(help="Blocks in host memory, for the part preemption.swap.")] = None
    engine_seed: Annotated[int | None, engine(help="Seed of requests that bring none.")] = None
    tp: Annotated[int | None, engine(help="Devices that hold the model together; not for the stage hf, which stays on one.")] = None
    executor: Annotated[str | None, engine(help="How --tp's ranks run: processes on this machine, or ray.")] = None
    ray_address: Annotated[str | None, engine(help="Ray cluster to join, HOST:PORT or auto; otherwise one is made here.")] = None

    def swaps(self) -> dict[str, str]:
        """Slot → part. What is not written slot=part is a mistake in the command line."""
        parts: dict[str, str] = {}
        for text in self.swap:
            slot, equals, part = text.partition("=")
            if not equals or not slot or not part:
                raise typer.BadParameter(f"{text!r} is not slot=module:Name or slot=file.py:Name", param_hint="--swap")
            if slot in parts:
                raise typer.BadParameter(f"the slot {slot!r} is given twice", param_hint="--swap")
            parts[slot] = part
        return parts

    def for_config(self) -> dict[str, Any]:
        """The options of `LLM` and `minfer.config` that were chosen, by their names."""
        others = {"model", "revision", "swap", "stage"}
        chosen = {name: getattr(self, name) for name in names(self) if name not in others}
        chosen["seed"], chosen["tensor_parallel_size"] = chosen.pop("engine_seed"), chosen.pop("tp")
        return {name: value for name, value in chosen.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class LLMOptions(EngineOptions):
    """An engine of one stage."""

    stage: Annotated[str | None, engine(help="A stage of `minfer stages`; otherwise the fastest that runs here.")] = None

    def open(self) -> LLM:
        """Build the engine, and say on stderr which stage was taken and why."""
        from minfer.llm import LLM

        swaps = self.swaps()
        llm = LLM(self.model, stage=self.stage, swap=swaps, revision=self.revision, **self.for_config())
        parts = "".join(f", {slot}={part}" for slot, part in swaps.items())
        ranks = f", on {self.tp} ranks" if (self.tp or 1) > 1 else ""
        note(f"stage {llm.stage.name}{parts}{ranks}: {llm.why_stage}")
        return llm


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """How tokens are chosen. The names and meanings are those of SamplingParams."""

    max_tokens: Annotated[int | None, sampling(help="Output tokens, at most.")] = 64
    min_tokens: Annotated[int, sampling(help="Output tokens before the end is allowed.")] = 0
    temperature: Annotated[float, sampling(help="0 takes the likeliest token each time.")] = 0.0
    top_k: Annotated[int, sampling(help="Only the k likeliest tokens; 0: all.")] = 0
    top_p: Annotated[float, sampling(help="Only the likeliest tokens that together have this probability.")] = 1.0
    min_p: Annotated[float, sampling(help="Only tokens at least this share as likely as the likeliest.")] = 0.0
    repetition_penalty: Annotated[float, sampling(help="Above 1: fewer tokens of prompt and output again.")] = 1.0
    presence_penalty: Annotated[float, sampling(help="Above 0: fewer tokens of the output again.")] = 0.0
    frequency_penalty: Annotated[float, sampling(help="The same, for each time that a token occurred.")] = 0.0
    seed: Annotated[int | None, sampling(help="The same seed gives the same text.")] = None
    stop: Annotated[list[str], sampling(help="A text that ends the output; repeatable.")] = field(default_factory=list)
    stop_token_id: Annotated[list[int], sampling(help="A token that ends it; repeatable.")] = field(default_factory=list)
    include_stop: Annotated[bool, sampling("--include-stop", help="Keep the stop text.")] = False
    ignore_eos: Annotated[bool, sampling("--ignore-eos", help="Go on after the end-of-sequence token.")] = False
    keep_special_tokens: Annotated[bool, sampling("--keep-special-tokens", help="Show special tokens in the text.")] = False
    logit_bias: Annotated[list[str], sampling(help="ID=NUMBER added to a token's logit; repeatable.")] = field(default_factory=list)

    def params(self, **others: Any) -> SamplingParams:
        """As the engine takes it; `others` are the parameters that only some commands offer."""
        from minfer.params import SamplingParams

        values = {name: getattr(self, name) for name in names(self)}
        values["stop_token_ids"] = values.pop("stop_token_id")
        values["include_stop_str_in_output"] = values.pop("include_stop")
        values["skip_special_tokens"] = not values.pop("keep_special_tokens")
        values["logit_bias"] = dict(_bias(text) for text in self.logit_bias)
        return SamplingParams(**values, **others)


def _bias(text: str) -> tuple[int, float]:
    token, _, amount = text.partition("=")
    try:
        return int(token), float(amount)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not ID=NUMBER", param_hint="--logit-bias") from None


def with_options(**groups: Any) -> Callable[[Callable], Callable]:
    """Let a command take dataclasses of options as its parameters: Typer is shown their fields instead.

    `groups` are the command's parameters of that kind, each with an instance that holds the fields' defaults.
    """

    def decorate(command: Callable) -> Callable:
        signature = inspect.signature(command, eval_str=True)
        shown = [parameter for name, parameter in signature.parameters.items() if name not in groups]
        for defaults in groups.values():
            hints = typing.get_type_hints(type(defaults), include_extras=True)
            shown += [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=getattr(defaults, name), annotation=hints[name])
                for name in names(defaults)
            ]

        @functools.wraps(command)
        def flat(**values: Any) -> Any:
            made = {group: type(each)(**{name: values.pop(name) for name in names(each)}) for group, each in groups.items()}
            return command(**values, **made)

        flat.__signature__ = signature.replace(parameters=shown)
        flat.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
        return flat

    return decorate


def with_shape(options: Any, shape: str | None) -> Any:
    """Engine options for a shape with random weights; None leaves the model as it is."""
    if shape is None:
        return options
    if options.model != DEFAULT_MODEL:
        raise typer.BadParameter(f"--model {options.model} names the model already", param_hint="--shape")
    return dataclasses.replace(options, model=f"dummy:{shape}")


def names(options: Any) -> list[str]:
    """The fields of a dataclass."""
    return [each.name for each in dataclasses.fields(options)]
