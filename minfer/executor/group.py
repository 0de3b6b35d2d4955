"""The ranks of one engine, and what they do together: add up, put together, agree.

gloo on CPUs. On GPUs NCCL, and for small sums, whose time is all waiting, two ways that reach into the other cards' memory
(`executor/symmetric.py`). All can be recorded in a CUDA graph. Every rank gets the same bits, so that all sample the same tokens.

From: `Shard.connect` calls it behind the projections. To: the next norm, on every rank.
"""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist

from minfer.errors import MinferError
from minfer.executor.symmetric import symmetric_sums

TICK, PATIENCE = timedelta(seconds=2), 3  # a CPU waits so many ticks for another rank; a suspended machine costs one tick


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
        self.small = symmetric_sums(self) if self.on_gpu else []  # the smallest first

    def all_reduce(self, x: torch.Tensor) -> torch.Tensor:
        """The sum over the ranks of x, any shape, the same on each → the sum, on each; x may be written to."""
        if self.size == 1:
            return x
        for way in self.small:
            if way.fits(x):
                return way.sum(x)
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
