"""What a step cost the device, and which recording it replayed, where that can be known.

From: `recorder.py`, around the executor's `launch`. To: the step's entries `device` and `bucket`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from minfer.engine import Engine


class DeviceClock:
    """Times what is put on the current CUDA stream between `start` and `stop`. Without such a device it knows nothing."""

    def __init__(self, on_gpu: bool):
        self.on_gpu = on_gpu

    @staticmethod
    def of(engine: Engine) -> DeviceClock:
        """An executor that runs steps in other processes leaves nothing on this one's stream."""
        return DeviceClock(engine.config.device.type == "cuda" and hasattr(engine.executor, "runner"))

    def start(self) -> Any:
        return self._mark() if self.on_gpu else None

    def stop(self, started: Any) -> Any:
        return (started, self._mark()) if self.on_gpu else None

    def read(self, timing: Any) -> int | None:
        """Microseconds, or None. Waits for the end of the step, which its caller has waited for already."""
        if timing is None:
            return None
        started, ended = timing
        ended.synchronize()
        return round(1e3 * started.elapsed_time(ended))

    def _mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event


def note_bucket(seen: list, bucket_of: Callable, batch: Any) -> Any:
    """A runner's `bucket_of`, whose answer is kept."""
    bucket = bucket_of(batch)
    seen.append(bucket)
    return bucket
