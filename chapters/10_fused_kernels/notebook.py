# %% [markdown]
# # Turn, and put away: what the fused kernels do
#
# This notebook draws what `write_kv` does to a token: how q and k are turned, where k and v go, and which program takes which head.
# It runs on any CPU; kernels are interpreted if Triton is there. What a GPU took comes from a committed measurement.

# %%
import importlib.util
import json
import os
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported: kernels run as Python here

import matplotlib.pyplot as plt
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import minfer
from minfer.course.drawing import BLUE, GREEN, INK, ORANGE, STYLE
from minfer.write_kv.torch import rotate, write_kv

plt.rcParams.update(STYLE)
generator = torch.Generator().manual_seed(10)

# %% [markdown]
# ## Turning
#
# A head of 8 values is 4 pairs: value i with value i + 4. Pair i is turned by position / theta^(i / 4). Here the pairs begin at (1,
# 0). Before you run it: which pair goes round fastest?

# %%
half, theta = 4, 100.0
positions = torch.arange(12)
angles = positions[:, None] / theta ** (torch.arange(half) / half)
head = torch.cat((torch.ones(half), torch.zeros(half))).expand(len(positions), 1, -1)
turned = rotate(head, angles.cos()[:, None], angles.sin()[:, None])[:, 0]
figure, axes = plt.subplots(1, half, figsize=(10, 2.8), layout="constrained")
for pair, axis in enumerate(axes):
    axis.plot(turned[:, pair], turned[:, pair + half], "o-", color=BLUE, markersize=4, linewidth=0.6)
    axis.set(title=f"pair {pair}", xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), aspect="equal", xticks=[], yticks=[])

# %% [markdown]
# The product of a turned query and a turned key depends on the *difference* of their positions only. That is what rotary embedding
# is for, and why k can be written into the cache already turned.


# %%
def product(q_position: int, k_position: int) -> float:
    at = torch.tensor([q_position, k_position])[:, None] / theta ** (torch.arange(half) / half)
    q, k = rotate(torch.stack((query, key))[:, None], at.cos()[:, None], at.sin()[:, None])[:, 0]
    return (q @ k).item()


query, key = torch.randn(2, 2 * half, generator=generator).unbind()
for pair in ((5, 2), (105, 102), (1005, 1002), (5, 3)):
    print(f"query at {pair[0]:4}, key at {pair[1]:4}: {product(*pair):.4f}")

# %% [markdown]
# ## Which program takes which head
#
# Eight neighbouring heads a program. Blue is q, orange k, green v; what is hatched has nothing to do.

# %%
models = {"Llama 8B": (32, 8), "Qwen3-0.6B": (16, 8), "TinyLlama": (32, 4), "SmolLM2-135M": (9, 3), "Qwen2-0.5B": (14, 2)}
figure, axis = plt.subplots(figsize=(10, 2.8), layout="constrained")
for row, (q_heads, kv_heads) in enumerate(models.values()):
    kinds = [BLUE] * q_heads + [ORANGE] * kv_heads + [GREEN] * kv_heads
    for place in range(-(-len(kinds) // 8) * 8):
        look = {"color": kinds[place]} if place < len(kinds) else {"fill": False, "hatch": "////"}
        axis.barh(row, 0.9, left=place, height=0.7, **look, edgecolor=INK, linewidth=0.3)
for edge in range(0, 49, 8):
    axis.axvline(edge - 0.05, color=INK, linewidth=1.2)
axis.set(yticks=range(len(models)), yticklabels=list(models), xlabel="head", xlim=(-0.5, 48.5))
axis.invert_yaxis()

# %% [markdown]
# In the first two models no program has two kinds of heads, so a program that decides by its first head is right for them. That is
# the museum's fault. In which programs does it go wrong for the other three?
#
# ## Where it goes
#
# Six tokens of two sequences are written into a cache of eight pages with four tokens each. Everything was NaN before.

# %%
q, k, v = torch.randn(6, 9 + 3 + 3, 64, generator=generator).split((9, 3, 3), dim=1)
at = torch.rand(6, 32, generator=generator)
slots = torch.tensor([21, 22, 23, 12, 13, 30])
cache = torch.full((2, 8, 4, 3, 64), float("nan"))
write_kv(q, k, v, at.cos(), at.sin(), (cache[0], cache[1]), slots, None, None, 1e-5)
figure, axes = plt.subplots(1, 2, figsize=(9, 2.6), layout="constrained")
for axis, part, name in zip(axes, cache, "KV", strict=True):
    axis.imshow(part[..., 0, 0].isnan().T, cmap="gray", alpha=0.5)
    for slot in slots.tolist():
        axis.text(slot // 4, slot % 4, slot, ha="center", va="center", fontsize=8, color=ORANGE)
    axis.set(title=f"{name}: slots that were written", xlabel="block", ylabel="offset", yticks=range(4))

# %% [markdown]
# ## Fused
#
# The same call with minfer's kernel, interpreted.

# %%
if importlib.util.find_spec("triton"):
    from minfer.write_kv.triton import write_kv as fused

    theirs = torch.full_like(cache, float("nan"))
    out = fused(q, k, v, at.cos(), at.sin(), (theirs[0], theirs[1]), slots, None, None, 1e-5)
    plain = write_kv(q, k, v, at.cos(), at.sin(), (cache[0], cache[1]), slots, None, None, 1e-5)
    same_slots = torch.equal(theirs.isnan(), cache.isnan())
    same_v = torch.equal(theirs[1].nan_to_num(), cache[1].nan_to_num())
    print(f"q differs by {(out - plain).abs().max():.1e}; the same slots: {same_slots}; v equal: {same_v}")
else:
    print("Triton is not here (it has no packages for this system); the rest of the notebook goes on without it")

# %% [markdown]
# ## Counting kernels
#
# On a GPU every operation of the plain version that computes something is a kernel. Views are not.


# %%
class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.names.append(func.overloadpacket.__name__)
        return out


wide = [each.bfloat16() for each in (q, k, v)]
narrow = cache.bfloat16()
with Operations() as operations:
    write_kv(*wide, at.cos(), at.sin(), (narrow[0], narrow[1]), slots, None, None, 1e-5)
counted = [name for name in operations.names if name not in ("cos", "sin", "_unsafe_view")]
print(len(counted), "operations:", ", ".join(counted))

# %% [markdown]
# ## Prediction and measurement
#
# On an H200, from `benchmarks/results/kernels-h200.json`. The dashed line is what the bytes take at the rate of a copy.

# %%
report = json.loads((Path(minfer.__file__).parents[1] / "benchmarks/results/kernels-h200.json").read_text())
chosen = [result for result in report["results"] if result["slot"] in ("write_kv", "activation") and result["shape"].startswith("8192")]
figure, axes = plt.subplots(1, 2, figsize=(10, 2.5), layout="constrained")
for axis, result in zip(axes, chosen, strict=True):
    names = [each["name"] for each in result["contenders"]]
    axis.barh(names, [each["median_us"] for each in result["contenders"]], color=[BLUE, ORANGE, GREEN][: len(names)])
    axis.axvline(result["bytes"] / report["copy_gb_per_s"] / 1e3, color=INK, linestyle="--")
    axis.set(title=f"{result['slot']}, {result['shape']}", xlabel="µs")

# %% [markdown]
# ## Now you
#
# 1. Turn neighbouring values as pairs instead of halves in the first plot. What changes, if anything? Then read why the weights care.
# 2. With 16 heads a program, how many lanes are idle in each of the five models? And with 4?
# 3. Give the query and the key norms of their own (`q_norm`, `k_norm`) and count the operations again.
