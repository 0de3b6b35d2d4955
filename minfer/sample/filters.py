"""Temperature, and the filters that leave only likely tokens in the draw: min_p, top_k, top_p.

From: the (edited) logits of the random rows. To: `sample`, which adds noise and takes the nearest token.

Logits become *distances*: d = (largest logit - logit) / temperature. So d >= 0, the likeliest token has d = 0, exp(-d) is its
probability relative to the likeliest, and a token that is out of the draw has d = inf. No sum can overflow, no row can turn to
NaN, and min_p is a plain comparison.
"""

from __future__ import annotations

import torch

HEAD = 1024  # on a CPU a full sort costs as much as a layer; the cut nearly always falls among the likeliest tokens


def distances(logits: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    """logits [S, V] float32 and temperature [S] float32, above 0 → [S, V] float32 in [0, inf]."""
    limit = torch.finfo(logits.dtype).max
    largest = logits.amax(-1, keepdim=True).clamp_(-limit, limit)  # rows that are -inf throughout, or reach +inf
    return (largest - logits).clamp_(min=0).div_(temperature[:, None])


def apply_filters(d: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor, min_p: torch.Tensor) -> None:
    """Move what the filters drop to infinity, in place; the likeliest token always stays.

    d [S, V] float32, top_k [S] int64 (V: off), top_p [S] float32 (1: off), min_p [S] float32 (0: off). The order is min_p,
    top_k, top_p, and each takes the probabilities that the one before has left, as if they summed to 1.
    """
    d.masked_fill_(d > -torch.log(min_p)[:, None], float("inf"))
    vocab_size = d.shape[1]
    mass = torch.exp(-d).sum(-1, keepdim=True)
    on_host = d.device.type == "cpu"  # elsewhere asking whether the head was enough would make the host wait
    for width in [HEAD, vocab_size] if on_host and vocab_size > HEAD else [vocab_size]:
        nearest, ids = _sorted_head(d, width)
        keep, decided = _keep(nearest, mass, top_k[:, None], top_p[:, None], vocab_size)
        if width == vocab_size or bool(decided.all()):
            break
    dropped = torch.ones_like(d, dtype=torch.bool).scatter_(1, ids, ~keep)
    d.masked_fill_(dropped, float("inf"))


def _sorted_head(d: torch.Tensor, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `width` smallest distances of each row, ascending, of equal ones the lowest id first, and their token ids."""
    if width == d.shape[1]:
        return torch.sort(d, dim=-1, stable=True)
    ids = d.topk(width, dim=-1, largest=False).indices.sort(dim=-1).values  # topk takes equal ones in any order
    nearest, order = torch.sort(d.gather(1, ids), dim=-1, stable=True)
    return nearest, ids.gather(1, order)


def _keep(
    nearest: torch.Tensor, mass: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor, vocab_size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Which of the nearest tokens [S, W] stay, and per row whether that is what all V would have given.

    It is not where a token that stays is as near as the last one: others beyond may be as near, and of equals the lowest ids stay.
    mass [S, 1] is the row's whole exp(-d); top_k and top_p [S, 1].
    """
    width = nearest.shape[1]
    rank = torch.arange(width, device=nearest.device)
    in_k = rank < top_k
    weight = torch.exp(-nearest) * in_k
    total = torch.where(top_k < vocab_size, weight.sum(-1, keepdim=True), mass)
    before = weight.cumsum(-1) - weight  # the mass of the likelier tokens: a token stays while it is below top_p
    keep = in_k & ((before < top_p * total) | (top_p >= 1) | (rank == 0))
    known_total = (top_k <= width) | (top_k >= vocab_size)
    at_edge = keep & (nearest == nearest[:, -1:]) & nearest.isfinite()
    return keep, known_total[:, 0] & ~at_edge.any(-1)
