# %% [markdown]
# # One message a step: what the device need not be told again
#
# We give the same plans to host inputs and to resident inputs, look at what each sends, and watch the device put the batch
# together. Everything runs on a CPU in a few seconds; "the device" is another tensor in the same memory.

# %%
import json
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import torch

from minfer.course.drawing import BLUE, GREEN, INK, ORANGE, PINK, STYLE
from minfer.inputs.host import HostInputs
from minfer.inputs.message import TOKEN, UNKNOWN, StepMessage
from minfer.inputs.resident import ResidentInputs
from minfer.params import SamplingParams
from minfer.types import Plan, Sampling, Work

plt.rcParams.update(STYLE)
BLOCK = 4
CONFIG = SimpleNamespace(
    device=torch.device("cpu"), model=SimpleNamespace(vocab_size=1000), max_num_seqs=5, max_num_batched_tokens=16, max_model_len=24
)

# %% [markdown]
# ## Two plans
#
# A sequence in row 3 has a prompt of 7 tokens, in blocks 21 and 9. In the next step it decodes. The second plan has no id for the
# new token: the host does not know it yet.

# %%
greedy = Sampling(SamplingParams(temperature=0), 0, (), 7)
prompt = [15, 7, 88, 2, 31, 5, 40]
first = Plan(0, [Work(0, 3, 0, 7, prompt, [21, 9], True, greedy)])
second = Plan(1, [Work(0, 3, 7, 1, [], [], True, greedy)])

resident = ResidentInputs(CONFIG, BLOCK)
built = resident.build(first)
column = resident.message.columns[resident.message.turn]
print("new blocks:", column["new_blocks"][:2], "at the places", column["new_places"][:2])
print(column["tokens"][:7])

# %% [markdown]
# Each token is six numbers: id, row, position, rope length, place, offset. Place 18 is row 3, column 0 of tables that are 6 columns
# wide; place 19 is the column after it.
#
# Now the device. `expand` writes the new blocks into the tables, and looks the slots up.

# %%
batch = resident.expand(resident.send(built))
print("slots:", batch.slots.tolist())
print("block table of row 3:", resident.rows.block_tables[3].tolist())
assert batch.slots.tolist() == [21 * 4, 21 * 4 + 1, 21 * 4 + 2, 21 * 4 + 3, 9 * 4, 9 * 4 + 1, 9 * 4 + 2]

# %% [markdown]
# The model runs and samples 512, say. `feed_back` keeps it on the device. The host plans the next step without having seen it.
# Before you run the cell: what will the message say in place of the id, and what will the batch say?

# %%
resident.feed_back(batch, torch.tensor([512]))
built = resident.build(second)
column = resident.message.columns[resident.message.turn]
print("in the message:", column["tokens"]["id"][0], "which is UNKNOWN:", column["tokens"]["id"][0] == UNKNOWN)
batch = resident.expand(resident.send(built))
print("in the batch:  ", batch.token_ids.tolist(), "at slot", batch.slots.tolist())

# %% [markdown]
# Host inputs cannot do this. They need the id, and they say so.

# %%
host = HostInputs(CONFIG, BLOCK)
host.build(first)
try:
    host.build(second)
except Exception as error:
    print(type(error).__name__, error, sep=": ")

# %% [markdown]
# ## Where the bytes are
#
# For 64 rows that decode, with block tables of 256 columns. Left, what host inputs send; right, the columns of the message. Mind
# the scales.

# %%
rows, width = 64, 256
sent_by_host = {
    "block tables": rows * width * 4, "token ids, positions, slots, rope lengths": 4 * rows * 8,
    "rows, lengths, starts, sample at": rows * 24 + 4, "sampling": rows * (3 * 8 + 3 * 4) + rows * 8,
}  # fmt: skip
message = StepMessage(rows, rows, 0, torch.device("cpu"))
in_message = {name: end - begin for name, (begin, end) in message.spans.items()}
figure, axes = plt.subplots(1, 2, figsize=(11, 3), layout="constrained")
for axis, content, colour in ((axes[0], sent_by_host, BLUE), (axes[1], in_message, ORANGE)):
    axis.barh(list(content), content.values(), color=colour)
    axis.invert_yaxis()
    axis.set_xlabel(f"bytes, {sum(content.values()):,} in all")
print(f"the tokens: {rows} x {TOKEN.itemsize} bytes")

# %% [markdown]
# ## New blocks are rare
#
# A row needs a new block when its last one is full: once in 16 steps, with blocks of 16. Here are 64 rows of random length over 100
# steps.

# %%
random = np.random.default_rng(0)
lengths = random.integers(1, 1000, 64)
needed = [int(((lengths + step) % 16 == 0).sum()) for step in range(100)]
figure, axis = plt.subplots(figsize=(9, 2.2), layout="constrained")
axis.bar(range(100), needed, color=GREEN)
axis.axhline(64 / 16, color=INK, linewidth=1, linestyle="--")
axis.set(xlabel="step", ylabel="new blocks")
print(f"{np.mean(needed):.2f} new blocks a step; the message has room for {rows}")

# %% [markdown]
# ## Measured
#
# The chapter's own measurement of the host's time, from `measured.json`.

# %%
measured = json.loads(Path("measured.json").read_text())
counts = [each["rows"] for each in measured["results"]]
figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
for name, colour in (("host", BLUE), ("resident", PINK)):
    axis.plot(counts, [each[name]["build_and_send_us"] for each in measured["results"]], "o-", color=colour, label=f"{name} inputs")
axis.set(xlabel="rows", ylabel="build and send, µs", ylim=(0, None))
axis.legend(frameon=False)
print(f"{measured['hardware']['cpu']}, commit {measured['commit'][:8]}")

# %% [markdown]
# ## Now you
#
# 1. Let a sequence end, and another one take its row. Print the row's block table before and after. When are the old blocks forgotten?
# 2. What would a step have to send if the device did not keep the sampling parameters? Count the bytes for 256 rows.
