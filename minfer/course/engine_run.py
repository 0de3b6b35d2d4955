"""The whole engine of a chapter's stage with the student's parts in it, beside the same engine with minfer's own: tokens, then speed.

From: the parts that `checking.py` has loaded. To: an Outcome, and a line on speed. A tiny model with random weights, always the same.

Without a GPU, other parts of the stage that need one are replaced by the last part of the ladder that does not; the student's own
kernels run in Triton's interpreter.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterable, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from minfer.config import make_config
from minfer.course.chapter import ENGINE, Chapter
from minfer.course.jobs import FAILED, PASSED, UNWRITTEN, Outcome
from minfer.engine import Engine
from minfer.params import SamplingParams
from minfer.resolve import missing, resolve
from minfer.stages import INPUTS, TO_MANY_DEVICES, Stage, find_stage
from minfer.testing.limits import time_limit
from minfer.testing.properties import Differs, OutOfTime
from minfer.testing.report import what_went_wrong
from minfer.testing.stubs import unwritten
from minfer.testing.target import Target

MODULE = "minfer_course_parts"  # where the engine finds the parts that are loaded already
MODEL = Path("dummy:tiny")
VOCAB = 320
SECONDS = 45.0  # for the student's engine
MANY_SECONDS = 100.0  # where it has to start processes
DEVICES = 2  # for an executor on many
MAX_STEPS = 2000
NEAR = 0.05  # log-probability: on a GPU, two tokens closer than this may be taken for each other by rounding
ROUNDS, SPEED_REQUESTS, SPEED_TOKENS = 3, 8, 24


class Ask(NamedTuple):
    """A request: prompt and parameters."""

    prompt: list[int]
    params: SamplingParams


def stage_here(chapter: Chapter, own: Iterable[str] = ()) -> Stage:
    """The chapter's stage as far as this machine can run it; `own` are slots that the student fills, which stay as they are."""
    stage = chapter.built
    earlier = [each.parts() for each in reversed(TO_MANY_DEVICES[: TO_MANY_DEVICES.index(find_stage(chapter.stage))])]
    for slot, part in stage.parts().items():
        if slot not in own and missing(part):
            stage = stage.with_parts(**{slot: next(parts[slot] for parts in earlier if not missing(parts[slot]))})
    return stage


def many_devices(part: object) -> bool:
    """Whether it is an executor that starts ranks."""
    return getattr(part, "parallel", False)


def reference_here(chapter: Chapter) -> Stage:
    """minfer's own parts; on one device where the stage takes many, since the tokens must be the same."""
    stage = stage_here(chapter)
    return stage.with_parts(executor=INPUTS.executor) if many_devices(resolve("executor", stage.executor)) else stage


def with_parts(stage: Stage, targets: Mapping[str, Target]) -> Stage:
    """The stage with parts that are loaded already, whatever their files say that they need.

    An executor on many devices goes by its file, from which each rank loads it again.
    """
    module = ModuleType(MODULE)
    module.__spec__ = ModuleSpec(MODULE, None, origin=MODULE)
    for slot, target in targets.items():
        setattr(module, slot, target.part)
    sys.modules[MODULE] = module
    return stage.with_parts(
        **{slot: target.name if many_devices(target.part) else f"{MODULE}:{slot}" for slot, target in targets.items()}
    )


def open_engine(stage: Stage, device: str, small: bool) -> Engine:
    """Little room, so that sequences wait, are cut into chunks and give way."""
    contiguous = stage.blocks.endswith(":ContiguousBlocks")
    room = {} if contiguous else {"num_kv_blocks": 12 if small else 20}
    sizes = {"max_model_len": 32 if small else 64, "max_num_seqs": 4, "max_num_batched_tokens": 16, "block_size": 4}
    devices = DEVICES if many_devices(resolve("executor", stage.executor)) else 1
    return Engine(make_config(MODEL, dtype="float32", device=device, seed=0, tensor_parallel_size=devices, **sizes, **room), stage)


def requests(small: bool) -> list[Ask]:
    """Prompts of uneven length, some with a common beginning, mostly greedy; fewer and shorter where kernels are interpreted."""
    draw = random.Random(4)
    common = [draw.randrange(3, VOCAB) for _ in range(9)]
    lengths = [5, 10] if small else [3, 17, 1, 9, 30, 4, 13, 8]
    asks = []
    for i, length in enumerate(lengths):
        own = [draw.randrange(3, VOCAB) for _ in range(length)]
        prompt = [*common, *own][:length] if length > 8 else own
        chosen = {"temperature": 0.8, "seed": i} if i % 4 == 2 else {"temperature": 0}
        asks.append(Ask(prompt, SamplingParams(max_tokens=3 if small else 5 + i, ignore_eos=True, **chosen)))
    return asks


def run(engine: Engine, asks: list[Ask]) -> list[list[int]]:
    """The tokens of each request."""
    for i, ask in enumerate(asks):
        engine.add_request(str(i), ask.prompt, ask.params, stream=False)
    done: dict[str, list[int]] = {}
    for _ in range(MAX_STEPS):
        if not engine.has_unfinished():
            break
        done |= {output.request_id: list(output.outputs[0].token_ids) for output in engine.step()}
    if engine.has_unfinished():
        raise Differs(f"an end within {MAX_STEPS} steps", f"{len(done)} of {len(asks)} requests ended")
    return [done[str(i)] for i in range(len(asks))]


def compare(chapter: Chapter, targets: Mapping[str, Target], interpreted: bool) -> Outcome:
    """Whether the student's engine gives the tokens that minfer's own gives."""
    target = next(iter(targets.values()))
    device = "cuda" if any(each.place.device == "cuda" for each in targets.values()) else "cpu"
    reference, mine = reference_here(chapter), with_parts(stage_here(chapter, targets), targets)
    many = any(many_devices(each.part) for each in targets.values())
    asks = requests(interpreted)
    try:
        wanted = tokens_of(reference, device, interpreted, asks)
        with time_limit(MANY_SECONDS if many else SECONDS * (2 if interpreted else 1), target.defined_in):
            came = tokens_of(mine, device, interpreted, asks)
        ties = sum(check_tokens(i, asks[i], wanted[i], came[i], reference, device) for i in range(len(asks)))
    except (Exception, SystemExit) as error:
        if (stub := unwritten(error)) is not None:
            return Outcome(ENGINE, UNWRITTEN, lines=[f"not written  {ENGINE:20} {stub}"], stub=stub)
        told = what_went_wrong(error, target)
        late = ["the properties above may tell why"] if isinstance(error, OutOfTime) else []
        return Outcome(
            ENGINE,
            FAILED,
            lines=[f"FAILED       {ENGINE:20} stage {chapter.stage} with your part in it", *told, *late],
            message="; ".join(told),
        )
    where = "your kernels in Triton's interpreter" if interpreted else f"on {'the GPU' if device == 'cuda' else 'a CPU'}"
    but = f" ({ties} near ties decided otherwise)" if ties else ""
    own = "minfer's own on one device" if many else "minfer's own"
    text = f"passed       {ENGINE:20} {len(asks)} requests, {sum(map(len, came))} tokens, the same as with {own}{but}; {where}"
    return Outcome(ENGINE, PASSED, len(asks), [text, *replaced(chapter, mine, targets)])


def tokens_of(stage: Stage, device: str, small: bool, asks: list[Ask]) -> list[list[int]]:
    engine = open_engine(stage, device, small)
    try:
        return run(engine, asks)
    finally:
        engine.close()


def check_tokens(i: int, ask: Ask, wanted: list[int], came: list[int], reference: Stage, device: str) -> bool:
    """Raise Differs unless the two are equal; on a GPU, a near tie of greedy tokens is let pass → whether there was one."""
    if came == wanted:
        return False
    at = next((k for k, (a, b) in enumerate(zip(wanted, came, strict=False)) if a != b), min(len(wanted), len(came)))
    greedy = ask.params.temperature == 0
    if device == "cuda" and greedy and at < min(len(wanted), len(came)):
        engine = open_engine(reference, device, False)
        if distance(engine, [*ask.prompt, *wanted[:at]], wanted[at], came[at]) < NEAR:
            return True
    raise Differs(
        f"request {i} (a prompt of {len(ask.prompt)} tokens, {'greedy' if greedy else 'sampled with a seed'}) to get {wanted}, as with "
        "minfer's own part",
        f"{came}, wrong from output token {at} on",
    )


def distance(engine: Engine, prompt: list[int], first: int, second: int) -> float:
    """How much likelier the first token is than the second one after a prompt, in log-probability. Closes the engine."""
    engine.add_request("tie", prompt, SamplingParams(max_tokens=1, temperature=0, logprobs=5), stream=False)
    outputs = next(outputs for _ in range(MAX_STEPS) if (outputs := engine.step()))
    engine.close()
    likeliest = outputs[0].outputs[0].logprobs[0]
    return likeliest[first].logprob - likeliest[second].logprob if {first, second} <= set(likeliest) else float("inf")


def replaced(chapter: Chapter, stage: Stage, own: Iterable[str]) -> list[str]:
    """Which parts of the stage, but the student's own, had to give way to others here."""
    slots = [slot for slot in stage.differs(chapter.built) if slot not in own]
    return [f"without a GPU, {' and '.join(slots)} {'is' if len(slots) == 1 else 'are'} the PyTorch part here"] if slots else []


def speed(chapter: Chapter, targets: Mapping[str, Target]) -> str:
    """One line: tokens a second with the student's parts and with minfer's own, measured in turn, the best of a few rounds each."""
    draw = random.Random(5)
    prompts = [[draw.randrange(3, VOCAB) for _ in range(draw.randint(2, 20))] for _ in range(SPEED_REQUESTS)]
    asks = [Ask(prompt, SamplingParams(temperature=0, max_tokens=SPEED_TOKENS, ignore_eos=True)) for prompt in prompts]
    device = "cuda" if any(each.place.device == "cuda" for each in targets.values()) else "cpu"
    reference, mine = reference_here(chapter), with_parts(stage_here(chapter, targets), targets)
    engines = [open_engine(stage, device, False) for stage in (mine, reference)]
    best = [0.0, 0.0]
    for _ in range(ROUNDS):
        for i, engine in enumerate(engines):
            begin = time.perf_counter()
            run(engine, asks)
            best[i] = max(best[i], SPEED_REQUESTS * SPEED_TOKENS / (time.perf_counter() - begin))
    for engine in engines:
        engine.close()
    ratio = best[0] / best[1]
    own = "minfer's own on one device" if any(many_devices(each.part) for each in targets.values()) else "minfer's own"
    return f"{best[0]:.0f} tokens/s with yours, {best[1]:.0f} with {own} ({ratio:.2f} of it), a tiny model on {device}"
