# %% [markdown]
# # A queue, and who goes first
#
# Requests come when they like, and a device serves them. This notebook shows where the time to the first token comes from when the
# device is nearly busy, what chunks of prompts do for those who read along, and what another order changes. The scheduler and the
# policies are minfer's own. The device is pretended: a step takes 4 ms, or 0.02 ms for each of its tokens if that is longer. There are
# half as many requests as in the chapter's tables, so the numbers are others.

# %%
from collections.abc import Callable
from itertools import pairwise
from statistics import fmean

import matplotlib.pyplot as plt

from minfer.bench.simulated import Device, Job, Times, arrivals, simulate
from minfer.course.drawing import BLUE, GREEN, ORANGE, PINK, STYLE
from minfer.policy import fcfs, shortest_job
from minfer.scheduler.chunked import ChunkedScheduler
from minfer.scheduler.continuous import ContinuousScheduler

plt.rcParams.update(STYLE)
REQUESTS = 1000
IN_TIME = 200  # ms to the first token


def mean_ttft(times: list[Times]) -> float:
    return fmean(each.ttft for each in times)


def a_second(count: int, times: list[Times]) -> float:
    """So many, over the time of the whole run."""
    return 1e3 * count / max(each.tokens[-1] for each in times)


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
# The same 1,000 requests, closer and closer together. Before you run the cell: at which rate does the wait leave the floor? The dotted
# line is where the device must compute in every moment: 50,000 tokens a second, over the tokens of a mean request.

# %%
RATES = [20, 40, 60, 70, 80, 90, 100]
runs = {rate: simulate(arrivals(REQUESTS, rate)) for rate in RATES}
limit = 1e3 / Device().token_ms / fmean(each.job.prompt + each.job.output - 1 for each in runs[90])
curves = {
    "mean time to first token, ms": [mean_ttft(times) for times in runs.values()],
    "tokens a second": [a_second(sum(len(each.tokens) for each in times), times) for times in runs.values()],
    "first tokens in time, a second": [a_second(sum(each.ttft <= IN_TIME for each in times), times) for times in runs.values()],
}
figure, axes = plt.subplots(1, 3, figsize=(11, 2.8), layout="constrained")
for axis, (name, values) in zip(axes, curves.items(), strict=True):
    axis.plot(RATES, values, "o-", color=BLUE)
    axis.axvline(limit, color=ORANGE, linestyle=":")
    axis.set(xlabel="requests a second", title=name, ylim=(0, None))
for rate, wait, speed, good in zip(RATES, *curves.values(), strict=True):
    print(f"{rate:4} a second: first token after {wait:4.0f} ms, {speed:5.0f} tokens a second, {good:3.0f} requests a second in time")

# %% [markdown]
# Whoever looks at tokens a second alone would go on to the right end. Whoever counts what came in time stops at the knee.
#
# ## Little's law
#
# Requests inside = arrivals a second × mean time inside, whatever the order and whatever the device. We count the requests inside at
# every moment of one run, and compare.


# %%
def inside(times: list[Times]) -> list[tuple[float, int]]:
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
axis.axhline(64, color=ORANGE, linestyle=":", label="64 rows")
axis.set(xlabel="seconds", ylabel="requests inside", ylim=(0, None))
_ = axis.legend(frameon=False)

# %% [markdown]
# Below the dotted line nobody waits for a row. Whatever is above it is the queue.
#
# ## Those who read along
#
# At 70 requests a second. On the left is one answer as its reader sees it: up with each token, flat while none comes. Of all answers of
# 30 to 60 tokens it has the longest pause. On the right are all pauses of all readers, the longest first.

# %%
KINDS = {
    "whole prompts": (ContinuousScheduler, 4096, ORANGE),
    "chunks, budget 512": (ChunkedScheduler, 512, BLUE),
    "chunks, budget 256": (ChunkedScheduler, 256, GREEN),
}
made = {
    name: simulate(arrivals(REQUESTS, 70), scheduler=scheduler, budget=budget) for name, (scheduler, budget, _) in KINDS.items()
}
whole = made["whole prompts"]
reader = max((i for i in range(REQUESTS) if 30 <= whole[i].job.output <= 60), key=lambda i: max(whole[i].gaps))
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3), layout="constrained")
for name, times in made.items():
    colour = KINDS[name][2]
    came = times[reader].tokens
    left.step([moment - came[0] for moment in came], range(1, len(came) + 1), where="post", color=colour, label=name)
    gaps = sorted((gap for each in times for gap in each.gaps), reverse=True)
    right.plot([100 * i / len(gaps) for i in range(1, len(gaps) + 1)], gaps, color=colour)
    print(f"{name:18} longest pause {gaps[0]:5.1f} ms; mean time to first token {mean_ttft(times):4.0f} ms")
left.set(xlabel="after the first token, ms", ylabel="tokens")
left.legend(frameon=False)
right.set(xscale="log", xlim=(0.01, 100), xlabel="percent of all pauses that are at least as long", ylabel="ms")
_ = right.set_xticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])

# %% [markdown]
# With whole prompts the answer stops twice, while documents are computed. In chunks, the documents make some tokens a little slower.
#
# ## Who goes first
#
# At 90 requests a second there is a queue, and its order matters. Each dot is a request: when it came, and how long it waited for its
# first token. Large dots are documents; what is under the dotted line came in time.


# %%
def impatient(seq, context) -> tuple:
    """Shortest job first, whoever waits."""
    return (seq.limit - seq.num_computed, seq.seq_id)


POLICIES: dict[str, Callable] = {"first come": fcfs.policy, "shortest": impatient, "with patience": shortest_job.policy}
figure, axes = plt.subplots(1, 3, figsize=(11, 3), sharey=True, layout="constrained")
for axis, (name, policy) in zip(axes, POLICIES.items(), strict=True):
    times = simulate(arrivals(REQUESTS, 90), policy=policy)
    for large, colour, size in ((False, BLUE, 3), (True, ORANGE, 12)):
        chosen = [each for each in times if (each.job.prompt > 256) == large]
        axis.scatter([each.job.due / 1e3 for each in chosen], [each.ttft / 1e3 for each in chosen], s=size, color=colour, marker="o")
    axis.axhline(IN_TIME / 1e3, color=PINK, linestyle=":")
    axis.set(title=name, xlabel="came after, s")
    good = a_second(sum(each.ttft <= IN_TIME for each in times), times)
    longest = max(each.ttft for each in times)
    print(f"{name:14} mean {mean_ttft(times):4.0f} ms, longest {longest:5.0f} ms, {good:3.0f} a second in time")
_ = axes[0].set_ylabel("first token after, s")

# %% [markdown]
# ## The price of a place
#
# With a price of 0 nobody has patience. With a very high one, only the order of arrival counts. In between nearly all come in time, and
# no wait is without bound.

# %%
PRICES = [0, 4, 16, 64, 256]
longest, in_time = [], []
for price in PRICES:
    times = simulate(arrivals(REQUESTS, 90), policy=lambda seq, context, price=price: (seq.limit + price * seq.seq_id, seq.seq_id))
    longest.append(max(each.ttft for each in times) / 1e3)
    in_time.append(100 * sum(each.ttft <= IN_TIME for each in times) / REQUESTS)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 2.6), layout="constrained")
left.plot([str(price) for price in PRICES], longest, "o-", color=PINK)
left.set(xlabel="tokens a place", title="longest wait, s", ylim=(0, None))
right.plot([str(price) for price in PRICES], in_time, "o-", color=BLUE)
right.set(xlabel="tokens a place", title="percent in time", ylim=(0, 100))
print("longest, s:", [round(each, 1) for each in longest], "in time, percent:", [round(each) for each in in_time])

# %% [markdown]
# Try a workload of your own: `arrivals(1000, 90, long_share=0.01)`, or with all requests alike. When does the order not matter?
