"""The real SmolLM2-135M-Instruct, through transformers' own model: that it was converted right, before any of our code runs it."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import AutoModelForCausalLM

from minfer.tokenizer import load_tokenizer

pytestmark = pytest.mark.smollm2

TEXT = (
    "Water is made of hydrogen and oxygen. Each molecule of water has two hydrogen atoms and one oxygen atom. At sea level,"
    " water freezes at 0 degrees Celsius and boils at 100 degrees Celsius. About 71 percent of the surface of the Earth is "
    "covered by water, and most of that water is in the oceans. Plants, animals and people need water to live. When the sun"
    " warms the water in lakes and oceans, some of it evaporates and rises into the air, where it cools and forms clouds. "
    "Then it falls back to the ground as rain or snow."
)


@pytest.fixture(scope="module")
def tokenizer(smollm2_path):
    return load_tokenizer(smollm2_path)


@pytest.fixture(scope="module")
def model(smollm2_path):
    return AutoModelForCausalLM.from_pretrained(smollm2_path, dtype=torch.float32, attn_implementation="eager").eval()


def test_config(smollm2_path):
    """The model's published settings."""
    config = json.loads((smollm2_path / "config.json").read_text())
    published = {"num_hidden_layers": 30, "hidden_size": 576, "intermediate_size": 1536, "vocab_size": 49152}
    published |= {"num_attention_heads": 9, "num_key_value_heads": 3, "rms_norm_eps": 1e-5, "max_position_embeddings": 8192}
    published |= {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2, "tie_word_embeddings": True, "hidden_act": "silu"}
    assert {key: config[key] for key in published} == published
    assert config.get("rope_theta", config.get("rope_parameters", {}).get("rope_theta")) == 100000


@torch.no_grad()
def test_loss(model, tokenizer):
    """The weights' rows are in the right order: the loss on TEXT is 1.65. With q and k in GGUF's order it is 3.73, with one of them
    7.6 or more, while the text that the model writes still looks like English."""
    ids = tokenizer(TEXT, return_tensors="pt").input_ids
    assert model(ids, labels=ids).loss.item() < 2.6


@torch.no_grad()
def test_paris(model, tokenizer):
    logits = model(tokenizer("The capital of France is", return_tensors="pt").input_ids).logits[0, -1]
    assert tokenizer.decode([logits.argmax().item()]) == " Paris"
    assert logits.softmax(-1).max().item() > 0.7


def test_tokenizer(tokenizer):
    """Digits stand alone, special tokens are single, no BOS is added, spaces and unknown characters survive."""
    assert tokenizer.tokenize("In 1969,") == ["In", "Ġ", "1", "9", "6", "9", ","]
    assert tokenizer("<|im_start|>hi<|im_end|>").input_ids[::2] == [1, 2]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id, len(tokenizer)) == (1, 2, 2, 49152)
    assert len([token for token in tokenizer.added_tokens_decoder.values() if token.special]) == 17
    text = "  naïve 😀 ไทย\t12\n"
    assert tokenizer.decode(tokenizer.encode(text), clean_up_tokenization_spaces=False) == text


def test_chat_template(tokenizer):
    """The template adds the system's words, wraps each turn, and opens the assistant's."""
    text = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True)
    assert text.startswith("<|im_start|>system\n")
    assert text.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
