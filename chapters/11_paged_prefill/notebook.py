# %% [markdown]
# # Tiles under the diagonal
#
# How a chunk's attention is cut into tiles, which tiles need a mask, and why the softmax can be done tile by tile. Plain PyTorch on
# a CPU, in a few seconds; speeds come from a recorded run on an H200.

# %%
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import ListedColormap

import minfer
from minfer.course.drawing import BLUE, INK, ORANGE, PINK, STYLE
from minfer.course.plots import roofline

plt.rcParams.update(STYLE)
torch.manual_seed(0)
TILE = 64

# %% [markdown]
# ## Which tiles are read?
#
# For every pair of tiles: does any query see any key, and does every query see every key? We ask all pairs of positions, the slow
# and certain way. Three cases: a whole prompt, a chunk at the end of a longer context, and the same with a window.


# %%
def kinds(start: int, end: int, window: int | None = None) -> np.ndarray:
    """[tiles of queries, tiles of keys]: 0 not read, 1 needs a mask, 2 seen whole."""
    query = np.arange(start, end)[:, None]
    key = np.arange(end)[None]
    seen = (key <= query) & (key > query - (window or end))
    rows, columns = -(-(end - start) // TILE), -(-end // TILE)
    found = np.zeros((rows, columns), int)
    for i in range(rows):
        for j in range(columns):
            tile = seen[i * TILE : (i + 1) * TILE, j * TILE : (j + 1) * TILE]
            found[i, j] = 2 if tile.all() and tile.shape[1] == TILE else int(tile.any())
    return found


cases = {
    "a prompt of 768": kinds(0, 768),
    "a chunk from 512 to 768": kinds(512, 768),
    "a chunk, window of 200": kinds(512, 768, 200),
}
figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
for axis, (name, found) in zip(axes, cases.items(), strict=True):
    axis.pcolormesh(found, cmap=ListedColormap(["#00000000", PINK, BLUE]), vmin=0, vmax=2, edgecolors=INK, linewidth=0.5)
    axis.invert_yaxis()
    axis.set_aspect("equal")
    axis.set_title(name, fontsize=9)
    axis.set(xlabel="tile of keys", ylabel="program")
    print(f"{name}: {(found == 2).sum()} whole, {(found == 1).sum()} masked, {(found == 0).sum()} not read")

# %% [markdown]
# Blue tiles are seen whole, pink ones need a mask. With a window there are two pink edges, and tiles on the left that nobody reads
# any more.
#
# ## How many need a mask?

# %%
lengths = [64 * 2**i for i in range(8)]
share = []
for length in lengths:
    tiles = length // TILE
    share.append(100 * tiles / (tiles * (tiles + 1) / 2))
figure, axis = plt.subplots(figsize=(7, 2.6), layout="constrained")
axis.plot(lengths, share, "o-", color=PINK)
axis.set(xscale="log", xlabel="tokens of the prompt", ylabel="tiles with a mask, %", xticks=lengths, xticklabels=lengths)
axis.minorticks_off()

# %% [markdown]
# ## The softmax, tile by tile
#
# 64 queries over 192 keys, of which each sees those up to its own position, 128 and later. We keep a maximum, a sum and a result
# for each query, as the kernel does, and compare with the softmax over everything at once.

# %%
q, k, v = torch.randn(64, 16), torch.randn(192, 16), torch.randn(192, 16)
position = torch.arange(128, 192)


def by_tiles(window: int, guard: bool) -> torch.Tensor:
    """The online softmax over three tiles of keys."""
    best, total, result = torch.full((64,), -torch.inf), torch.zeros(64), torch.zeros(64, 16)
    for start in range(0, 192, TILE):
        key = torch.arange(start, start + TILE)
        seen = (key <= position[:, None]) & (key > position[:, None] - window)
        scores = (q @ k[key].T).masked_fill(~seen, -torch.inf)
        better = torch.maximum(best, scores.amax(1))
        top = torch.where(better == -torch.inf, 0.0, better) if guard else better
        weights = torch.exp(scores - top[:, None])
        fade = torch.exp(best - top)
        total = total * fade + weights.sum(1)
        result = result * fade[:, None] + weights @ v[key]
        best = better
    return result / total[:, None]


def at_once(window: int) -> torch.Tensor:
    key = torch.arange(192)
    seen = (key <= position[:, None]) & (key > position[:, None] - window)
    return (q @ k.T).masked_fill(~seen, -torch.inf).softmax(1) @ v


print("no window:", (by_tiles(1000, guard=False) - at_once(1000)).abs().max().item())

# %% [markdown]
# Now with a window of 100. The first tile has the keys 0 to 63; the query at 128 sees from 29 on, the one at 191 from 92 on. So
# some queries see nothing of the first tile. Before you run the cell: what is -inf minus -inf?

# %%
broken = by_tiles(100, guard=False).isnan().any(1)
print("without the guard:", int(broken.sum()), "of 64 queries are NaN, from position", int(position[broken].min()), "on")
print("with it:          ", (by_tiles(100, guard=True) - at_once(100)).abs().max().item())

# %% [markdown]
# ## What does the copy cost?
#
# `gather` moves the K and V of the whole context, whatever the size of the chunk. The attention's arithmetic grows with chunk times
# context. Here is the time of the copy as a share of the time of the products, at the rates of an H200 (from the kernel benchmark).

# %%
kernels = json.loads((Path(minfer.__file__).parents[1] / "benchmarks" / "results" / "kernels-h200.json").read_text())
bandwidth = kernels["copy_gb_per_s"] * 1e9
prefills = {each["shape"]: each for each in kernels["results"] if each["slot"] == "attention, prefill"}
decodes = {each["shape"]: each for each in kernels["results"] if each["slot"] == "attention, decode"}
speeds = {shape: {each["name"]: each["tflop_per_s"] * 1e12 for each in found["contenders"]} for shape, found in prefills.items()}
peak = max(max(each.values()) for each in speeds.values())
heads, kv_heads, head_dim, context = 32, 8, 128, 8192
copy = 2 * 2 * context * kv_heads * head_dim * 2 / bandwidth
chunks = [16 * 2**i for i in range(10)]
products = [4 * chunk * (context - chunk / 2) * heads * head_dim / peak for chunk in chunks]
figure, axis = plt.subplots(figsize=(7, 2.8), layout="constrained")
axis.plot(chunks, [copy / each for each in products], "o-", color=ORANGE)
axis.axhline(1, color=INK, linewidth=0.8, linestyle="--")
axis.set(xscale="log", yscale="log", xlabel="new tokens of the chunk, at the end of 8192", ylabel="copy / products")

# %% [markdown]
# ## The roofline
#
# A kernel left of the ridge is limited by bytes, right of it by arithmetic. The peak is the best that any contender reached in this
# run.

# %%
points = {}
for shape in ("1 x 2048", "16 x 512"):
    found = prefills[shape]
    points[f"prefill {shape}"] = (found["flops"] / found["bytes"], speeds[shape]["minfer"])
    points[f"PyTorch, {shape}"] = (found["flops"] / found["bytes"], speeds[shape]["PyTorch eager"])
found = decodes["64 x 2048"]
flops = 4 * 64 * 2048 * heads * head_dim
points["decode 64 x 2048"] = (flops / found["bytes"], flops / (found["contenders"][0]["median_us"] * 1e-6))
figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
roofline(axis, points, bandwidth=bandwidth, peak=peak)

# %% [markdown]
# ## Now you
#
# 1. Where does a decode step of one sequence stand in the roofline, and where one of 256? Add both points.
# 2. A chunk of 64 tokens at the end of a context of 4,096: is it bound by memory or by computing? Compute its place before you draw it.
