"""The ranks of one engine, and what they do together: add up, put together, agree.

gloo on CPUs; NCCL on GPUs, and for small sums PyTorch's one-shot kernel over symmetric memory: each card reads the others' addends
directly, which for a few kilobytes takes a fraction of the time that NCCL needs. Both can be recorded in a CUDA graph. Every rank
gets the same bits, so that all of them sample the same tokens.

From: `Shard.connect` calls it behind the projections. To: the next norm, on every rank.
"""

from __future__ import annotations

import logging
from datetime import timedelta

import torch
import torch.distributed as dist

from minfer.errors import MinferError

log = logging.getLogger(__name__)

TICK, PATIENCE = timedelta(seconds=2), 3  # a CPU waits so many ticks for another rank; a suspended machine costs one tick
SMALL = {2: 2**21, 4: 2**19, 8: 2**18}  # bytes of the largest one-shot sum; with these numbers of ranks, its order of adding is fixed


class PeerLost(MinferError):
    """A rank waits for another one that does not come. Which one, and why, the caller knows better."""


class Group:
    """This process's place among `size` ranks. A process is in one group at most.

    Args:
        store: where the ranks find each other; the same for all.
        device: of this rank.
    """

    def __init__(self, store: dist.Store, rank: int, size: int, device: torch.device):
        self.rank, self.size, self.device = rank, size, device
        self.on_gpu = device.type == "cuda"
        where = {"backend": "nccl", "device_id": device} if self.on_gpu else {"backend": "gloo"}
        dist.init_process_group(store=store, rank=rank, world_size=size, **where)
        self.small = self._symmetric_memory() if self.on_gpu and size in SMALL else None

    def all_reduce(self, x: torch.Tensor) -> torch.Tensor:
        """The sum over the ranks of x, any shape, the same on each → the sum, on each; x may be written to."""
        if self.size == 1:
            return x
        if self.small is not None and _fits(x, self.small):
            buffer = self.small.view(x.dtype)[: x.numel()].view(x.shape)
            return torch.ops.symm_mem.one_shot_all_reduce_copy(buffer, x, "sum", dist.group.WORLD.group_name)
        self._wait(dist.all_reduce(x, async_op=not self.on_gpu))
        return x

    def gather(self, x: torch.Tensor, width: int) -> torch.Tensor:
        """Each rank's columns [S, at most width] → all of them side by side [S, size * width], on each rank; 0 where one has fewer."""
        if self.size == 1:
            return x
        rows = len(x)
        if x.shape[1] < width:
            x = torch.nn.functional.pad(x, (0, width - x.shape[1]))
        out = torch.empty(self.size * rows, width, dtype=x.dtype, device=x.device)
        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # the name in older versions of PyTorch
        self._wait(gather(out, x.contiguous(), async_op=not self.on_gpu))
        return out.view(self.size, rows, width).transpose(0, 1).reshape(rows, self.size * width)

    def least(self, value: int) -> int:
        """The smallest of the ranks' values."""
        values = torch.tensor([value], device=self.device)
        self._wait(dist.all_reduce(values, dist.ReduceOp.MIN, async_op=not self.on_gpu), patience=None)
        return int(values)

    def _wait(self, work: dist.Work | None, patience: int | None = PATIENCE) -> None:
        """Until a CPU's collective is done. A GPU's is ordered by the stream.

        Args:
            patience: in ticks; None: as long as it takes, while one rank may still load.

        Raises:
            PeerLost: another rank has ended, or does not come for PATIENCE ticks.
        """
        ticks = 0
        while work is not None:
            try:
                work.wait(TICK)
                return
            except RuntimeError as error:
                if "timed out" not in str(error):
                    raise PeerLost(f"rank {self.rank} lost another rank: {error}") from error
            ticks += 1
            if ticks == patience:
                raise PeerLost(f"rank {self.rank} has waited {ticks * TICK.seconds} s for another rank, which hangs")

    def _symmetric_memory(self) -> torch.Tensor | None:
        """Bytes that all cards can read, for the addends of small sums; None, and a line in the log, where some rank has none."""
        buffer, reason = None, ""
        try:
            import torch.distributed._symmetric_memory as symmetric

            buffer = symmetric.empty(SMALL[self.size], dtype=torch.uint8, device=self.device)
            symmetric.rendezvous(buffer, dist.group.WORLD)
            ones = torch.ones(64, device=self.device)
            one_shot = torch.ops.symm_mem.one_shot_all_reduce_copy
            summed = one_shot(buffer.view(torch.float32)[:64], ones, "sum", dist.group.WORLD.group_name)
            if not bool((summed == self.size).all()):
                reason = f"its sum of ones is {summed[0]}"
        except (AttributeError, ImportError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
        if self.least(0 if reason else 1) == 1:
            return buffer
        log.warning("small sums go through NCCL, which takes longer: no symmetric memory here (%s)", reason or "on another rank")
        return None


def _fits(x: torch.Tensor, buffer: torch.Tensor) -> bool:
    """Whether the one-shot kernel can add up such tensors: whole vectors of 16 bytes, of a type that it knows."""
    size = x.numel() * x.element_size()
    return 0 < size <= buffer.numel() and size % 16 == 0 and x.is_contiguous() and x.dtype in (torch.bfloat16, torch.float32)
