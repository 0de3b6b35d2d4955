# %% [markdown]
# # Continuous batching: who computes in which step
#
# Two stages of minfer get the same requests: `paged`, whose batch is formed once and runs until its last sequence has ended, and
# `continuous`, where a finished sequence's place is taken in the next step. The model is tiny and random. We count steps, so the result
# is the same on every machine.

# %%
import random
import warnings

import matplotlib.pyplot as plt

warnings.filterwarnings("ignore", message="IProgress")  # of progress bars, which are not used here

from minfer import LLM
from minfer.course.drawing import BLUE, ORANGE, STYLE
from minfer.course.plots import schedule
from minfer.course.recording import play

plt.rcParams.update(STYLE)
ROWS = 4  # sequences that may run at once
STAGES = {"paged": BLUE, "continuous": ORANGE}


def run(stage: str, arrivals: list) -> list:
    """The steps of a run. Each arrival is (step, prompt, output tokens)."""
    with LLM("dummy:tiny", stage=stage, max_model_len=256, max_num_seqs=ROWS, num_kv_blocks=128) as llm:
        return play(llm, arrivals)


# %% [markdown]
# ## Eight requests, four places
#
# All arrive at once. Every prompt has 8 tokens; the outputs are of different length. Before you run the cell: the first four outputs
# have 4, 16, 6 and 10 tokens. In which step can the fifth request begin, in each of the two stages?

# %%
outputs = [4, 16, 6, 10, 12, 3, 14, 5]
requests = [(0, [3 + i] * 8, output) for i, output in enumerate(outputs)]
runs = {stage: run(stage, requests) for stage in STAGES}

figure, axes = plt.subplots(2, 1, figsize=(10, 5.5), layout="constrained", sharex=True)
for axis, (stage, steps) in zip(axes, runs.items(), strict=True):
    schedule(axis, steps)
    axis.set_title(f"{stage}: {len(steps)} steps", loc="left", fontsize=9)
axes[0].set(xlim=(-0.5, len(runs["paged"]) - 0.5), xlabel="")
for stage, steps in runs.items():
    print(f"{stage:10} request 4 begins in step {next(step.number for step in steps if 4 in step.running)}")

# %% [markdown]
# Blue bars are prompts, with the number of their tokens; orange ones are single new tokens; dotted ones wait. In the upper plot
# requests 4 to 7 wait until request 1, the longest of the first four, has ended. In the lower one nobody waits while a place is free.
#
# ## Empty places
#
# A step of the device costs nearly the same with one sequence or with four, as long as reading the weights takes most of the time. So
# the number that counts is how many places of each step are in use.

# %%
figure, axis = plt.subplots(figsize=(10, 2.5), layout="constrained")
axis.set(xlabel="step", ylabel="sequences in the step", ylim=(0, ROWS + 0.5))
for (stage, steps), colour in zip(runs.items(), STAGES.values(), strict=True):
    used = sum(len(step.work) for step in steps) / (ROWS * len(steps))
    axis.step(range(len(steps) + 1), [*(len(step.work) for step in steps), 0], where="post", color=colour, label=stage)
    axis.legend(frameon=False)
    print(f"{stage:10} {len(steps)} steps, {used:.0%} of the places in use")

# %% [markdown]
# The end of the run is ragged in both: no request is left to take the last places. With a steady stream of requests there is no end.
#
# ## A stream of requests
#
# Thirty requests arrive by and by, one about every five steps. Their outputs have from 2 to 30 tokens, 16 on average: four places could
# serve one every four steps. How long does each wait for its first token, counted in steps?

# %%
random.seed(4)
stream, step = [], 0
for _ in range(30):
    stream.append((step, [random.randrange(3, 300) for _ in range(8)], random.randint(2, 30)))
    step += random.choice((4, 5, 6))
stream[0] = (0, [3] * 8, 30)  # the first is long, so that the engine is never idle


def waits(steps: list) -> list[int]:
    """Steps from each request's arrival to its first token, in order of arrival."""
    first = {}
    for number, step in enumerate(steps):
        for seq_id in step.sampled:
            first.setdefault(seq_id, number)
    return [first[seq_id] - due for seq_id, (due, _, _) in enumerate(stream)]


streams = {stage: run(stage, stream) for stage in STAGES}
figure, axis = plt.subplots(figsize=(10, 2.5), layout="constrained")
axis.set(xlabel="request", ylabel="steps to the first token")
for (stage, steps), colour, shift in zip(streams.items(), STAGES.values(), (-0.2, 0.2), strict=True):
    waited = waits(steps)
    axis.bar([i + shift for i in range(len(waited))], waited, width=0.4, color=colour, label=stage)
    axis.legend(frameon=False)
    print(f"{stage:10} {len(steps)} steps; the first token comes after {sum(waited) / len(waited):.1f} steps on average")

# %% [markdown]
# Static batching makes people wait for strangers: how long a request takes depends on the longest one in the batch before. Here it also
# falls behind. Requests come faster than half-empty batches can serve them, so each batch waits for longer than the one before it.
#
# ## When does it matter?
#
# If all outputs have the same length, the two must be equal. The more they differ, the more there is to win. We draw outputs around 16
# tokens, with more and more spread, and compare the steps.

# %%
spreads, ratios = [0, 2, 4, 8, 12, 15], []
for spread in spreads:
    random.seed(spread)
    drawn = [(0, [5] * 8, random.randint(16 - spread, 16 + spread)) for _ in range(24)]
    static, continuous = (len(run(stage, drawn)) for stage in STAGES)
    ratios.append(static / continuous)

figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
axis.plot(spreads, ratios, "o-", color=ORANGE)
axis.axhline(1, color="#7b7b7b", linestyle="--", linewidth=1)
_ = axis.set(xlabel="outputs have 16 ± this many tokens", ylabel="steps: static / continuous")

# %% [markdown]
# ## Now you
#
# 1. Set `ROWS` to 1. What must both plots of the eight requests look like then, and why?
# 2. Give the stream requests of equal length. Why does `continuous` still wait less, though the last plot says that both need the same
#    number of steps?
# 3. Give request 4 of the eight a prompt of 200 tokens. Look at the step that computes it: others are in that step as well. What does
#    this mean for the time that they wait for it? The next chapter begins there.
