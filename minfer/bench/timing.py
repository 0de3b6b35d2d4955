"""How kernels are timed on a GPU: recorded, replayed, and on memory that no cache still holds.

From: calls that launch kernels. To: microseconds a call, and the rate at which this card copies memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch

WARM_UP = 0.2  # seconds of replays that are not counted
CALLS = 8  # in a recording, at least: to begin one and to end it takes a microsecond or two, which are not the kernel's


def rotations(num_bytes: int) -> int:
    """Copies of a call's data that together are several times what the card's cache holds."""
    cache = torch.cuda.get_device_properties("cuda").L2_cache_size
    return max(2, min(64, -(-4 * cache // num_bytes)))


class Recording:
    """Calls recorded as one CUDA graph, so that the host's own time is not in what is measured. Run once before, which compiles.

    A few calls are recorded several times, one after the other, until there are CALLS.
    """

    def __init__(self, calls: list[Callable[[], object]]):
        calls = calls * -(-CALLS // len(calls))
        self.num_calls = len(calls)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for call in calls:
                call()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            for call in calls:
                call()

    def time(self) -> float:
        """Replay it → microseconds a call."""
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1000 / self.num_calls


def compare(recordings: list[Recording], repeats: int) -> list[list[float]]:
    """Microseconds a call of each recording, once for each repeat.

    They take turns, after the card has been at work for a while: a card that was idle is slower, and that must not fall to one of them.
    """
    begin = time.monotonic()
    while time.monotonic() - begin < WARM_UP:
        for recording in recordings:
            recording.time()
    rounds = [[recording.time() for recording in recordings] for _ in range(repeats)]
    return [list(times) for times in zip(*rounds, strict=True)]


def copy_rate(repeats: int, num_bytes: int = 2**31) -> float:
    """Bytes read and written a second by a plain elementwise kernel on a large tensor: what any kernel bound by memory can hope for."""
    source = torch.randn(num_bytes // 4, device="cuda")
    target = torch.empty_like(source)
    (times,) = compare([Recording([lambda: torch.add(source, 1.0, out=target)])], repeats)
    return 2 * num_bytes / median(times) * 1e6
