"""Hands in minfer's own part."""

from minfer.activation.torch import silu_mul

__all__ = ["silu_mul"]
