"""An activation part: SiLU written out in float32."""

import torch


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    wide = gate.float()
    return (wide * torch.sigmoid(wide)).to(gate.dtype) * up
