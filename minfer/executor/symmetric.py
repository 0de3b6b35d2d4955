"""Small sums over the ranks of one machine, through memory that all its cards can read and write.

NCCL takes some ten microseconds for a sum of any small size. Two ways are faster, each up to a size: `push.py`, and PyTorch's one-shot
kernel, in which each card reads the addends of all. Both are tried out before they are used; what does not work on some rank is left
out on all, with a line in the log.

From: `group.py`, on GPUs. To: its `all_reduce`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from minfer.executor.group import Group

log = logging.getLogger(__name__)

ONE_SHOT = {2: 2**21, 4: 2**19, 8: 2**18}  # bytes, by the number of ranks; with these its order of adding is the same on all
LOOKS = 2**22  # into the inbox while `push` is tried out: some seconds


class Way(Protocol):
    """How to add up over the ranks."""

    def fits(self, x: torch.Tensor) -> bool: ...

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        """x is left as it is."""
        ...


class OneShot:
    """PyTorch's kernel, which copies x into shared memory, waits for the others, and reads theirs."""

    def __init__(self, size: int, device: torch.device):
        import torch.distributed._symmetric_memory as symmetric

        self.buffer = symmetric.empty(ONE_SHOT[size], dtype=torch.uint8, device=device)
        symmetric.rendezvous(self.buffer, dist.group.WORLD)
        self.name = dist.group.WORLD.group_name

    def fits(self, x: torch.Tensor) -> bool:
        """Whole vectors of 16 bytes, of a type that it knows."""
        is_known = x.dtype in (torch.bfloat16, torch.float32) and x.is_contiguous()
        return is_known and 0 < x.nbytes <= len(self.buffer) and x.nbytes % 16 == 0

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        place = self.buffer.view(x.dtype)[: x.numel()].view(x.shape)
        return torch.ops.symm_mem.one_shot_all_reduce_copy(place, x, "sum", self.name)


def symmetric_sums(group: Group) -> list[Way]:
    """The ways that work on all ranks, the one for the smallest sums first."""
    made = [_attempt(group, "push", _make_push)]
    if group.size in ONE_SHOT:
        made.append(_attempt(group, "one-shot", lambda group: OneShot(group.size, group.device)))
    return [way for way in made if way is not None]


def _make_push(group: Group) -> Way:
    import torch.distributed._symmetric_memory as symmetric

    from minfer.executor.push import WORDS, Push

    inbox = symmetric.empty(2, group.size, WORDS, dtype=torch.int64, device=group.device)
    shared = symmetric.rendezvous(inbox, dist.group.WORLD)
    inbox.zero_()
    return Push(group.rank, inbox, list(shared.buffer_ptrs))


def _attempt(group: Group, name: str, make) -> Way | None:
    """Make it and try it out, together with all ranks; None where one of them cannot."""
    way, reason = None, ""
    try:
        way = make(group)
    except Exception as error:  # of PyTorch, the driver or Triton: whatever it is, NCCL is there
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
    if group.least(int(not reason)):  # which is also when every rank's memory is ready
        reason = _wrong(group, way)
        if group.least(int(not reason)):
            log.info("%s sums work on all %d ranks", name, group.size)
            return way
    log.warning("no %s sums, so small sums take longer: %s", name, reason or "another rank cannot")
    return None


def _wrong(group: Group, way: Way) -> str:
    """What is wrong with its sums, eager and recorded; empty if nothing is."""
    if hasattr(way, "patience"):
        forever, way.patience = way.patience, LOOKS
    try:
        for dtype in (torch.bfloat16, torch.float32):
            for shape in ((1, 64), (3, 4096), (1, 4096), (1, 4096)):
                x = torch.arange(shape[0] * shape[1], device=group.device).remainder(7).view(shape).to(dtype)
                wanted = x * (group.size * (group.size + 1) // 2)
                if way.fits(x) and not torch.equal(way.sum(x * (group.rank + 1)), wanted):
                    return f"a sum of {list(shape)} {dtype} is wrong"
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.graph(graph, stream=stream):
            result = way.sum(way.sum(x))
        for turn in range(1, 4):
            x.fill_(turn)
            graph.replay()
            if not bool((result == turn * group.size**2).all()):
                return "a recorded sum is wrong"
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    finally:
        if hasattr(way, "patience"):
            way.patience = forever
    return ""
