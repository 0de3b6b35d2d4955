# %% [markdown]
# # A fused norm: where the bytes go
#
# This notebook watches the plain norm of chapter 2 and counts what each of its operations reads and writes. Then it runs the fused
# kernel in Triton's interpreter, if Triton is there, and compares. No GPU is needed; what a GPU took comes from a committed
# measurement.

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
from minfer.norm.torch import add_rms_norm

plt.rcParams.update(STYLE)
torch.manual_seed(7)


# %% [markdown]
# ## What each operation moves
#
# PyTorch lets us look at every operation before it runs. `Traffic` notes the bytes of its inputs and of its output, as if each came
# from memory and went back there. Before you run it: which of the nine will move most?


# %%
class Traffic(TorchDispatchMode):
    """name, bytes read, bytes written of each operation."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        size = sum(each.nbytes for each in args if isinstance(each, torch.Tensor))
        out = func(*args, **(kwargs or {}))
        self.seen.append((func.overloadpacket.__name__.strip("_"), size, out.nbytes))
        return out


rows, width = 64, 4096
x, residual = torch.randn(2, rows, width).bfloat16().unbind()
weight = torch.ones(width, dtype=torch.bfloat16)
with Traffic() as traffic:
    add_rms_norm(x.clone(), residual, weight, 1e-5)
seen = [each for each in traffic.seen if each[0] != "clone"]
unit = 2 * rows * width
for name, read, written in seen:
    print(f"{name:9} reads {read / unit:4.1f}, writes {written / unit:4.1f}")

# %%
figure, axis = plt.subplots(figsize=(10, 3), layout="constrained")
names = [f"{place}. {name}" for place, (name, _, _) in enumerate(seen, 1)]
axis.bar(names, [read / unit for _, read, _ in seen], color=BLUE, label="read")
axis.bar(names, [written / unit for *_, written in seen], bottom=[read / unit for _, read, _ in seen], color=ORANGE, label="written")
axis.set_ylabel("units of 2 bytes a value")
axis.legend(frameon=False)
total = sum(read + written for _, read, written in seen) / unit
print(f"{len(seen)} operations, {total:.1f} units; a fused kernel has 4: {total / 4:.2f} times as many")

# %% [markdown]
# Those that touch float32 rows are the dear ones. And nearly each reads what the one before it has just written.
#
# ## The same in one kernel
#
# minfer's kernel, interpreted: each program is a Python function that runs for one row.

# %%
if importlib.util.find_spec("triton"):
    from minfer.norm.triton import add_rms_norm as fused

    x, residual = torch.randn(2, 4, 576).unbind()
    weight = torch.rand(576) + 0.5
    y, summed = fused(x.clone(), residual.clone(), weight, 1e-5)
    theirs, their_sum = add_rms_norm(x.clone(), residual, weight, 1e-5)
    print(f"largest difference: y {(y - theirs).abs().max():.1e}, sum {(summed - their_sum).abs().max():.1e}")
else:
    print("Triton is not here (it has no packages for this system); the rest of the notebook goes on without it")

# %% [markdown]
# ## Lanes
#
# A block in Triton has a power of two of lanes. Here are the widths of some models, and how many lanes are switched off by the
# mask. The museum's fault divides by the number of lanes instead of the width. How wrong is each model then?

# %%
widths = {"SmolLM2-135M": 576, "Qwen2-0.5B": 896, "Qwen3-0.6B": 1024, "TinyLlama": 2048, "Llama 3.2 3B": 3072, "Llama 3 8B": 4096}
lanes = {name: 1 << (width - 1).bit_length() for name, width in widths.items()}
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3), layout="constrained")
left.barh(list(widths), list(widths.values()), color=BLUE, label="used")
off = [lanes[name] - width for name, width in widths.items()]
left.barh(list(widths), off, left=list(widths.values()), fill=False, edgecolor=INK, hatch="////", label="masked")
left.set_xlabel("lanes")
left.legend(frameon=False, loc="lower right")
right.barh(list(widths), [(lanes[name] / width) ** 0.5 for name, width in widths.items()], color=ORANGE)
right.set_xlim(0.9, 1.4)
right.set_yticks([])
_ = right.set_xlabel("norm with the museum's fault, over the right one")

# %% [markdown]
# Three of the six are right, which is how such a fault survives.
#
# ## Why squares are summed in float32
#
# The largest finite float16 is 65,504. We give a row of ever larger values to two norms, one of which squares in float16.

# %%
scales = [2.0**power for power in range(-4, 12)]
row = torch.randn(1, 64)
right_one, wrong_one = [], []
for scale in scales:
    half = (row * scale).half()
    right_one.append((half.float() * half.float().pow(2).mean().add(1e-5).rsqrt()).std().item())
    wrong_one.append((half * half.pow(2).mean().add(1e-5).rsqrt()).float().std().item())
figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
axis.plot(scales, right_one, "o-", color=GREEN, label="squared in float32")
axis.plot(scales, wrong_one, "s--", color=ORANGE, label="squared in float16")
axis.set_xscale("log", base=2)
axis.set(xlabel="size of the values", ylabel="size of the normalised row")
_ = axis.legend(frameon=False)

# %% [markdown]
# Once a square overflows, the row becomes zero. No error is raised.
#
# ## Prediction and measurement
#
# Bytes over the rate of a copy, beside what an H200 took (`benchmarks/results/kernels-h200.json`, 8,192 rows of 4,096 values).

# %%
report = json.loads((Path(minfer.__file__).parents[1] / "benchmarks/results/kernels-h200.json").read_text())
result = next(each for each in report["results"] if each["shape"] == "8192 x 4096")
measured = {each["name"]: each["median_us"] for each in result["contenders"]}
floor = result["bytes"] / report["copy_gb_per_s"] / 1e3
predicted = {"minfer": floor, "PyTorch eager": floor * total / 4, "torch.compile": floor}
figure, axis = plt.subplots(figsize=(7, 2.5), layout="constrained")
axis.barh([place + 0.2 for place in range(3)], list(predicted.values()), 0.35, fill=False, edgecolor=INK, label="predicted")
axis.barh([place - 0.2 for place in range(3)], [measured[name] for name in predicted], 0.35, color=BLUE, label="measured")
axis.set_yticks(range(3), list(predicted))
axis.set_xlabel("µs")
_ = axis.legend(frameon=False)

# %% [markdown]
# ## Now you
#
# 1. Use float32 for x, residual and weight in the first part. Which operations vanish, and what becomes of the factor?
# 2. Leave the residual out (`None`). How many operations are left?
# 3. The measured plain version is slower than its bytes. Which of the nine would you suspect, and how would you find out?
