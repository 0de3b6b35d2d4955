# %% [markdown]
# # What a forward pass reads and writes
#
# The mathematics of chapter 2, looked at from outside: which angles a position gets, which token looks at which, where K and V lie, and
# what all this costs in bytes. The model is tiny and random except where we do arithmetic on the shape of SmolLM2-135M.

# %%
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import torch

warnings.filterwarnings("ignore", message="IProgress")  # of progress bars, which are not used here

from minfer import LLM
from minfer.course.drawing import BLUE, GREEN, INK, ORANGE, PINK, STYLE
from minfer.course.plots import page_map
from minfer.course.recording import play
from minfer.model_config import ModelConfig
from minfer.norm.torch import rms_norm
from minfer.rope import Rope
from minfer.write_kv.torch import rotate

plt.rcParams.update(STYLE)
SMOL = ModelConfig.load(Path("dummy:smollm2-135m"))

# %% [markdown]
# ## Why the mean is taken in float32
#
# One vector of 576 values, larger and larger, normalised in float16 throughout, and with the mean in float32. The result should not
# depend on the size at all. Before you run the cell: the largest float16 is 65,504. At which size do the squares overflow?

# %%
torch.manual_seed(0)
vector, ones = torch.randn(1, 576), torch.ones(576)
sizes = [2.0**power for power in range(-2, 12)]


def in_half(x: torch.Tensor) -> torch.Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()


half = [(vector * size).half() for size in sizes]
found = {"float16 throughout": [in_half(x) for x in half], "mean in float32": [rms_norm(x, ones.half(), 1e-5) for x in half]}
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
for (name, results), colour in zip(found.items(), (ORANGE, BLUE), strict=True):
    axis.plot(sizes, [x.float().pow(2).mean().sqrt() for x in results], "o-", color=colour, label=name)
axis.set(xlabel="size of the values", ylabel="root mean square of the result", ylim=(-0.1, 1.3))
axis.set_xscale("log", base=2)
axis.legend(frameon=False)

# %% [markdown]
# ## Rotation: only the distance counts
#
# One vector serves as query, at position 50, and as key, at every position. Left: the score against the key's position. Right: the
# query moves on by 30. The curve moves along and keeps its shape: attention sees how far apart two tokens are, not where they stand.

# %%
rope = Rope(SMOL.rope, SMOL.head_dim, 256, "cpu")
at = torch.arange(256)
cos, sin = (angles[:, None] for angles in rope.cos_sin(at, at + 1))
query = torch.randn(SMOL.head_dim)
turned = rotate(query.expand(256, 1, -1), cos, sin)[:, 0]

figure, axes = plt.subplots(1, 2, figsize=(10, 2.8), layout="constrained", sharey=True)
for axis, position, colour in zip(axes, (50, 80), (BLUE, ORANGE), strict=True):
    axis.plot(at, turned @ turned[position], color=colour)
    axis.axvline(position, color=INK, linestyle=":")
    axis.set(xlabel="position of the key", title=f"query at {position}")
axes[0].set_ylabel("score")

# %% [markdown]
# ## Who sees whom
#
# One step with two sequences: A has 9 tokens and decodes one more, B arrives with a prompt of 6, C continues a prompt of 10 of which 4
# tokens are computed already. A row is a new token; a filled place is a key that it may look at.

# %%
rows = [("A", 1, 10), ("B", 6, 6), ("C", 6, 10)]
figure, axes = plt.subplots(1, 3, figsize=(10, 2.6), layout="constrained", width_ratios=[each[2] for each in rows])
for axis, (name, new, context), colour in zip(axes, rows, (BLUE, ORANGE, GREEN), strict=True):
    ago = torch.arange(context - new, context)[:, None] - torch.arange(context)
    axis.imshow(ago >= 0, cmap=plt.matplotlib.colors.ListedColormap(["none", colour]), interpolation="nearest", vmin=0, vmax=1)
    axis.set(title=f"{name}: {new} new of {context}", xlabel="key at position", ylabel="new token")
    axis.set_xticks(range(context), labels=range(context), fontsize=6)
    axis.set_yticks(range(new), labels=range(context - new, context), fontsize=6)

# %% [markdown]
# ## Where K and V lie
#
# Three sequences in the stage `decoder`, in the sixth step. A block is as long as the longest sequence allowed, here 64 tokens, and is
# filled as far as K and V have been written. Block 0, hatched, belongs to nobody.

# %%
requests = [(0, [3] * 12, 8), (0, [4] * 30, 8), (0, [5] * 7, 8)]
with LLM("dummy:tiny", stage="decoder", max_model_len=64, max_num_seqs=4, num_kv_blocks=4) as llm:
    steps = play(llm, requests)
    stats = llm.stats()
figure, axis = plt.subplots(figsize=(7, 1.8), layout="constrained")
page_map(axis, steps[5], 5, 64, columns=5)
print({seen.seq_id: (seen.num_computed, list(seen.blocks)) for seen in steps[5].running.values()})
print(f"of the places that were reserved, {stats.kv_wasted:.0%} were empty on average")

# %% [markdown]
# ## Bytes of a decode step
#
# Weights are read once a step; K and V once for each sequence. At which context do both cost the same, for one sequence and for many?
# The shape is that of SmolLM2-135M, in float32.

# %%
token = SMOL.kv_bytes_per_token(torch.float32)
layer = SMOL.hidden_size * SMOL.head_dim * (2 * SMOL.num_heads + 2 * SMOL.num_kv_heads) + 3 * SMOL.hidden_size * SMOL.intermediate_size
weights = 4 * (SMOL.num_layers * layer + SMOL.vocab_size * SMOL.hidden_size)  # without the norms, which are small
contexts = torch.arange(0, 8193, 64)
figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
axis.axhline(weights / 1e6, color=INK, linestyle="--", label="weights")
for sequences, colour in zip((1, 4, 16), (BLUE, ORANGE, PINK), strict=True):
    axis.plot(contexts, sequences * contexts * token / 1e6, color=colour, label=f"K and V of {sequences}")
    print(f"{sequences:2} sequences: even at a context of {weights / token / sequences:.0f}")
axis.set(xlabel="context of each sequence", ylabel="MB read in a step", ylim=(0, 2000))
axis.legend(frameon=False)

# %% [markdown]
# ## Now you
#
# 1. SmolLM2 shares a K/V head among 3 query heads. Draw the last plot for a model that does not share. Where do the curves cross now?
# 2. In the rotation's plot give query and key different vectors. Does the curve still move along unchanged? It must.
# 3. Swap your parts in, `LLM(..., swap={"attention": "part.py:attention"})`, and run the map again. The blocks must lie as before.
