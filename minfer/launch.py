"""How a Triton kernel may begin before the kernel in front of it has ended (programmatic dependent launch, Hopper and later).

Between two kernels of a stream the card is idle for a microsecond or two: the first must drain before the second is put in place. A
decode step of one sequence is some 300 short kernels, so this gap is a good part of it. Launched with `launch_pdl`, a kernel is put
in place as soon as every program of the kernel in front has ended or has called `gdc_launch_dependents()`. It may then read what no
kernel of a step ever writes, the weights. `gdc_wait()` returns once the kernel in front has ended and its results can be seen.

Two rules make this safe.
- Every kernel launched so calls `gdc_wait()`, before it reads anything but weights and before it writes anything. The kernel in
  front has then ended, and since it waited in the same way, so have all before it.
- Every kernel calls it in all its programs, also in those that have nothing to do.

A kernel of another library, which knows nothing of this, starts and ends as usual: around it the gap stays.

From: the parts' launches. To: Triton's launch options, and the kernels' constant OVERLAP.
"""

from __future__ import annotations

import functools

import torch
import triton

OFF, WAIT, EARLY = 0, 1, 2  # OVERLAP: not at all; begin early; and let the next kernel begin early too
FEW = 2048  # programs: a larger launch keeps the card for itself, since waiting programs take room and registers from those at work


@functools.cache
def can_overlap(device: torch.device) -> bool:
    """Whether kernels on this device can begin early: an NVIDIA card of compute capability 9 or above, not Triton's interpreter."""
    if device.type != "cuda" or torch.version.hip or triton.knobs.runtime.interpret:
        return False
    return torch.cuda.get_device_capability(device) >= (9, 0)


def overlap(device: torch.device, programs: int) -> dict[str, int | bool]:
    """The launch options of a kernel of so many programs, OVERLAP among them."""
    if not can_overlap(device):
        return {"OVERLAP": OFF}
    return {"OVERLAP": EARLY if programs <= FEW else WAIT, "launch_pdl": True}
