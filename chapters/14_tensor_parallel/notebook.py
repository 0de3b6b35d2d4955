# %% [markdown]
# # Addends
#
# Tensor parallelism in slow motion: who holds what, what a rank computes on its own, and what the sum makes of it. First the
# ranks are threads of this notebook, so that we can look into them. At the end they are two processes. No GPU.

# %%
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from transformers.utils import logging

from minfer import LLM, SamplingParams
from minfer.course.drawing import BLUE, GREEN, ORANGE, STYLE
from minfer.model_config import ModelConfig
from minfer.shard import Shard
from minfer.testing.checkpoints import make_checkpoint
from minfer.testing.decoding import TORCH_FUNCTIONS, compute_logits, load
from minfer.testing.ranks import Meeting, ThreadGroup
from minfer.traffic import sum_bytes
from minfer.weights import load_decoder

plt.rcParams.update(STYLE)
logging.disable_progress_bar()
folder = tempfile.TemporaryDirectory()
path = make_checkpoint(Path(folder.name), "llama", num_attention_heads=6, num_key_value_heads=3, attention_bias=True)
model = ModelConfig.load(path)
print(f"{model.num_heads} query heads, {model.num_kv_heads} K/V heads of {model.head_dim}, hidden size {model.hidden_size}")

# %% [markdown]
# ## Who holds which K/V head
#
# Six query heads, two for each K/V head. Before you run the cell: what does each of two ranks hold? Each of three? Of six?

# %%
for size in (1, 2, 3, 6):
    held = [Shard(model, rank, size).kv_heads for rank in range(size)]
    print(f"{size} ranks: {held}, K/V heads in all {sum(map(len, held))}")

# %% [markdown]
# On three ranks nothing is held twice. On two, the K/V head in the middle is on both, and each rank holds one of its heads twice,
# since its three query heads cannot be cut into equal runs otherwise. On six there are two copies of everything. Copies cost
# memory in the K/V cache; they cost no time.
#
# ## Rows and columns
#
# Each picture is a weight as it lies in the file: rows are what comes out, columns what goes in. A colour is a rank.

# %%
names = ["q_proj", "k_proj", "o_proj", "up_proj", "down_proj"]
H, D, MLP = model.hidden_size, model.head_dim, model.intermediate_size
rows_and_columns = [(6 * D, H), (3 * D, H), (H, 6 * D), (MLP, H), (H, MLP)]
figure, axes = plt.subplots(1, len(names), figsize=(10, 2.6), layout="constrained")
for axis, name, (rows, columns) in zip(axes, names, rows_and_columns, strict=True):
    for rank, colour in enumerate((BLUE, ORANGE)):
        cut = Shard(model, rank, 2).cut(f"model.layers.0.x.{name}.weight")
        for start, stop in cut.ranges:
            across = (0, columns) if cut.dim == 0 else (start, stop)
            down = (start, stop) if cut.dim == 0 else (0, rows)
            axis.fill_between(across, *down, color=colour, alpha=0.55, linewidth=0)
    axis.set(title=f"{name} [{rows}, {columns}]", xlim=(0, columns), ylim=(rows, 0), xticks=[], yticks=[])

# %% [markdown]
# In `k_proj` the middle third has both colours. `o_proj` and `down_proj` are cut the other way.
#
# ## What a rank knows alone
#
# We run one prompt through both ranks, and keep what comes out behind the first `o_proj`: before the sum, and after it. The whole
# model's value is the dashed line.


# %%
class Watching(ThreadGroup):
    """Remembers the first addend and the first sum."""

    def all_reduce(self, x):
        total = super().all_reduce(x)
        if not hasattr(self, "first"):
            self.first = x.clone(), total.clone()
        return total


prompt = [5, 17, 200, 31]
meeting = Meeting(2)
groups = [Watching(rank, 2, meeting) for rank in range(2)]
decoders = []
for rank, group in enumerate(groups):
    shard = Shard(model, rank, 2)
    decoders.append(load_decoder(path, shard, TORCH_FUNCTIONS, torch.float32, "cpu", 64))
    shard.connect(decoders[-1], group)
with ThreadPoolExecutor(2) as pool:
    logits = list(pool.map(lambda decoder: compute_logits(decoder, [prompt], [[4]]), decoders))

whole, seen = load(path), []
hook = whole.layers[0].self_attn.o_proj.register_forward_hook(lambda module, arguments, out: seen.append(out.clone()))
expected = compute_logits(whole, [prompt], [[4]])
hook.remove()

figure, axis = plt.subplots(figsize=(9, 2.6), layout="constrained")
for rank, colour in enumerate((BLUE, ORANGE)):
    axis.plot(groups[rank].first[0][0], color=colour, linewidth=1, label=f"rank {rank}'s addend")
axis.plot(groups[0].first[1][0], color=GREEN, linewidth=2.4, label="their sum")
axis.plot(seen[0][0], "k--", linewidth=0.8, label="the whole model")
axis.set(xlabel="element of the hidden state", xlim=(0, H - 1))
axis.legend(frameon=False, ncols=4, fontsize=8)
print("largest difference of the logits:", f"{float((logits[0][0] - expected[0]).abs().max()):.1e}")
print("both ranks have the same bits:", torch.equal(logits[0][0], logits[1][0]))

# %% [markdown]
# An addend is no approximation of the sum: each rank alone is far off, in every element. And the ranks have the same logits to
# the last bit, which is why each may sample for itself.
#
# ## A bias that counts twice
#
# This model has a bias behind `o_proj`. We give it to both ranks, which is the most common fault of all.


# %%
class BiasOnEach(Shard):
    def cut(self, name):
        return None if name.endswith("o_proj.bias") else super().cut(name)


meeting = Meeting(2)
decoders = []
for rank in range(2):
    shard = BiasOnEach(model, rank, 2)
    decoders.append(load_decoder(path, shard, TORCH_FUNCTIONS, torch.float32, "cpu", 64))
    shard.connect(decoders[-1], ThreadGroup(rank, 2, meeting))
with ThreadPoolExecutor(2) as pool:
    wrong = list(pool.map(lambda decoder: compute_logits(decoder, [prompt], [[4]]), decoders))
print("likeliest next tokens, whole model:      ", expected[0].argmax(-1).tolist())
print("likeliest next tokens, bias counted twice:", wrong[0][0].argmax(-1).tolist())
print("largest difference of the logits:", f"{float((wrong[0][0] - expected[0]).abs().max()):.2f}")

# %% [markdown]
# Nothing fails, no shape is wrong, and on a model without biases the text is right.
#
# ## Bytes
#
# What a rank of llama-8b brings to the sums of one step, by the step's tokens. For one token it is half a mebibyte in 64
# messages; for a prompt's chunk of 2048 tokens, a gibibyte.

# %%
llama = ModelConfig.load(Path("dummy:llama-8b"))
tokens = [2**k for k in range(12)]
figure, axis = plt.subplots(figsize=(7, 2.8), layout="constrained")
axis.loglog(tokens, [sum_bytes(llama, count, 2) / 2**20 for count in tokens], "o-", color=BLUE)
axis.set(xlabel="tokens in the step", ylabel="MiB to the sums")

# %% [markdown]
# ## Two processes
#
# Now for real: the whole engine on two processes of this machine, which add up over gloo, against the same engine on one device.

# %%
prompts = [[11, 45, 7, 102], [9, 9, 31], list(range(40, 60))]
params = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)
found = {}
for size in (1, 2):
    options = {"executor": "processes", "tensor_parallel_size": size} if size > 1 else {}
    with LLM("dummy:tiny", stage="chunked", device="cpu", max_model_len=128, **options) as llm:
        found[size] = [output.outputs[0].token_ids for output in llm.generate(prompts, params)]
print("equal, token for token:", found[1] == found[2])
folder.cleanup()

# %% [markdown]
# The caller of the second engine had no model: it sent plans, and took token ids. Where the processes are does not matter to it,
# and chapter 15 makes use of that.
