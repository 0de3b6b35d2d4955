"""Slot `linear` on a CPU: oneDNN's product with weights laid out once, at loading, in the order in which its kernels read them.

The plain product lays the weight out anew in every call, which costs more than the product itself when only a few tokens are
computed. It is PyTorch's own oneDNN, the operators that torch.compile uses for frozen models.
"""

from __future__ import annotations

import logging

import torch
import torch.nn.functional as F

needs = {"onednn"}
log = logging.getLogger(__name__)


def pack(weight: torch.Tensor) -> torch.Tensor:
    """weight [O, I] → the same numbers in oneDNN's layout. As it was where this CPU has no kernel for its dtype."""
    try:
        return torch.ops.mkldnn._reorder_linear_weight(weight)
    except RuntimeError as error:
        log.warning("oneDNN has no packed product for %s here (%s); the plain one is used", weight.dtype, error)
        return weight


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """x [T, I], weight [O, I] from `pack`, bias [O] or None → x weightᵀ + bias, [T, O]."""
    if not weight.is_mkldnn:
        return F.linear(x, weight, bias)
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


linear.pack = pack
