"""The timeline of a few steps, cut out of what the profiler recorded."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from minfer.bench.timeline import timeline


class Event:
    """As torch.profiler has them; times in microseconds."""

    def __init__(self, name: str, start: float, end: float, cuda: bool = False):
        self.name, self.time_range = name, SimpleNamespace(start=start, end=end)
        self.device_type = torch.autograd.DeviceType.CUDA if cuda else torch.autograd.DeviceType.CPU


def test_a_timeline_is_three_steps():
    """From the third `schedule` on, up to the sixth; kernels next to each other are one stretch, marks of the device are left out."""
    events = [Event(f"m: {verb}", 1000 * step + at, 1000 * step + at + 100) for step in range(8) for at, verb in enumerate_verbs()]
    events += [Event("kernel", 100 * i, 100 * i + 95, cuda=True) for i in range(0, 80) if i % 10] + [Event("m: x", 0, 9000, cuda=True)]
    found = timeline(events, "m: ")
    assert [verb for verb, _, _ in found.host] == ["schedule", "launch", "wait", "commit"] * 3
    assert found.host[0] == ("schedule", 0.0, 0.1)
    assert found.host[-1][2] <= 3.0
    assert found.device == [(0.1, 0.995), (1.1, 1.995), (2.1, 2.995)]
    assert timeline([], "m: ").host == []


def enumerate_verbs() -> list[tuple[int, str]]:
    return [(0, "schedule"), (200, "launch"), (400, "wait"), (600, "commit")]
