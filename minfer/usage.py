"""How much K/V memory a run held, and how much of it held no token."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class KVUsage:
    """Counts in tokens: places reserved, and places that hold a token's K/V. One record a step."""

    peak_reserved: int = 0
    total_reserved: int = 0
    total_used: int = 0

    def record(self, reserved: int, used: int) -> None:
        self.peak_reserved = max(self.peak_reserved, reserved)
        self.total_reserved += reserved
        self.total_used += min(used, reserved)  # shared blocks hold the tokens of several sequences

    @property
    def wasted(self) -> float:
        """Share of the reserved places that held nothing, over all steps."""
        return 1 - self.total_used / self.total_reserved if self.total_reserved else 0.0
