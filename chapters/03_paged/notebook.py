# %% [markdown]
# # Pages: where the memory of a K/V cache goes
#
# This notebook runs two stages of minfer on the same requests, `decoder` and `paged`, and looks at who holds which part of the K/V
# cache. The model is tiny and its weights are random: what it says does not matter here, only where it keeps it. Everything runs on a
# CPU in a few seconds, and twice the same.

# %%
import warnings
from types import SimpleNamespace

import matplotlib.pyplot as plt

warnings.filterwarnings("ignore", message="IProgress")  # of progress bars, which are not used here

from minfer import LLM
from minfer.blocks.contiguous import ContiguousBlocks
from minfer.blocks.paged import PagedBlocks
from minfer.course.drawing import BLUE, ORANGE, STYLE
from minfer.course.plots import page_map, pages_over_time
from minfer.course.recording import play

plt.rcParams.update(STYLE)
MAX_LEN = 128  # tokens of the longest sequence allowed
PAGE = 16  # tokens in a page
POOL = 512  # tokens that the whole cache has room for

# %% [markdown]
# ## What one sequence reserves
#
# We ask the two allocators themselves. Each is told of a sequence of 1, 2, 3, ... tokens, and we count the places that it hands out.
# Before you run the cell: a sequence has 50 tokens. How many places does each reserve, and what share of them is empty?


# %%
def reserved(blocks, num_tokens: int) -> int:
    """Places that an empty sequence gets when it asks for room for num_tokens."""
    sequence = SimpleNamespace(block_table=[], num_computed=0)
    assert blocks.allocate(sequence, num_tokens)
    return len(sequence.block_table) * blocks.block_size


lengths = range(1, MAX_LEN + 1)
contiguous = [reserved(ContiguousBlocks(2, MAX_LEN), length) for length in lengths]
paged = [reserved(PagedBlocks(1 + MAX_LEN // PAGE, PAGE), length) for length in lengths]

figure, (places, waste) = plt.subplots(1, 2, figsize=(10, 3), layout="constrained")
for name, taken, colour in (("contiguous", contiguous, BLUE), ("paged", paged, ORANGE)):
    places.plot(lengths, taken, color=colour, label=name)
    waste.plot(lengths, [100 * (1 - length / t) for length, t in zip(lengths, taken, strict=True)], color=colour)
places.plot(lengths, lengths, "--", color="#7b7b7b", label="tokens")
places.set(xlabel="tokens of the sequence", ylabel="places reserved")
waste.set(xlabel="tokens of the sequence", ylabel="empty, % of what is reserved")
places.legend(frameon=False)
print(f"50 tokens: contiguous {contiguous[49]} places, paged {paged[49]}")

# %% [markdown]
# The orange saw never has more than one page too much, whatever the length. The blue line pays for the longest sequence that anybody
# might ever send.
#
# ## The same requests in both
#
# Ten requests, of different lengths. Both caches have room for 512 tokens in all: four blocks of 128, or 32 pages of 16.

# %%
requests = [(0, [3 + i] * prompt, output) for i, (prompt, output) in enumerate(
    [(20, 8), (35, 30), (9, 12), (50, 20), (16, 16), (28, 6), (12, 24), (40, 10), (7, 7), (22, 18)]
)]  # fmt: skip
pools = {"decoder": (MAX_LEN, POOL // MAX_LEN), "paged": (PAGE, POOL // PAGE)}
runs, wasted = {}, {}
for stage, (_, number) in pools.items():
    with LLM("dummy:tiny", stage=stage, max_model_len=MAX_LEN, max_num_seqs=16, block_size=PAGE, num_kv_blocks=number) as llm:
        runs[stage] = play(llm, requests)
        wasted[stage] = llm.stats()
for stage, steps in runs.items():
    print(f"{stage:8} {len(steps):3} steps, up to {max(len(step.running) for step in steps)} sequences at once")

# %% [markdown]
# Here is the pool in one step of each run. A square is a block. Its colour and number say which sequence holds it, and it is filled as
# far as tokens have been written. Block 0 is hatched: it belongs to the padding, and nobody is ever given it.

# %%
figure, axes = plt.subplots(2, 1, figsize=(9, 4.5), layout="constrained", height_ratios=(1, 2))
for axis, (stage, (size, number)) in zip(axes, pools.items(), strict=True):
    page_map(axis, runs[stage][5], number + 1, size, columns=17)
    axis.set_title(f"{stage}: step 5, blocks of {size} tokens", loc="left", fontsize=9)

# %% [markdown]
# The four sequences of `decoder` fill the pool, although their blocks are mostly empty, and six requests wait. The pages of `paged`
# hold all ten.
#
# ## Pages over time
#
# Read the next plot from left to right. A sequence takes a page when its last one is full, and gives them all back when it ends. Look
# for pages that change hands, and for a sequence whose pages do not lie side by side: its block table is what keeps them together.

# %%
figure, axis = plt.subplots(figsize=(10, 3.5), layout="constrained")
pages_over_time(axis, runs["paged"], POOL // PAGE + 1)

longest = max((seen for step in runs["paged"] for seen in step.running.values()), key=lambda seen: len(seen.blocks))
print(f"sequence {longest.seq_id} ends with the block table {list(longest.blocks)}")

# %% [markdown]
# ## What it is good for: more sequences at once
#
# The device does not get faster by paging. But a decode step reads all weights once, for one sequence or for ten: with more sequences
# in each step there are fewer steps.

# %%
figure, axis = plt.subplots(figsize=(10, 2.5), layout="constrained")
for (stage, steps), colour in zip(runs.items(), (BLUE, ORANGE), strict=True):
    axis.step(range(len(steps)), [len(step.work) for step in steps], where="post", color=colour, label=stage)
axis.set(xlabel="step", ylabel="sequences in the step", ylim=(0, 11))
axis.legend(frameon=False)
for stage, stats in wasted.items():
    print(f"{stage:8} {len(runs[stage])} steps; of the places that it reserved, {stats.kv_wasted:.0%} were empty")

# %% [markdown]
# ## How large should a page be?
#
# On average half a page of each sequence is empty, so small pages waste less. But each page is an entry in a block table, which is sent
# to the device and read by the attention kernel. We let the allocator tell both.

# %%
ends = [len(prompt) + output for _, prompt, output in requests]
sizes = [1, 2, 4, 8, 16, 32, 64, 128]
empty = [1 - sum(ends) / sum(reserved(PagedBlocks(257, size), end) for end in ends) for size in sizes]
entries = [sum(-(-end // size) for end in ends) / len(ends) for size in sizes]

figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
axis.plot(sizes, [100 * share for share in empty], "o-", color=BLUE)
axis.set_xscale("log", base=2)
axis.set_xlabel("tokens in a page")
axis.set_ylabel("empty, %", color=BLUE)
other = axis.twinx()
other.plot(sizes, entries, "s--", color=ORANGE)
_ = other.set_ylabel("entries of a block table", color=ORANGE)

# %% [markdown]
# ## Now you
#
# 1. Set `MAX_LEN` to 256 and run everything again. Which of the two stages takes more steps than before, and why only that one?
# 2. Give `paged` a pool of 256 tokens instead of 512. Sequences must now wait, or give way to others. Find both in the pages' plot.
# 3. Give two of the requests the same prompt. They still hold a copy each. Which of their pages could they share, and which not?
