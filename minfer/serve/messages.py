"""What the event loop and the engine say to each other. All of it can be pickled: a pipe lies between them.

From: `front.py` sends commands. To: `worker.py` answers with one Report a step, and with a State when asked for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from minfer.outputs import Logprob, RequestMetrics, RequestOutput
from minfer.params import SamplingParams
from minfer.text.processor import Delta

# Commands


class Submit(NamedTuple):
    """Queue a request under a number that no other one has."""

    key: int
    prompt_ids: list[int]
    params: SamplingParams
    stream: bool  # whether Updates come at every step, or once at the end
    priority: int = 0
    user: str = ""


class Abort(NamedTuple):
    """End a request. Nobody waits for its last output. Unknown and finished ones: nothing happens."""

    key: int


class Look(NamedTuple):
    """Say what the engine is doing now."""


class Stop(NamedTuple):
    """End every request, and the worker."""


Command = Submit | Abort | Look | Stop

# Answers


class Update(NamedTuple):
    """What is new of one request."""

    key: int
    deltas: list[Delta]  # of a request that streams
    output: RequestOutput | None = None  # the whole, at the end of one that does not
    metrics: RequestMetrics | None = None  # at the end
    prompt_logprobs: list[dict[int, Logprob] | None] | None = None  # with the first deltas, where asked for
    error: tuple[int, str] | None = None  # (HTTP status, message): it has ended so


class Load(NamedTuple):
    """How busy the engine is."""

    num_running: int = 0
    num_waiting: int = 0  # held ones included
    num_used_blocks: int = 0
    num_blocks: int = 1
    num_preemptions: int = 0


class Report(NamedTuple):
    """After a step."""

    updates: list[Update]
    load: Load


class State(NamedTuple):
    """The answer to Look: JSON for the page."""

    content: dict[str, Any]


@dataclass(frozen=True)
class EngineInfo:
    """What the event loop's side must know of the engine. The first thing that a worker sends."""

    path: Path  # of the model: its tokenizer is there
    name: str  # of the model, as it was asked for
    stage: str
    why_stage: str
    vocab_size: int
    max_len: int  # tokens of prompt and output together, at most
    max_num_seqs: int
