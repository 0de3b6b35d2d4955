# %% [markdown]
# # Chunked prefill: a long prompt, and who waits for it
#
# Two people are reading along as their answers appear. A third sends a long prompt. This notebook shows what the two see with the
# stage `continuous`, which computes a prompt whole, and with `chunked`, which cuts it to a budget of tokens a step.
#
# Where time is measured the model has the shape of SmolLM2-135M, with random weights. Where only steps are counted it is tiny.

# %%
import itertools
import warnings

import matplotlib.pyplot as plt

warnings.filterwarnings("ignore", message="IProgress")  # of progress bars, which are not used here

from minfer import LLM
from minfer.course.drawing import BLUE, ORANGE, STYLE
from minfer.course.plots import schedule, tokens_per_step
from minfer.course.recording import play

plt.rcParams.update(STYLE)
BUDGET = 32  # tokens that a step of `chunked` computes at most
LONG = 200  # tokens of the long prompt
STAGES = {"continuous": BLUE, "chunked": ORANGE}
ARRIVALS = [(0, [5] * 12, 16), (0, [6] * 8, 16), (4, [7] * LONG, 4)]
NAMES = {0: "reader A", 1: "reader B", 2: "long prompt"}


def run(model: str, stage: str, budget: int = BUDGET) -> list:
    sizes = {"max_model_len": 512, "max_num_seqs": 4, "num_kv_blocks": 64, "max_num_batched_tokens": budget}
    with LLM(model, stage=stage, **sizes) as llm:
        warm_up = len(play(llm, [(0, [5] * 8, 2)]))
        steps = play(llm, [(due, prompt, output) for due, prompt, output in ARRIVALS])
    assert warm_up == 2
    return steps


# %% [markdown]
# ## Who computes what
#
# Sequence 0 was used to warm up; the readers are 1 and 2, the long prompt is 3. Each bar is a step. Blue: prompt tokens, and how many.

# %%
names = {seq_id + 1: name for seq_id, name in NAMES.items()}
runs = {stage: run("dummy:tiny", stage) for stage in STAGES}
figure, axes = plt.subplots(2, 1, figsize=(10, 3.6), layout="constrained")
for axis, (stage, steps) in zip(axes, runs.items(), strict=True):
    schedule(axis, steps, names=names)
    axis.set_title(stage, loc="left", fontsize=9)

# %% [markdown]
# Counted in steps nothing is wrong with the upper plot: the readers get a token in every step, and the long prompt needs one step only.
# But steps are not equally long.
#
# ## The same, by the clock
#
# Guess first: a step that computes two decodes takes some time T. How long will a step take that computes 200 prompt tokens as well?

# %%
timed = {stage: run("dummy:smollm2-135m", stage) for stage in STAGES}
figure, axes = plt.subplots(2, 1, figsize=(10, 3.6), layout="constrained", sharex=True)
for axis, (stage, steps) in zip(axes, timed.items(), strict=True):
    schedule(axis, steps, by="time", names=names)
    axis.set_title(stage, loc="left", fontsize=9)
axes[0].set_xlabel("")
_ = axes[0].set_xlim(0, 1e3 * max(steps[-1].ended - steps[0].begun for steps in timed.values()))

# %% [markdown]
# The wide bar is the stall: while the prompt is computed, both readers look at a text that stands still.
#
# ## What a reader feels
#
# The time between two tokens of reader A. The largest one is what the reader remembers.


# %%
def gaps(steps: list, seq_id: int) -> list[float]:
    """Milliseconds between the tokens of a sequence."""
    times = [step.ended for step in steps if seq_id in step.sampled]
    return [1e3 * (later - earlier) for earlier, later in itertools.pairwise(times)]


figure, axis = plt.subplots(figsize=(10, 2.5), layout="constrained")
axis.set(xlabel="token of reader A", ylabel="ms since the one before")
for (stage, steps), colour in zip(timed.items(), STAGES.values(), strict=True):
    axis.plot(gaps(steps, 1), "o-", color=colour, label=stage)
    axis.legend(frameon=False)
    first = next(step.ended for step in steps if 3 in step.sampled) - steps[4].begun
    print(f"{stage:10} longest gap {max(gaps(steps, 1)):5.0f} ms; the long prompt's first token after {1e3 * first:5.0f} ms")

# %% [markdown]
# Chunking does not make the work less. It spreads it: the readers' gaps are more even, and the long prompt's own first token comes no
# earlier, often later.
#
# ## The budget
#
# A step of `chunked` takes the decodes first, one token each. What is left of the budget goes to prompts.

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 3), layout="constrained")
for axis, (stage, steps) in zip(axes, runs.items(), strict=True):
    tokens_per_step(axis, steps, budget=BUDGET)
    axis.set_title(stage, loc="left", fontsize=9)

# %% [markdown]
# The budget is a choice between two people. A small one keeps the steps short for those who read. A large one brings the newcomer's
# first token in fewer steps. We count both for several budgets.

# %%
budgets = [8, 16, 32, 64, 128, 256, 512]
largest, delay = [], []
for budget in budgets:
    steps = run("dummy:tiny", "chunked", budget)
    largest.append(max(step.num_new for step in steps))
    delay.append(next(number for number, step in enumerate(steps) if 3 in step.sampled) - 3)

figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
axis.plot(budgets, largest, "o-", color=BLUE)
axis.set_xscale("log", base=2)
axis.set_xlabel("budget, tokens a step")
axis.set_ylabel("tokens of the largest step", color=BLUE)
other = axis.twinx()
other.plot(budgets, delay, "s--", color=ORANGE)
_ = other.set_ylabel("steps to the newcomer's first token", color=ORANGE)

# %% [markdown]
# ## Now you
#
# 1. With a budget of 8, the two decodes leave 6 tokens a step for the prompt. How many steps would it need if both readers read on to
#    its end? The last plot says fewer. Why?
# 2. Let seven readers be there instead of two, with a budget of 8 and `max_num_seqs` of 9. How many tokens a step are left for the
#    prompt? What happens with eight readers?
# 3. On a GPU a step with 64 tokens takes hardly longer than one with 2, since both read all weights once. What does that say about a
#    good budget there?
