# %% [markdown]
# # The ladder in ten minutes
#
# minfer is an engine that serves language models, built as a ladder: every stage is the stage before with exactly one part swapped.
# This notebook walks up the ladder with a real model, SmolLM2-135M, on your own machine. It needs no GPU. The first run fetches the
# model (93 MB); `make model` does it beforehand.

# %%
import json
import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt

warnings.filterwarnings("ignore", message="IProgress")  # of progress bars, which are not used here

import minfer
from minfer import LLM, SamplingParams
from minfer.bench.ladder import climb, runnable, swaps, with_ratios
from minfer.bench.plot import draw_ladder
from minfer.bench.workload import mixed
from minfer.course.drawing import BLUE, INK, ORANGE, STYLE
from minfer.course.plots import page_map, schedule
from minfer.course.recording import record
from minfer.hf_model import hide_loading_bars
from minfer.hub import find_model
from minfer.stages import LADDER

plt.rcParams.update(STYLE)
hide_loading_bars()
PATH = find_model("smollm2-135m")
ROOM = {"max_model_len": 256, "max_num_seqs": 4, "num_kv_blocks": 48}  # up to four sequences at once, in 48 pages of 16 tokens
GREEDY = SamplingParams(temperature=0, max_tokens=16)

# %% [markdown]
# ## The first rung
#
# The stage `hf` is transformers' own model with its own cache. It is slow, and it is right: all other stages must give its tokens.

# %%
PROMPTS = ["The capital of France is", "Water boils at", "In the year 1969, the first man"]
with LLM(str(PATH), stage="hf", max_model_len=256, max_num_seqs=4) as llm:
    baseline = llm.generate(PROMPTS, GREEDY, progress=False)
for output in baseline:
    print(f"{output.prompt!r} {output.outputs[0].text!r}")

# %% [markdown]
# ## One part at a time
#
# Here is the ladder. A *slot* is a place in the engine, a *part* is what fills it.

# %%
for stage in LADDER:
    slot, part = swaps(stage)
    print(f"{stage.name:17} {slot or '':11} {part or ''}")

# %% [markdown]
# ## Watching a run
#
# We run six requests through `chunked`, with room for four, and record what the scheduler decides. Blue is a step that computes prompt
# tokens, orange one that computes a single new token.

# %%
MORE = [*PROMPTS, "The best way to learn programming is", "Bread is made from", "A long time ago"]
with LLM(str(PATH), stage="chunked", **ROOM) as llm, record(llm) as steps:
    watched = llm.generate(MORE, [SamplingParams(temperature=0, max_tokens=n) for n in (16, 16, 16, 6, 10, 8)], progress=False)
names = {number: f"{prompt[:22]}..." for number, prompt in enumerate(MORE)}

figure, axis = plt.subplots(figsize=(10, 3), layout="constrained")
schedule(axis, steps, names=names)
for ours, theirs in zip(watched, baseline, strict=False):
    print(f"{ours.prompt!r}: the same tokens as hf: {ours.outputs[0].token_ids == theirs.outputs[0].token_ids}")

# %% [markdown]
# The K/V cache is a pool of pages. This is who holds them in step 8, and how full they are.

# %%
figure, axis = plt.subplots(figsize=(8, 1.8), layout="constrained")
page_map(axis, steps[8], ROOM["num_kv_blocks"] + 1, 16, columns=25)

# %% [markdown]
# ## Your machine's ladder
#
# Six requests of random tokens through every stage that this machine can run. `cpu` stands off the ladder: it is the fastest mix of
# parts for a processor. The others need an NVIDIA GPU. Before you run the cell: which step up will be the largest here?
#
# A bar is as long as the stage is fast; its blue part is what the stage before reaches too, and its orange part is what was won.

# %%
stages, not_here = runnable("cpu")
workload = mixed(6, (8, 32), (2, 12), vocab_size=49152, max_len=256)
results = climb(PATH, stages, [workload], {"max_model_len": 256, "max_num_seqs": 4, "device": "cpu"})

figure, axis = plt.subplots(figsize=(8, 2.6), layout="constrained")
draw_ladder(axis, with_ratios([result.describe() for result in results]), before=BLUE, after=ORANGE)
axis.set_xlabel("output tokens a second")
print("not here:", ", ".join(not_here))

# %% [markdown]
# These are short runs on a machine that may be busy. `minfer ladder` measures with repeats and writes a report.
#
# ## The same on a GPU
#
# This is such a report, recorded on the card that it names and kept in the repository.

# %%
RESULTS = Path(minfer.__file__).parent.parent / "benchmarks" / "results"
report = json.loads((RESULTS / "ladder-h200.json").read_text())

figure, axis = plt.subplots(figsize=(8, 1 + 0.34 * len(report["stages"])), layout="constrained")
draw_ladder(axis, with_ratios(report["stages"]), before=BLUE, after=ORANGE)
axis.set_xlabel("output tokens a second")
_ = axis.set_title(f"{report['model']}, {report['hardware']['gpus'][0]['name']}, commit {report['commit'][:8]}", fontsize=9)

# %% [markdown]
# Decode attention is as fast as it can be when it reads memory as fast as the card can copy it. So it is measured beside a plain copy,
# in the same run.

# %%
kernels = json.loads((RESULTS / "kernels-h200.json").read_text())
bars = {}
for case in kernels["results"]:
    ours = next(each for each in case["contenders"] if each["name"] == "minfer")
    if case["slot"].startswith("attention, decode") and ours.get("share_of_copy"):
        bars[case["shape"]] = ours["share_of_copy"]

figure, axis = plt.subplots(figsize=(8, 2.4), layout="constrained")
axis.bar(list(bars), [100 * share for share in bars.values()], color=ORANGE, width=0.5)
axis.axhline(100, color=INK, linestyle="--", linewidth=1)
axis.set(xlabel="decode attention: sequences x context", ylabel="% of the copy's bandwidth")
print(f"the copy: {kernels['copy_gb_per_s']:.0f} GB/s on {kernels['hardware']['gpus'][0]['name']}")

# %% [markdown]
# ## A part of your own
#
# A part is a function or a class in any file. This one takes the likeliest token, always; we swap it into `chunked` by its file's name.

# %%
mine = Path(tempfile.mkdtemp()) / "mine.py"
mine.write_text("""
def sample(logits, batch):
    return logits.argmax(dim=-1)
""")
with LLM(str(PATH), stage="chunked", swap={"sample": f"{mine}:sample"}, **ROOM) as llm:
    print(llm.generate("The capital of France is", GREEDY, progress=False)[0].outputs[0].text)

# %% [markdown]
# With greedy requests it does what minfer's own part does. But does it keep what the slot promises? There is a check for each slot, and
# it answers with a small case that fails. This part fails, since it never looks at temperatures or penalties.
#
# ```
# minfer check sample --part mine.py:sample
# ```
#
# ## Where to go next
#
# - `minfer start ch01` copies the first chapter's starter to you; `chapters/01_baseline/README.md` is its text.
# - The notebooks of the chapters show one idea each: pages in 3, batches in 4, chunks in 5.
# - `minfer stages` says what your machine can run.
