# %% [markdown]
# # A tape instead of a graph
#
# CUDA graphs need a GPU. What makes them hard does not: a replay repeats the same operations on the same memory, and runs no
# Python. minfer's tests have a *tape* that behaves so on a CPU. We record on it, break it in the usual ways, and then let the
# runner of this chapter record whole decode steps.

# %%
import json
from pathlib import Path

import matplotlib.pyplot as plt
import torch

import minfer
from minfer import LLM, SamplingParams
from minfer.course.drawing import BLUE, GREEN, ORANGE, STYLE
from minfer.runner.cuda_graph import buckets
from minfer.testing.tape import Tape

plt.rcParams.update(STYLE)
torch.manual_seed(0)

# %% [markdown]
# ## Record, change the data, replay
#
# `x` is memory that never moves. We record two operations on it. Then we put other numbers *into* it, and replay.

# %%
x = torch.tensor([1.0, 2.0, 3.0])
tape = Tape()
with tape:
    y = (x * 10).sum()
print("recorded:", [call[0].__name__ for call in tape.calls], "→", y.item())
x.copy_(torch.tensor([5.0, 5.0, 5.0]))
tape.replay()
print("replayed:", y.item(), "in the same tensor")

# %% [markdown]
# Now a mistake that everybody makes once. `x` gets a new tensor instead of new contents. The tape still looks at the old one.

# %%
x = torch.tensor([100.0, 100.0, 100.0])
tape.replay()
print("replayed:", y.item(), "and not", (x * 10).sum().item())

# %% [markdown]
# ## Python does not run again
#
# The function below has an `if` on a Python number. Before you run the cell: which of the two ways will the replay take?

# %%
x = torch.tensor([1.0, 2.0, 4.0])
rows = 3


def step() -> torch.Tensor:
    return x.sum() if rows > 2 else x.prod()


tape = Tape()
with tape:
    y = step()
rows = 1
tape.replay()
print("replay:", y.item(), "   called anew:", step().item())

# %% [markdown]
# And an `if` on a *tensor* cannot be recorded at all: to decide it, the host would have to wait for the device.

# %%
try:
    with Tape():
        y = x.sum() if x[0] > 0 else x.prod()
except RuntimeError as error:
    print("RuntimeError:", error)

# %% [markdown]
# ## What is in a decode step?
#
# We record one step of a tiny decoder of two layers, and count its operations by name. On a GPU each would be one launch or more.

# %%
from collections import Counter

from minfer.testing.batches import make_batch
from minfer.testing.recordable import recordable_decoder
from minfer.testing.tiny import tiny_cache

model, kv = recordable_decoder(), tiny_cache(num_blocks=4, block_size=4)
batch = make_batch([([5], 3)], [[1]], block_size=4)
tape = Tape()
with torch.inference_mode(), tape:
    model.head(model(batch, kv)).argmax(-1)
counts = Counter(call[0].__name__.split(".")[0] for call in tape.calls)
figure, axis = plt.subplots(figsize=(9, 3), layout="constrained")
names, numbers = zip(*counts.most_common(14), strict=True)
axis.bar(names, numbers, color=BLUE)
axis.tick_params(axis="x", rotation=45)
axis.set_ylabel("in one step")
print(len(tape.calls), "operations for two layers")

# %% [markdown]
# ## Sizes and padding
#
# A step of n rows runs in the smallest recording that holds it. Here is the share of rows that are padding, for three choices of
# sizes. Fewer recordings are quicker to make; more of them waste less.

# %%
choices = {
    "minfer's": buckets(64),
    "powers of two": [1, 2, 4, 8, 16, 32, 64],
    "one": [64],
}
figure, axis = plt.subplots(figsize=(9, 3), layout="constrained")
for (name, sizes), colour in zip(choices.items(), (BLUE, ORANGE, GREEN), strict=True):
    waste = [1 - n / next(size for size in sizes if size >= n) for n in range(1, 65)]
    axis.plot(range(1, 65), [100 * share for share in waste], color=colour, label=f"{name}: {len(sizes)} recordings")
axis.set(xlabel="rows of the step", ylabel="padding, % of the rows")
axis.legend(frameon=False)

# %% [markdown]
# ## Which steps could be replayed?
#
# An engine with the chapter's runner on a CPU: the same padded path, without recording. We ask for each step which bucket it took.
# `None` is an eager step: a prompt is among the rows.

# %%
took = []
swap = {"runner": "minfer.runner.cuda_graph:CudaGraphRunner"}
with LLM("dummy:tiny", stage="chunked", swap=swap, max_model_len=64, max_num_seqs=12) as llm:
    runner = llm.engine.executor.runner
    bucket_of = runner.bucket_of

    def watched(batch):
        bucket = bucket_of(batch)
        took.append((batch.num_seqs, bucket.rows if bucket else None))
        return bucket

    runner.bucket_of = watched
    prompts = [[1 + i] * (3 + 2 * i) for i in range(16)]
    params = [SamplingParams(temperature=0, max_tokens=4 + 3 * i, ignore_eos=True) for i in range(16)]
    llm.generate(prompts, params)

figure, axis = plt.subplots(figsize=(10, 2.6), layout="constrained")
axis.bar(range(len(took)), [bucket or 0 for _, bucket in took], color="none", edgecolor=ORANGE, label="bucket")
axis.bar(range(len(took)), [rows for rows, _ in took], width=0.5, color=[BLUE if bucket else GREEN for _, bucket in took], label="rows")
axis.set(xlabel="step", ylabel="rows")
eager = sum(bucket is None for _, bucket in took)
print(f"{len(took)} steps, {eager} of them eager (green), the others in {sorted({bucket for _, bucket in took if bucket})} rows")

# %% [markdown]
# ## On a GPU
#
# Recorded results of the ladder on an H200: the decode step of one sequence, and how much of it the GPU is busy.

# %%
report = json.loads((Path(minfer.__file__).parents[1] / "benchmarks" / "results" / "ladder-h200.json").read_text())
stages = {stage["name"]: stage["decode"][0] for stage in report["stages"] if stage["decode"]}
figure, axes = plt.subplots(1, 2, figsize=(10, 3), layout="constrained")
axes[0].barh(list(stages), [each["ms_per_step"] for each in stages.values()], color=BLUE)
axes[0].set_xlabel("ms a decode step, one sequence")
axes[1].barh(list(stages), [each["launches_per_step"] for each in stages.values()], color=ORANGE)
axes[1].set_xlabel("launches")
for axis in axes:
    axis.invert_yaxis()

# %% [markdown]
# ## Now you
#
# 1. Sizes of 1, 2, 4 and then every 8 rows are recorded. How many padding rows does a step have on average, for batches of 1 to 64? And
#    with sizes of 1, 2, 4, 8, 16, 32 and 64?
# 2. In the plot, which stage has the fewest launches? Say which of them are left, and why a graph cannot hold them.
