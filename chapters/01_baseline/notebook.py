# %% [markdown]
# # From logits to a token
#
# We ask SmolLM2-135M for its opinion on the next token, and look at what temperature, noise and batches make of it. The first run
# fetches the model (93 MB); `make model` does it beforehand. No GPU is needed, and every run gives the same pictures.

# %%
import json
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import torch

warnings.filterwarnings("ignore", message="IProgress")  # of progress bars, which are not used here

from minfer import LLM, SamplingParams
from minfer.course.drawing import BLUE, GREEN, INK, ORANGE, PINK, STYLE
from minfer.hf_model import hide_loading_bars
from minfer.hub import find_model
from minfer.sample.filters import distances
from minfer.sample.noise import log_arrivals

plt.rcParams.update(STYLE)
hide_loading_bars()
llm = LLM(str(find_model("smollm2-135m")), stage="hf", max_model_len=256, max_num_seqs=4)
PROMPT = "The sea is"

# %% [markdown]
# ## The model's opinion
#
# A log-probability is a logit up to a constant of the row, and a distance does not care about constants. So the 20 likeliest tokens and
# their log-probabilities are all that we need here. Before you run the cell: how likely do you think the first one is?

# %%
first = llm.generate([PROMPT], SamplingParams(temperature=0, max_tokens=1, logprobs=20), progress=False)[0].outputs[0]
entries = sorted(first.logprobs[0].items(), key=lambda item: -item[1].logprob)
ids = torch.tensor([token for token, _ in entries])
logits = torch.tensor([entry.logprob for _, entry in entries])
words = [repr(llm.tokenizer.decode([token])) for token in ids.tolist()]

figure, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained", sharey=True)
for axis, temperature, colour in zip(axes, (0.3, 1.0, 2.0), (BLUE, ORANGE, GREEN), strict=True):
    axis.barh(words[:10], torch.softmax(logits / temperature, -1)[:10], color=colour)
    axis.set_title(f"temperature {temperature:g}", fontsize=9)
    axis.set_xlabel("probability among the 20")
axes[0].invert_yaxis()

# %% [markdown]
# A low temperature leaves little but the favourite; a high one lets everybody hope.
#
# ## One race
#
# Each token's distance is certain, its noise is luck. A blue dot is the distance at temperature 1, and the bar leads from there to
# where the token arrives. The one furthest left wins.

# %%
SEED, POSITION = 4, 3  # the prompt has the positions 0, 1 and 2
d = distances(logits[None], torch.ones(1))[0]
noise = log_arrivals(torch.tensor([SEED]), torch.tensor([POSITION]), int(ids.max()) + 1)[0][ids]
winner = int((d + noise).argmin())

figure, axis = plt.subplots(figsize=(8, 4), layout="constrained")
for row, (start, luck) in enumerate(zip(d.tolist(), noise.tolist(), strict=True)):
    axis.plot([start, start + luck], [row, row], color=GREEN if row == winner else INK, linewidth=3)
    axis.plot(start, row, "o", color=BLUE, markersize=4)
    axis.plot(start + luck, row, "|", color=GREEN if row == winner else ORANGE, markersize=12)
axis.set_yticks(range(len(words)), words)
axis.invert_yaxis()
axis.set_xlabel("distance + log E")
print(f"seed {SEED} at position {POSITION} takes {words[winner]}")

# %% [markdown]
# ## Many races
#
# One race proves nothing. Here are 4,000 of them, with the seeds 0 to 3,999, at two temperatures. The line is what softmax promises.

# %%
RACES = 4000
seeds, positions = torch.arange(RACES), torch.full((RACES,), POSITION)
luck = log_arrivals(seeds, positions, int(ids.max()) + 1)[:, ids]

figure, axes = plt.subplots(1, 2, figsize=(10, 3), layout="constrained", sharey=True)
for axis, temperature in zip(axes, (0.7, 1.5), strict=True):
    wins = torch.bincount((d / temperature + luck).argmin(-1), minlength=len(ids)) / RACES
    axis.bar(range(len(ids)), wins, color=ORANGE, label="share of the races won")
    axis.plot(torch.softmax(logits / temperature, -1), "o-", color=BLUE, markersize=3, label="softmax")
    axis.set_title(f"temperature {temperature:g}", fontsize=9)
    axis.set_xlabel("token, likeliest first")
axes[0].legend(frameon=False)

# %% [markdown]
# ## A text does not depend on its neighbours
#
# The same prompt and seed, alone and beside three others. In between, PyTorch's global generator is disturbed on purpose. The text
# begins with the winner of the race above: the engine held the very same one.

# %%
params = SamplingParams(temperature=1, seed=SEED, max_tokens=10)
alone = llm.generate([PROMPT], params, progress=False)[0].outputs[0].text
torch.rand(5)
others = ["Water boils at", "In the year 1969,", "A good friend"]
beside = llm.generate([others[0], PROMPT, *others[1:]], params, progress=False)[1].outputs[0].text
print(alone, beside, sep="\n")
assert alone == beside

# %% [markdown]
# ## The rectangle
#
# transformers' cache has a row for each sequence of the batch and a column for each position. Four prompts, four output lengths: which
# places hold a token that somebody will read again? Pink places are padding on the left, grey ones belong to sequences that have ended.

# %%
prompts, outputs = [117, 10, 96, 67], [38, 41, 9, 45]
columns = max(prompts) + max(outputs)
grid = torch.zeros(len(prompts), columns)
for row, (prompt, output) in enumerate(zip(prompts, outputs, strict=True)):
    grid[row, : max(prompts) - prompt] = 1
    grid[row, max(prompts) + output :] = 2

figure, axis = plt.subplots(figsize=(10, 2), layout="constrained")
axis.imshow(grid, aspect="auto", cmap=plt.matplotlib.colors.ListedColormap([BLUE, PINK, "#9a9a9a"]), interpolation="nearest")
axis.set_yticks(range(len(prompts)), [f"{p} + {o} tokens" for p, o in zip(prompts, outputs, strict=True)])
axis.set_xlabel("column of the cache")
print(f"{(grid > 0).float().mean():.0%} of the {grid.numel()} places are of no use at the end")

# %% [markdown]
# ## The floor
#
# The chapter's own measurement: what a step costs with one sequence and with four, and the time that reading the weights takes in any
# case. `measure.py` writes the file on your machine.

# %%
here = Path("measured.json") if Path("measured.json").exists() else Path("chapters/01_baseline/measured.json")
measured = json.loads(here.read_text())
figure, axis = plt.subplots(figsize=(5, 3), layout="constrained")
names, times = zip(*((f"{each['batch']} at once", each["ms"]) for each in measured["decode"]), strict=True)
axis.bar(names, times, color=BLUE, width=0.5)
axis.axhline(measured["floor_ms"], color=ORANGE, linestyle="--", label="reading the weights")
axis.set_ylabel("ms a decode step")
axis.legend(frameon=False)
print("; ".join(f"{each['tokens_per_s']:.1f} tokens/s with {each['batch']}" for each in measured["decode"]))
llm.close()

# %% [markdown]
# ## Now you
#
# 1. Which temperature makes the favourite exactly as likely as all others of the 20 together? Compute it, then run a thousand races.
# 2. In the race above, take the winner out. Who wins then? Must it be the token that came in second?
# 3. Put your own `sample` into the engine, `LLM(..., swap={"sample": "part.py:sample"})`, and run all cells again. Nothing may change.
