# %% [markdown]
# # A cluster that is only pretended
#
# How does one test what happens when a machine dies, on a laptop, a hundred times in a second? With a cluster that has a clock of
# its own. This notebook places ranks on pretended hosts, kills them at chosen moments, and measures when the caller knows. It
# needs neither Ray nor a second machine; the team that it drives is minfer's own, the one that runs on Ray.

# %%
import math

import matplotlib.pyplot as plt

from minfer.course.drawing import BLUE, GREEN, INK, ORANGE, STYLE
from minfer.course.toy_run import plans_of
from minfer.errors import MinferError
from minfer.executor.ray import RayExecutor
from minfer.scheduler.chunked import ChunkedScheduler
from minfer.testing.fake_ray import FakeRay, Host
from minfer.testing.promises.actors import echo
from minfer.traffic import plan_bytes

plt.rcParams.update(STYLE)

# %% [markdown]
# ## Placement
#
# Four hosts with two GPUs each. On three of them one GPU is in use, on the fourth both. We ask for ranks.

# %%
HOSTS = [Host({"GPU": 2}, {"GPU": 1})] * 3 + [Host({"GPU": 2}, {"GPU": 2})]
for size in (2, 3, 4, 9):
    ray = FakeRay(HOSTS)
    try:
        team = RayExecutor.team_on(ray, size, True)
        print(f"{size} ranks: placed, after {ray.clock:.0f} s; bundles {ray.placements[0].bundles}")
        team.close()
    except MinferError as error:
        print(f"{size} ranks: after {ray.clock:.0f} s: {error}")

# %% [markdown]
# Nine are more than the cluster has: that is known at once. Four are more than are free now, and somebody might end: so the team
# waits a minute. If the others end after twenty seconds, it is placed then.

# %%
ray = FakeRay(HOSTS, frees_at=20.0)
RayExecutor.team_on(ray, 4, True).close()
print(f"4 ranks: placed, after {ray.clock:.0f} s")

# %% [markdown]
# ## When does the caller know?
#
# Two ranks. Rank 0 has work for 40 seconds, in a sum in which it waits for rank 1. At some moment rank 1 dies, or hangs. We note
# when the caller gets its error.


# %%
def noticed(event: str, at: float, beat: float = 0.01) -> float:
    """Seconds from the event to the error."""
    ray = FakeRay([Host({"CPU": 8}, {})], beat=beat)
    team = RayExecutor.team_on(ray, 2, False)
    ray.seconds = {0: 6.0, 1: 6.0}
    number = team.call([0, 1], echo)
    for rank in (0, 1):
        team.result(rank, number)  # by now both have been heard
    began, ray.seconds = ray.clock, {0: 40.0, 1: 40.0}
    number = team.call([0, 1], echo)
    setattr(ray.actors[1], f"{event}_at", began + at)
    try:
        team.result(0, number)
    except MinferError as error:
        noticed.text = str(error)
        return ray.clock - began - at
    return math.inf


moments = [0.1 + 0.37 * step for step in range(50)]
figure, axis = plt.subplots(figsize=(8, 3), layout="constrained")
for event, colour in (("dies", BLUE), ("hangs", ORANGE)):
    axis.plot(moments, [noticed(event, at) for at in moments], ".", color=colour, label=f"rank 1 {event}")
    print(f"rank 1 {event}: {noticed.text[:78]} ...")
axis.axhline(10, color=INK, linewidth=0.8, linestyle="--")
axis.set(xlabel="second of the step in which it happens", ylabel="seconds until the error", ylim=(0, 11))
axis.legend(frameon=False)

# %% [markdown]
# A death is known at the next look, a second later at most: Ray knows it, and the reference of rank 1's call has ended with an
# error. A hang has to be guessed from silence, and a guess needs patience. The saw's teeth are one look apart.
#
# ## The price of patience
#
# An actor that is well may answer late, when its machine is busy. How late may it be? We let nothing happen at all, and look for
# the slowest beat at which the team still leaves a healthy rank alone.

# %%
beats = [0.5 * step for step in range(1, 25)]
healthy = []
for beat in beats:
    ray = FakeRay([Host({"CPU": 8}, {})], beat=beat)
    team = RayExecutor.team_on(ray, 1, False)
    ray.seconds = {0: 90.0}
    try:
        team.result(0, team.call([0], echo))
        healthy.append(True)
    except MinferError:
        healthy.append(False)
figure, axis = plt.subplots(figsize=(8, 1.8), layout="constrained")
axis.bar(beats, [1] * len(beats), width=0.4, color=[GREEN if fine else ORANGE for fine in healthy])
axis.set(xlabel="seconds until an actor that is well says so", yticks=[])
slowest = max(beat for beat, fine in zip(beats, healthy, strict=True) if fine)
print(f"left alone up to {slowest} s; green is left alone, orange is killed")

# %% [markdown]
# Shorter patience would find a hang sooner, and kill more engines that are only slow. There is no number that does both.
#
# ## What the caller sends
#
# The plans of a real scheduler, as they are pickled for each rank: 16 sequences, from their prompts to their ends. Then one
# decode step, by the number of sequences.

# %%
sizes = plan_bytes(plans_of(ChunkedScheduler, [(0, 20, 30)] * 16, rows=16, budget=128))
rows = [1, 4, 16, 64, 256]
decodes = [plan_bytes(plans_of(ChunkedScheduler, [(0, 8, 6)] * n, rows=n, budget=8 * n, num_blocks=4 * n))[3] for n in rows]
figure, axes = plt.subplots(1, 2, figsize=(9, 2.8), layout="constrained")
axes[0].bar(range(len(sizes)), sizes, color=BLUE)
axes[0].set(xlabel="step", ylabel="bytes to each rank")
axes[1].loglog(rows, decodes, "o-", color=BLUE)
axes[1].set(xlabel="sequences that decode", ylabel="bytes to each rank")
print("a decode step, in bytes:", dict(zip(rows, decodes, strict=True)))

# %% [markdown]
# The first steps carry prompts and how each sequence is sampled. Every sixteenth step or so brings new blocks. All others say
# little more than who takes part. That is why the caller may be far away from the ranks, and the ranks should be close to each
# other.
