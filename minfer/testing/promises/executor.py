"""What executors on many devices promise: of their cuts, and of the actors that hold them."""

from __future__ import annotations

from minfer.testing.promises import actors, sharding

PROPERTIES = [*sharding.PROPERTIES, *actors.PROPERTIES]
