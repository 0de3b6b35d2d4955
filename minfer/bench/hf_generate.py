"""The other side of the comparison: transformers' own `generate` in static batches, as one would write it without an engine.

From: a Workload. To: a Run, beside the one of `bench/run.py`.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch

from minfer.bench.run import Run
from minfer.bench.workload import Workload
from minfer.hf_model import load_hf


class HFGenerate:
    """transformers' model with its default attention.

    A batch is padded on the left to its longest prompt and runs until its longest request is done; what a shorter request did
    not ask for is thrown away, and not counted.
    """

    def __init__(self, path: Path, dtype: torch.dtype, device: torch.device):
        from transformers import GenerationConfig

        self.model = load_hf(path, dtype, device)
        self.model.generation_config = GenerationConfig(do_sample=False, pad_token_id=0)  # greedy, and no token ends a row

    @torch.inference_mode()
    def run(self, workload: Workload, batch_size: int) -> Run:
        """Batches of batch_size requests, in the workload's order; every request gets its max_tokens, whatever its ids."""
        start = time.perf_counter()
        token_ids: list[list[int]] = []
        for first in range(0, len(workload.prompts), batch_size):
            batch = slice(first, first + batch_size)
            token_ids += self._batch(workload.prompts[batch], workload.max_tokens[batch])
        return Run(time.perf_counter() - start, token_ids)

    def _batch(self, prompts: list[list[int]], max_tokens: list[int]) -> list[list[int]]:
        width = max(len(prompt) for prompt in prompts)
        ids = torch.zeros(len(prompts), width, dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        out = self.model.generate(
            input_ids=ids.to(self.model.device),
            attention_mask=mask.to(self.model.device),
            max_new_tokens=max(max_tokens),
        )
        return [row[:n] for row, n in zip(out[:, width:].tolist(), max_tokens, strict=True)]
