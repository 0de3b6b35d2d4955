# %% [markdown]
# # Two lanes: what the overlapped loop hides
#
# The host plans and commits, the device computes. This notebook runs both loops of minfer around a pretended device, draws what
# happened as two lanes, and counts what running ahead costs. The scheduler and its sequences are real. The device is a clock: a
# step is ready so many milliseconds after it could begin. No GPU, and no model.

# %%
import json
import time
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt

from minfer.blocks.paged import PagedBlocks
from minfer.course.drawing import BLUE, GREEN, INK, ORANGE, PINK, STYLE
from minfer.loop.overlapped import loop as overlapped
from minfer.loop.plain import loop as plain
from minfer.params import SamplingParams
from minfer.policy.fcfs import policy
from minfer.preemption.recompute import Recompute
from minfer.scheduler.chunked import ChunkedScheduler
from minfer.testing.toy import ToyExecutor, toy_config
from minfer.types import Request, Sampled, Sampling, Sequence

plt.rcParams.update(STYLE)
LOOPS = {"plain": plain, "overlapped": overlapped}

# %% [markdown]
# ## A device that is a clock
#
# `launch` returns at once, as a GPU does, and notes when the step will begin and end. `wait` sleeps until then. Both write down
# when they were called, so that we can draw it afterwards.


# %%
class Clock:
    """An executor without a model: every token is a 1, and a step takes `device_ms`."""

    def __init__(self, device_ms: float):
        self.seconds, self.free_at = device_ms / 1e3, 0.0
        self.device, self.waits = [], []  # (begin, end) of each step, and of each wait

    def launch(self, plan):
        begin = max(self.free_at, time.perf_counter())
        self.free_at = begin + self.seconds
        self.device.append((begin, self.free_at))
        return Ready(self, self.free_at, sum(work.samples for work in plan.work))


class Ready:
    def __init__(self, clock: Clock, at: float, count: int):
        self.clock, self.at, self.count = clock, at, count

    def wait(self) -> Sampled:
        begin = time.perf_counter()
        while (left := self.at - time.perf_counter()) > 0:
            time.sleep(left if left < 2e-4 else left - 1e-4)
        self.clock.waits.append((begin, time.perf_counter()))
        return Sampled([1] * self.count)


def scheduler(rows: int, outputs: int, stop_ids: tuple[int, ...] = ()) -> ChunkedScheduler:
    """So many sequences with prompts of 4 tokens."""
    config = toy_config(max_num_seqs=rows, max_num_batched_tokens=rows * 4, max_model_len=128, block_size=16)
    made = ChunkedScheduler(config, PagedBlocks(2 + rows * 8, 16), policy, Recompute(0))
    params = SamplingParams(temperature=0, max_tokens=outputs, ignore_eos=True)
    for i in range(rows):
        request = Request(str(i), (i,) * 4, params, stop_ids)
        made.add(Sequence(i, request, 0, Sampling(params, i, stop_ids, 4), [i] * 4, 4, 4 + outputs))
    return made


# %% [markdown]
# ## The lanes
#
# 256 sequences, and a device of four milliseconds. Blue: the host works. Outline: the host waits. Orange and green, in turn: the
# device's steps. Before you run the cell: in which of the two pictures will the lower lane have gaps?

# %%
runs = {}
for name, loop in LOOPS.items():
    clock = Clock(4.0)
    for _ in loop(scheduler(256, 24), clock):
        pass
    runs[name] = clock

figure, axes = plt.subplots(2, 1, figsize=(10, 3.6), layout="constrained")
for axis, (name, clock) in zip(axes, runs.items(), strict=True):
    first = clock.device[8][0]
    for number, (begin, end) in enumerate(clock.device):
        axis.barh(1, 1e3 * (end - begin), left=1e3 * (begin - first), height=0.7, color=(ORANGE, GREEN)[number % 2])
    for (_, done), (begin, end) in pairwise(clock.waits):
        axis.barh(0, 1e3 * (begin - done), left=1e3 * (done - first), height=0.7, color=BLUE)
        axis.barh(0, 1e3 * (end - begin), left=1e3 * (begin - first), height=0.7, color="none", edgecolor=INK, linewidth=0.6)
    axis.set(yticks=(0, 1), yticklabels=("host", "device"), xlim=(0, 30), ylim=(1.6, -0.6))
    axis.set_title(name, loc="left", fontsize=9)
axes[1].set_xlabel("ms")
for name, clock in runs.items():
    steady = clock.device[4:-4]
    busy = sum(end - begin for begin, end in steady) / (steady[-1][1] - steady[0][0])
    print(f"{name:11} the device is busy for {busy:.0%} of the time")

# %% [markdown]
# ## Prediction and measurement
#
# The plain loop takes D + H, the overlapped one max(D, H). The dots are the chapter's own measurement, from `measured.json`; H is
# what the plain loop took around a device of no time at all.

# %%
measured = json.loads(Path("measured.json").read_text())
D = [step["device_ms"] for step in measured["steps"]]
H = measured["host_ms"]
figure, axis = plt.subplots(figsize=(7, 3.2), layout="constrained")
axis.plot(D, [d + H for d in D], color=BLUE, linewidth=1, label="D + H")
axis.plot(D, [max(d, H) for d in D], color=ORANGE, linewidth=1, label="max(D, H)")
for name, colour in (("plain", BLUE), ("overlapped", ORANGE)):
    axis.plot(D, [step[name] for step in measured["steps"]], "o", color=colour, label=f"{name}, measured")
axis.set(xlabel="device, ms a step", ylabel="a step, ms")
axis.legend(frameon=False)
print(f"H = {H:.2f} ms, {measured['hardware']['cpu']}, commit {measured['commit'][:8]}")

# %% [markdown]
# ## What running ahead costs
#
# When a step is planned, nobody knows whether a sequence has just sampled its end. minfer's toy executor samples by a hash, so that
# ends come at random. We count the rows that each loop computes. A wasted row is one whose token is thrown away.

# %%
rows_of = {}
for name, loop in LOOPS.items():
    made = scheduler(16, 60, stop_ids=tuple(range(0, 97, 12)))
    executor = ToyExecutor(made.config, made.blocks.num_total + 1, 0, 16)
    got = sum(len(moved) for moved in loop(made, executor))
    rows_of[name] = sum(len(plan.work) for plan in executor.steps), got
for name, (computed, got) in rows_of.items():
    print(f"{name:11} {computed} rows computed, {got} tokens kept, {computed - got} thrown away")

# %% [markdown]
# At most one row for each of the 16 sequences. One that ends by its length costs nothing: lengths can be counted in advance.
#
# ## Pending tokens
#
# Here is the book of one sequence in the overlapped loop, at the moment of each plan. `known` tokens have a value on the host.
# `pending` ones exist on the device only. The scheduler plans by their sum.

# %%
made = scheduler(1, 6)
executor = ToyExecutor(made.config, made.blocks.num_total + 1, 0, 16)
(sequence,) = made.live.values()
book, schedule = [], made.schedule


def watched():
    plan = schedule()
    book.append((sequence.num_tokens, sequence.num_pending, plan is not None))
    return plan


made.schedule = watched
for _ in overlapped(made, executor):
    pass
figure, axis = plt.subplots(figsize=(7, 2.6), layout="constrained")
turns = range(len(book))
axis.bar(turns, [known for known, _, _ in book], color=BLUE, label="known")
axis.bar(turns, [pending for _, pending, _ in book], bottom=[known for known, _, _ in book], color=PINK, label="pending")
axis.set(xlabel="turn of the loop", ylabel="tokens", xticks=turns)
axis.legend(frameon=False, loc="lower right")
print("turns without a plan:", [turn for turn, (_, _, planned) in enumerate(book) if not planned])

# %% [markdown]
# In the last turn there is no plan: known and pending tokens together have reached the limit. The step in flight still has to be
# committed, and that is why the loop goes on while there is work *or* a step in flight.
