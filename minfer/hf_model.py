"""transformers' own model of a checkpoint: what minfer is compared with.

From: the folder that `hub.find_model` gives, or a shape of `dummy.py`. To: the `hf` executor, and the benchmarks' baseline.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from minfer import dummy

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def load_hf(path: Path, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """The model with its default attention, ready to run. Of a shape, it has the weights that minfer's own model has."""
    from transformers import AutoConfig, AutoModelForCausalLM

    hide_loading_bars()
    settings = dummy.settings(path)
    if settings is None:
        return AutoModelForCausalLM.from_pretrained(path, dtype=dtype, local_files_only=True).to(device).eval()
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**settings), dtype=dtype)
    dummy.fill(dict(model.named_parameters()))
    return model.eval()


def hide_loading_bars() -> None:
    """transformers shows a bar while it loads weights, also where stderr is no terminal; between our tables it only disturbs."""
    from transformers.utils import logging

    logging.disable_progress_bar()
