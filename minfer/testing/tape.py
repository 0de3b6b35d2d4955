"""CUDA graphs without a GPU: a tape that keeps every PyTorch operation of a step with its tensors, and runs them again.

It has what makes CUDA graphs hard. A replay repeats the same operations on the same tensors: it reads their memory as it is now, leaves
its results where the recorded ones lie, and runs no Python. Whatever Python decided while the tape ran stays decided. An operation
that needs a value on the host fails, as it does on a GPU.

From: `suites/runner.py` puts it in the place of CUDA's graphs. To: a runner records and replays on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
import torch._dynamo  # a dispatch mode imports it at its first call, which takes seconds: better here than in somebody's first case
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ATEN = torch.ops.aten
NEEDS_HOST = {  # .item(), int(tensor), an if on a tensor, a boolean mask
    ATEN._local_scalar_dense.default, ATEN.item.default, ATEN.is_nonzero.default, ATEN.nonzero.default, ATEN.masked_select.default,
}  # fmt: skip


class Tape(TorchDispatchMode):
    """Records what runs within `with tape:`."""

    def __init__(self):
        super().__init__()
        self.calls: list[tuple] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None) -> Any:
        if function in NEEDS_HOST or (function is ATEN.index.Tensor and _has_mask(args[1])):
            raise RuntimeError(
                f"a recorded step needs a tensor's value on the host ({function}: .item(), int(), an if, or a boolean mask); "
                "on a GPU, recording fails there as well"
            )
        result = function(*args, **(kwargs or {}))
        self.calls.append((function, args, kwargs or {}, result))
        return result

    @torch.inference_mode()
    def replay(self) -> None:
        """The same operations on the same tensors."""
        for function, args, kwargs, result in self.calls:
            for old, new in zip(tree_leaves(result), tree_leaves(function(*args, **kwargs)), strict=True):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


def _has_mask(indices: list[torch.Tensor | None]) -> bool:
    """Whether x[indices] is of a size that only the device knows."""
    return any(each is not None and each.dtype == torch.bool for each in indices)


class Graph:
    """In place of torch.cuda.CUDAGraph."""

    def __init__(self):
        self.tape = Tape()

    def replay(self) -> None:
        self.tape.replay()

    def pool(self) -> tuple[int, int]:
        return 0, 1


@contextmanager
def on_tape() -> Iterator[None]:
    """Meanwhile, torch.cuda's graphs and streams are tapes and nothing."""
    stream = mock.Mock()
    fakes = {
        "CUDAGraph": Graph,
        "graph": lambda graph, pool=None, stream=None, **options: graph.tape,
        "Stream": lambda *args, **options: stream,
        "stream": lambda stream: nullcontext(),
        "current_stream": lambda device=None: stream,
        "synchronize": lambda device=None: None,
        "memory_reserved": lambda device=None: 0,
    }
    with mock.patch.multiple(torch.cuda, **fakes):
        yield
