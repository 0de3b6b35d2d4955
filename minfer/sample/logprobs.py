"""Log-probabilities of tokens, and of the likeliest ones beside them.

From: the model's logits, before `sample` edits them. To: `StepResult`, and on the host `Sampled`.

They are the model's own: log_softmax of the raw logits in float32, before bias, penalties, temperature and filters (vLLM's
"raw_logprobs"). So a banned or filtered token still has its true value.
"""

from __future__ import annotations

import torch

from minfer.types import TopLogprobs

SMALLEST = torch.finfo(torch.float32).min  # stands for log 0: JSON has no infinities


def top_logprobs(logits: torch.Tensor, ids: torch.Tensor, k: int) -> TopLogprobs:
    """logits [N, V] of any float dtype, ids [N] int64, 0 <= k → the ids' log-probabilities and the k likeliest of each row.

    Every value is finite: a probability of zero gives the smallest float32. k above V gives V.
    """
    logprobs = torch.log_softmax(logits, dim=-1, dtype=torch.float32).nan_to_num_(nan=SMALLEST, neginf=SMALLEST)
    own = logprobs.gather(1, ids[:, None])[:, 0]
    top, top_ids = logprobs.topk(min(k, logprobs.shape[1]), dim=-1)
    return TopLogprobs(own, top_ids, top)


def to_dicts(top: TopLogprobs, ids: list[int], counts: list[int] | None = None) -> list[dict[int, float]]:
    """One dictionary per row, token id to log-probability: the row's own token first, then the likeliest, likeliest first.

    Args:
        top: of N rows.
        ids: the N tokens that `top_logprobs` was asked about.
        counts: how many of the likeliest each row wants, where that is fewer than `top` holds; 0 leaves just its own token.

    A row that wants k has k entries where its own token is among the k likeliest, and k + 1 where it is not.
    """
    dicts = []
    rows = zip(ids, top.logprobs.tolist(), top.top_ids.tolist(), top.top_logprobs.tolist(), strict=True)
    for row, (token, own, top_ids, values) in enumerate(rows):
        count = len(top_ids) if counts is None else counts[row]
        entry = {token: own}
        for other, value in zip(top_ids[:count], values[:count], strict=True):
            entry.setdefault(other, value)
        dicts.append(entry)
    return dicts
