"""How a Triton kernel may begin before the kernel in front of it has ended (programmatic dependent launch, Hopper and later).

Between two kernels of a stream the card is idle for a microsecond or two: the first must drain before the second is put in place. A
decode step of one sequence is some 300 short kernels, so this gap is a good part of it. Launched with `launch_pdl`, a kernel is put
in place as soon as every program of the kernel in front has ended or has called `gdc_launch_dependents()`. It may then read what no
kernel of a step ever writes, the weights. `gdc_wait()` returns once the kernel in front has ended and its results can be seen.

Two rules make this safe.
- Every kernel launched so calls `gdc_wait()`, before it reads anything but weights and before it writes anything. The kernel in
  front has then ended, and since it waited in the same way, so have all before it.
- Every kernel calls it in all its programs, also in those that have nothing to do.

Two more make it pay, as measured on an H200.
- Decode attention does not call `gdc_launch_dependents()`: programs of the next kernel that wait would take room from those at work,
  and there it takes longer than the gap. The next kernel is then put in place when all have ended.
- A kernel of another library knows nothing of this. Around cuBLAS, which multiplies the tokens wherever there are several, the gap
  stays, and the new launch is a little slower than the plain one: it is not used there.

From: the parts' launches. To: Triton's launch options, and the kernels' constant OVERLAP.
"""

from __future__ import annotations

import functools

import torch
import triton


@functools.cache
def can_overlap(device: torch.device) -> bool:
    """Whether kernels on this device can begin early: an NVIDIA card of compute capability 9 or above, not Triton's interpreter."""
    if device.type != "cuda" or torch.version.hip or triton.knobs.runtime.interpret:
        return False
    return torch.cuda.get_device_capability(device) >= (9, 0)


def overlap(device: torch.device, tokens: int = 1) -> dict[str, bool]:
    """The launch options of a kernel that follows the first two rules, OVERLAP among them.

    tokens: where the kernel in front is a matrix product, of how many.
    """
    return {"OVERLAP": True, "launch_pdl": True} if tokens == 1 and can_overlap(device) else {"OVERLAP": False}
