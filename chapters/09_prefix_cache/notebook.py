# %% [markdown]
# # A prefix cache: what is found, what is shared, and what goes first
#
# Requests that begin with the same tokens need the same K and V for them. This notebook lets them share, and looks at what it is worth
# and where it ends. The model is tiny and random, and everything is counted in tokens and pages. The last plot shows times that were
# recorded with SmolLM2.

# %%
import json
import random
import warnings
from pathlib import Path

import matplotlib.pyplot as plt

warnings.filterwarnings("ignore", message="IProgress")  # of progress bars, which are not used here

from minfer import LLM
from minfer.blocks.prefix import PrefixBlocks
from minfer.course.drawing import BLUE, ORANGE, STYLE
from minfer.course.plots import page_map, tokens_per_step
from minfer.course.recording import play
from minfer.course.toy_run import sequence

plt.rcParams.update(STYLE)
PAGE = 8  # tokens in a page
SYSTEM = list(range(10, 60))  # a system prompt of 50 tokens
PARTS = {"paged": "minfer.blocks.paged:PagedBlocks", "prefix": "minfer.blocks.prefix:PrefixBlocks"}


def run(blocks: str, arrivals: list, pages: int = 63) -> list:
    """The steps of a run. Each arrival is (step, prompt, output tokens)."""
    sizes = {"max_model_len": 128, "max_num_seqs": 6, "block_size": PAGE, "num_kv_blocks": pages}
    with LLM("dummy:tiny", stage="chunked", swap={"blocks": PARTS[blocks]}, **sizes) as llm:
        return play(llm, arrivals)


# %% [markdown]
# ## Four users, one system prompt
#
# Four users come one after the other, four steps apart. Each sends the same system prompt of 50 tokens and a question of its own, of 6
# tokens. Before you run the cell: how many tokens does the second user's first step compute, in pages of 8?

# %%
users = [(4 * user, [*SYSTEM, *(100 + 10 * user + at for at in range(6))], 12) for user in range(4)]
runs = {blocks: run(blocks, users) for blocks in PARTS}
figure, axes = plt.subplots(1, 2, figsize=(10, 3), layout="constrained", sharey=True)
for axis, (blocks, steps) in zip(axes, runs.items(), strict=True):
    tokens_per_step(axis, steps)
    axis.set_title(f"{blocks}: {sum(step.num_new for step in steps)} tokens computed", loc="left", fontsize=9, pad=22)

# %% [markdown]
# The first user pays in both. Later ones find 48 of their 56 tokens, six whole pages. The seventh page has two tokens of the system
# prompt and six of the question, so it is nobody else's.
#
# ## The pages that they share
#
# A square is a page. One that several sequences hold has a strip of each. Count the pages in use on either side.

# %%
figure, axes = plt.subplots(2, 1, figsize=(9, 4.6), layout="constrained")
for axis, (blocks, steps) in zip(axes, runs.items(), strict=True):
    step = max(steps, key=lambda step: len(step.running))
    held = {block for seen in step.running.values() for block in seen.blocks}
    page_map(axis, step, 64, PAGE, columns=22)
    axis.set_title(f"{blocks}: {len(step.running)} sequences on {len(held)} pages", loc="left", fontsize=9)

# %% [markdown]
# Time is not all that a prefix cache saves. A system prompt that is shared is in memory once.
#
# ## Free is not forgotten
#
# Nothing is reserved for the cache. Pages that nobody holds stay findable until their memory is needed, the longest free first. So what
# is found depends on how much memory is free. We let users of six system prompts take turns, 8 pages each, and ask the allocator what
# it finds, for pools of different size. In one run the six come in turn, in the other at random, some more often than others.
#
# Guess: with a pool that has room for five of the six, what share of the system prompts' tokens is found if they come in turn?

# %%
PROMPTS = [[1000 * number + at for at in range(8 * PAGE)] for number in range(6)]
random.seed(0)
ORDERS = {
    "in turn": [turn % 6 for turn in range(240)],
    "at random, some more often": random.choices(range(6), weights=[32, 16, 8, 4, 2, 1], k=240),
}


def share_found(order: list[int], pages: int) -> float:
    """Of all prompt tokens, the share found; one user at a time, whose question fills one page more."""
    blocks, found, asked = PrefixBlocks(1 + pages, PAGE), 0, 0
    for turn, number in enumerate(order):
        question = [10**6 + 100 * turn + at for at in range(PAGE)]
        user = sequence(turn, [*PROMPTS[number], *question], 4)
        user.num_computed = blocks.match(user)
        found, asked = found + user.num_computed, asked + user.num_tokens
        assert blocks.allocate(user, user.num_tokens)
        user.num_computed = user.num_tokens
        blocks.commit(user)
        blocks.free(user)
    return found / asked


pools = list(range(9, 120, 3))
figure, axis = plt.subplots(figsize=(9, 3), layout="constrained")
for (name, order), colour in zip(ORDERS.items(), (BLUE, ORANGE), strict=True):
    axis.plot(pools, [100 * share_found(order, pages) for pages in pools], color=colour, label=name)
axis.axvline(6 * 8, color="#7b7b7b", linestyle="--", linewidth=1)
axis.set(xlabel="pages in the pool (dashed: what the six system prompts need)", ylabel="found, % of the tokens")
_ = axis.legend(frameon=False)

# %% [markdown]
# In turn, it is all or nothing. Whoever comes next is the one who has been away for longest, and whose pages have just been taken. No
# order of eviction that looks only at the past is good for every order of requests. With favourites, the longest free is a good guess.
#
# Note where the blue line rises: later than the dashed line. The questions take pages too, and these are remembered like any others.
#
# ## How large should a page be?
#
# Only whole pages are found. So large pages lose more at the end of the common part.

# %%
lengths = range(1, 201)
figure, axis = plt.subplots(figsize=(9, 3), layout="constrained")
for size, colour in ((8, BLUE), (64, ORANGE)):
    found = []
    for length in lengths:
        blocks = PrefixBlocks(210, size)
        first = sequence(0, [*range(length), 500, 501], 4)
        blocks.allocate(first, first.num_tokens)
        first.num_computed = first.num_tokens
        blocks.commit(first)
        found.append(blocks.lookup(sequence(1, [*range(length), 600, 601], 4)))
    axis.step(lengths, found, where="post", color=colour, label=f"pages of {size}")
axis.plot(lengths, lengths, "--", color="#7b7b7b", label="all of it")
axis.set(xlabel="tokens that the two prompts have in common", ylabel="tokens found")
_ = axis.legend(frameon=False)

# %% [markdown]
# ## In milliseconds
#
# Recorded with SmolLM2-135M on a CPU (`measured.json`, made by `measure.py`): five users, one after the other, with a system prompt of
# 512 tokens.

# %%
here = next(place for place in (Path(), Path("chapters/09_prefix_cache")) if (place / "measured.json").exists())
report = json.loads((here / "measured.json").read_text(encoding="utf-8"))
figure, axis = plt.subplots(figsize=(9, 3), layout="constrained")
for shift, colour, each in zip((-0.2, 0.2), (BLUE, ORANGE), report["runs"], strict=True):
    times = [user["ttft_ms"] for user in each["users"]]
    axis.bar([user + 1 + shift for user in range(len(times))], times, width=0.4, color=colour, label=each["blocks"])
axis.set(xlabel="user", ylabel="ms to the first token")
axis.legend(frameon=False)
print(report["hardware"]["cpu"], report["hardware"]["torch_threads"], "threads; commit", report["commit"][:8])

# %% [markdown]
# ## Now you
#
# 1. Let all four users of the first plot come in step 0. What is found, and why? What could a scheduler do about it?
# 2. Give `share_found` a longer question, of four pages. Which of the two lines moves further, and where to?
# 3. The system prompt has 50 tokens. Which length would you advise its author, with pages of 8?
