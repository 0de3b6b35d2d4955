"""A norm part: add the residual, then RMSNorm through the length of the vector."""

import torch


def add_rms_norm(x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, eps: float):
    r = x if residual is None else x + residual
    mean_square = torch.linalg.vector_norm(r.float(), dim=-1, keepdim=True) ** 2 / r.shape[-1]
    return (r.float() * torch.rsqrt(mean_square + eps)).to(r.dtype) * weight, r
