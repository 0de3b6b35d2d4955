# %% [markdown]
# # Decode attention: tiles, splits, and bytes
#
# What the kernel of chapter 6 does, step by step, in a few lines of PyTorch that run on any CPU; then what it reaches on a GPU,
# from a recorded measurement. Nothing here needs a GPU or Triton.

# %%
import json
import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch

import minfer
from minfer.course.drawing import BLUE, GREEN, INK, ORANGE, STYLE
from minfer.course.plots import roofline

plt.rcParams.update(STYLE)
generator = torch.Generator().manual_seed(6)

# %% [markdown]
# ## The online softmax
#
# One query, 256 keys, in tiles of 64. `fold` takes one tile into three running results. Before you run the cell: when `better` is
# larger than `best`, which of the old results must be multiplied by `fade`?


# %%
def fold(state, scores, values):
    """(best, total, sum) after one more tile. Scores are in powers of two; values [tile, D]."""
    best, total, summed = state
    better = max(best, scores.max().item())
    fade = 2.0 ** (best - better)
    weights = torch.exp2(scores - better)
    return better, total * fade + weights.sum().item(), summed * fade + weights @ values


scores = 3 * torch.randn(256, generator=generator, dtype=torch.float64)
values = torch.randn(256, 4, generator=generator, dtype=torch.float64)
state, history = (-math.inf, 0.0, torch.zeros(4, dtype=torch.float64)), []
for start in range(0, 256, 64):
    state = fold(state, scores[start : start + 64], values[start : start + 64])
    history.append(state)
    print(f"keys up to {start + 64:3}: best {state[0]:5.2f}, total {state[1]:6.3f}, mean {(state[2] / state[1]).numpy().round(4)}")
exact = torch.softmax(scores * math.log(2), 0) @ values
print("all at once:                             ", exact.numpy().round(4))

# %% [markdown]
# The last line and the one before are equal. Now the same with the fault that chapter 6 reads with you: `summed` is not faded. It
# is only wrong once a later tile has a larger score.


# %%
def forgetful(state, scores, values):
    better, total, _ = fold(state, scores, values)
    return better, total, state[2] + torch.exp2(scores - better) @ values


def run(step, order):
    state = (-math.inf, 0.0, torch.zeros(4, dtype=torch.float64))
    for start in range(0, 256, 64):
        state = step(state, scores[order][start : start + 64], values[order][start : start + 64])
    return state[2] / state[1]


falling, rising = scores.argsort(descending=True), scores.argsort()
for name, order in (("largest score first", falling), ("largest score last", rising)):
    faded, not_faded = ((run(step, order) - exact).abs().max() for step in (fold, forgetful))
    print(f"{name}: error {faded:.1e} with, {not_faded:.1e} without fading")

# %% [markdown]
# ## Splits
#
# Two programs share a context. Each gives its mean and log2 of its sum. The merge weighs the means. A split without keys has the
# logarithm
# -inf, and weight 0.


# %%
def attend(part):
    """(mean, log2 of the sum) of some keys."""
    if not len(part):
        return torch.zeros(4, dtype=torch.float64), -math.inf
    best, total, summed = fold((-math.inf, 0.0, torch.zeros(4, dtype=torch.float64)), scores[part], values[part])
    return summed / total, best + math.log2(total)


def merge(parts):
    top = max(log for _, log in parts)
    weights = [2.0 ** (log - top) for _, log in parts]
    return sum(mean * weight for (mean, _), weight in zip(parts, weights, strict=True)) / sum(weights)


for cuts in ([256], [128, 256], [10, 200, 256, 256]):
    edges = [0, *cuts]
    parts = [attend(torch.arange(low, high)) for low, high in zip(edges, cuts, strict=False)]
    print(f"cut at {cuts}: logs {[round(log, 2) for _, log in parts]}, error {(merge(parts) - exact).abs().max():.1e}")

# %% [markdown]
# What does `merge` do if *all* splits are empty, as in a padding row? Try `merge([attend(torch.arange(0))])`. The kernel must give
# zeros.
#
# ## Who does how much
#
# A ragged batch: eight sequences, 2 K/V heads. The kernel's rule makes splits from the number of programs alone, about 256 in all.
# Each bar is the part of one program; white gaps in a row are programs without keys.

# %%
contexts, kv_heads, tile = [60, 200, 350, 700, 900, 1500, 2000, 4000], 2, 64
splits = math.ceil(256 / (len(contexts) * kv_heads))
figure, axis = plt.subplots(figsize=(10, 3), layout="constrained")
busy = 0
for row, context in enumerate(contexts):
    share = math.ceil(math.ceil(context / splits) / tile) * tile
    for split in range(splits):
        keys = min(max(context - split * share, 0), share)
        busy += keys > 0
        axis.barh(row, keys, left=split * share, color=(BLUE, ORANGE)[split % 2], height=0.7, edgecolor=INK, linewidth=0.3)
axis.set(xlabel="key", yticks=range(len(contexts)), yticklabels=[f"{context} tokens" for context in contexts])
print(f"{splits} splits for each sequence; {busy} of {splits * len(contexts)} have keys")

# %% [markdown]
# Short contexts make few busy programs, since a program takes whole tiles. The idle ones end at once.
#
# ## Why bytes are all that counts
#
# A roofline: the speed that a card can reach at each number of operations for a byte of memory traffic. The points are minfer's
# kernels on an H200, as measured and committed in `benchmarks/results/kernels-h200.json`. The flat roof is the fastest point among
# them, since the card's own peak was not measured there.

# %%
report = json.loads((Path(minfer.__file__).parents[1] / "benchmarks/results/kernels-h200.json").read_text())
bandwidth, points = report["copy_gb_per_s"] * 1e9, {}
for result in report["results"]:
    if result["slot"].startswith("attention"):
        mine = next(each for each in result["contenders"] if each["name"] == "minfer")
        flops = result["flops"] or 4 * result["bytes"]  # decode: four query heads share a K/V head, in 16 bits
        points[f"{result['slot'].split(', ')[1]} {result['shape']}"] = (flops / result["bytes"], flops / (mine["median_us"] * 1e-6))
figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
roofline(axis, points, bandwidth=bandwidth, peak=max(speed for _, speed in points.values()))

# %% [markdown]
# The decode points sit on the slope: they are as fast as memory lets them be. Prompts lie under the flat roof, and there arithmetic
# counts.
#
# The same numbers as a share of the copy rate, beside PyTorch:

# %%
decodes = [result for result in report["results"] if result["slot"] == "attention, decode"]
figure, axis = plt.subplots(figsize=(8, 3), layout="constrained")
for offset, (name, colour) in enumerate((("minfer", BLUE), ("PyTorch eager", ORANGE), ("SDPA, contiguous", GREEN))):
    shares = [next(each["share_of_copy"] for each in result["contenders"] if each["name"] == name) for result in decodes]
    places = [place + 0.27 * offset for place in range(len(decodes))]
    axis.bar(places, [100 * share for share in shares], 0.25, color=colour, label=name)
axis.set_xticks([place + 0.27 for place in range(len(decodes))], [f"{result['shape']}" for result in decodes])
axis.set(xlabel="sequences x context", ylabel="% of the copy rate")
axis.axhline(100, color=INK, linestyle="--", linewidth=0.8)
_ = axis.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))

# %% [markdown]
# ## Now you
#
# 1. Give `scores` a constant of 2,000 more. Which of the lines above change, and which would, if nothing were subtracted before `exp2`?
# 2. Make the batch of eight one of 200 sequences in the plot of splits. What becomes of the bars?
# 3. SDPA reads contiguous memory without a block table, and is hardly faster on long contexts. Why is paging so cheap here?
