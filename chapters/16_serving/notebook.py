# %% [markdown]
# # A queue, and who goes first
#
# Requests come when they like, and a device serves them. This notebook shows where the time to the first token comes from when the
# device is nearly full, what chunks of prompts do for those who read along, and what another order changes. The scheduler and the
# policies are minfer's own. The device is pretended: a step takes 4 ms, or 0.02 ms for each of its tokens if that is longer.

# %%
from collections.abc import Callable
from itertools import pairwise
from statistics import fmean

import matplotlib.pyplot as plt

from minfer.bench.simulated import Device, Job, arrivals, simulate
from minfer.course.drawing import BLUE, GREEN, ORANGE, PINK, STYLE
from minfer.policy import fcfs, shortest_job
from minfer.scheduler.chunked import ChunkedScheduler
from minfer.scheduler.continuous import ContinuousScheduler

plt.rcParams.update(STYLE)
REQUESTS = 400

# %% [markdown]
# ## One request, by hand
#
# 300 prompt tokens and 5 of output, alone. The prompt takes 300 × 0.02 ms, each later token one reading of the weights.

# %%
(alone,) = simulate([Job(due=0.0, prompt=300, output=5)], device=Device())
print("tokens after", [round(t, 2) for t in alone.tokens], "ms")

# %% [markdown]
# ## The knee
#
# The same 400 requests, closer and closer together. Before you run the cell: at which rate does the line leave the floor? The mean
# request has 462 tokens to compute.

# %%
RATES = [20, 40, 60, 70, 80, 90, 100, 110]
runs = {rate: simulate(arrivals(REQUESTS, rate)) for rate in RATES}
waits = [fmean(times.ttft for times in runs[rate]) for rate in RATES]
figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
axis.plot(RATES, waits, "o-", color=BLUE)
axis.axvline(1e3 / 0.02 / 462, color=ORANGE, linestyle=":")
axis.set(xlabel="requests a second", ylabel="mean time to first token, ms", ylim=(0, None))
for rate, wait in zip(RATES, waits, strict=True):
    print(f"{rate:4} a second: {wait:5.0f} ms")

# %% [markdown]
# ## Little's law
#
# Requests inside = arrivals a second × mean time inside, whatever the order and whatever the device. We count the requests inside at
# every moment of one run, and compare.


# %%
def inside(times) -> list[tuple[float, int]]:
    """(moment, requests inside from then on), in ms."""
    moves = sorted([(each.job.due, 1) for each in times] + [(each.tokens[-1], -1) for each in times])
    count, steps = 0, []
    for moment, move in moves:
        count += move
        steps.append((moment, count))
    return steps


times = runs[90]
steps = inside(times)
length = steps[-1][0]
mean_inside = sum(count * (after - moment) for (moment, count), (after, _) in pairwise(steps)) / length
mean_time = fmean(each.tokens[-1] - each.job.due for each in times)
print(f"counted: {mean_inside:.1f} inside; by the law: {REQUESTS / length * mean_time:.1f}")
figure, axis = plt.subplots(figsize=(9, 2.6), layout="constrained")
axis.step([moment / 1e3 for moment, _ in steps], [count for _, count in steps], where="post", color=BLUE, linewidth=0.8)
axis.axhline(64, color=ORANGE, linestyle=":")
axis.set(xlabel="seconds", ylabel="requests inside", ylim=(0, None))
axis.text(0, 66, "64 rows", color=ORANGE, fontsize=8)
# %% [markdown]
# Below the dotted line nobody waits for a row. Whatever is above it is the queue.
#
# ## Those who read along
#
# A reader notices the longest pause, not the mean. Here are all pauses between two tokens at 70 requests a second, longest first: with
# whole prompts, and with chunks.

# %%
kinds = {
    "whole prompts": (ContinuousScheduler, 4096, ORANGE),
    "budget 512": (ChunkedScheduler, 512, BLUE),
    "budget 256": (ChunkedScheduler, 256, GREEN),
}
figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
for name, (scheduler, budget, colour) in kinds.items():
    made = simulate(arrivals(REQUESTS, 70), scheduler=scheduler, budget=budget)
    gaps = sorted((gap for each in made for gap in each.gaps), reverse=True)
    axis.plot([100 * i / len(gaps) for i in range(len(gaps))], gaps, color=colour, label=name)
    print(f"{name:14} longest pause {gaps[0]:5.1f} ms; mean time to first token {fmean(each.ttft for each in made):4.0f} ms")
axis.set(xscale="symlog", xlim=(0, 100), xlabel="percent of all pauses that are longer", ylabel="ms")
axis.legend(frameon=False)

# %% [markdown]
# ## Who goes first
#
# At 100 requests a second the queue is long, and its order matters. Each dot is a request: when it came, and how long it waited for its
# first token. Large dots are documents.


# %%
def impatient(seq, context) -> tuple:
    """Shortest job first, whoever waits."""
    return (seq.limit - seq.num_computed, seq.seq_id)


POLICIES: dict[str, Callable] = {"first come": fcfs.policy, "shortest": impatient, "with patience": shortest_job.policy}
figure, axes = plt.subplots(1, 3, figsize=(11, 3), sharey=True, layout="constrained")
for axis, (name, policy) in zip(axes, POLICIES.items(), strict=True):
    made = simulate(arrivals(REQUESTS, 100), policy=policy)
    for large, colour, size in ((False, BLUE, 4), (True, ORANGE, 16)):
        chosen = [each for each in made if (each.job.prompt > 256) == large]
        axis.scatter([each.job.due / 1e3 for each in chosen], [each.ttft / 1e3 for each in chosen], s=size, color=colour)
    axis.set(title=name, xlabel="came after, s")
    print(f"{name:14} mean {fmean(each.ttft for each in made):4.0f} ms, longest {max(each.ttft for each in made):5.0f} ms")
axes[0].set_ylabel("first token after, s")
# %% [markdown]
# ## The price of a place
#
# With a price of 0 nobody has patience. With a very high one, only the order of arrival counts. In between the mean is low and no wait
# is without bound.

# %%
PRICES = [0, 4, 16, 64, 256]
means, longest = [], []
for price in PRICES:
    made = simulate(arrivals(REQUESTS, 100), policy=lambda seq, context, price=price: (seq.limit + price * seq.seq_id, seq.seq_id))
    means.append(fmean(each.ttft for each in made) / 1e3)
    longest.append(max(each.ttft for each in made) / 1e3)
figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
axis.plot([str(price) for price in PRICES], means, "o-", color=BLUE, label="mean")
axis.plot([str(price) for price in PRICES], longest, "o-", color=PINK, label="longest")
axis.set(xlabel="tokens a place", ylabel="time to first token, s", ylim=(0, None))
axis.legend(frameon=False)

# %% [markdown]
# Try a workload of your own: `arrivals(400, 100, long_share=0.01)`, or with all requests alike. When does the order not matter?
