"""What travels between the grader and the process of a submission, as frames on two pipes.

To the submission: pickles, which the grader alone writes. From it: JSON and raw bytes, never a pickle, since reading a pickle runs
code. What is read back is made of plain values, tensors and the few types in TYPES, all checked here.

Tensors go as their storages: two views of one storage arrive as two views of one storage, with the same strides.

Sequences are objects that both sides keep, each its own: what travels is their state (`mirrors.py`).

From: `remote.py` in the grader, `serving.py` in the other process. To: each other.
"""

from __future__ import annotations

import dataclasses
import io
import json
import pickle
from typing import Any

import torch

from minfer.course.classroom.frames import WireError
from minfer.course.classroom.mirrors import Mirrors
from minfer.params import SamplingParams
from minfer.types import Batch, Bucket, Copy, Plan, Sampled, Sampling, SamplingTensors, Sequence, StepResult, TopLogprobs, Work

TYPES = {kind.__name__: kind for kind in (Batch, Bucket, Copy, Plan, Sampled, Sampling, SamplingTensors, StepResult, TopLogprobs, Work)}
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
        torch.bool,
    )
}  # fmt: skip
LARGEST_TENSOR = 1 << 24  # elements of a tensor from a submission


def storage_bytes(storage: torch.UntypedStorage) -> bytes:
    """A copy of what a storage holds."""
    if not storage.nbytes():
        return b""
    return torch.empty(0, dtype=torch.uint8).set_(storage).numpy().tobytes()


def fill_storage(storage: torch.UntypedStorage, data: bytes) -> None:
    """Write into a storage.

    Raises:
        WireError: the sizes differ.
    """
    if len(data) != storage.nbytes():
        raise WireError(f"{len(data)} bytes for a tensor of {storage.nbytes()}")
    if data:
        torch.empty(0, dtype=torch.uint8).set_(storage).copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))


# Requests: pickles with tensors beside them


def _tensor(storage: torch.UntypedStorage, dtype: str, offset: int, shape: tuple, stride: tuple) -> torch.Tensor:
    return torch.empty(0, dtype=DTYPES[dtype]).set_(storage, offset, shape, stride)


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, mirrors: Mirrors):
        super().__init__(file, protocol=5)
        self.storages: list[torch.UntypedStorage] = []
        self.mirrors = mirrors

    def persistent_id(self, value: object) -> object:
        if isinstance(value, Sequence):
            return "sequence", *self.mirrors.tell(value)
        if isinstance(value, SamplingParams):
            return "params", *self.mirrors.tell_params(value)
        if not isinstance(value, torch.UntypedStorage):
            return None
        for i, known in enumerate(self.storages):
            if known.data_ptr() == value.data_ptr() and known.nbytes() == value.nbytes():
                return i
        self.storages.append(value)
        return len(self.storages) - 1

    def reducer_override(self, value: object) -> Any:
        if isinstance(value, torch.Tensor):
            dtype = str(value.dtype).removeprefix("torch.")
            return _tensor, (value.untyped_storage(), dtype, value.storage_offset(), tuple(value.shape), value.stride())
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, storages: list[torch.UntypedStorage], mirrors: Mirrors):
        super().__init__(file)
        self.storages, self.mirrors = storages, mirrors

    def persistent_load(self, pid: Any) -> object:
        if not isinstance(pid, tuple):
            return self.storages[pid]
        return (self.mirrors.hear if pid[0] == "sequence" else self.mirrors.hear_params)(*pid[1:])


def pack_request(value: object, mirrors: Mirrors) -> tuple[list[bytes], list[torch.UntypedStorage]]:
    """→ (the pickle, then the bytes of each storage), and the storages."""
    file = io.BytesIO()
    pickler = _Pickler(file, mirrors)
    pickler.dump(value)
    return [file.getvalue(), *map(storage_bytes, pickler.storages)], pickler.storages


def unpack_request(parts: list[bytes], mirrors: Mirrors) -> tuple[Any, list[torch.UntypedStorage]]:
    """The reverse; for the submission's process only."""
    storages = []
    for data in parts[1:]:
        storages.append(torch.empty(len(data), dtype=torch.uint8).untyped_storage())
        fill_storage(storages[-1], data)
    return _Unpickler(io.BytesIO(parts[0]), storages, mirrors).load(), storages


# Replies: JSON with tensors beside it


def pack_reply(value: object, mirrors: Mirrors) -> list[bytes]:
    """→ the JSON, then the bytes of each tensor."""
    buffers: list[bytes] = []

    def encode(value: object) -> object:
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return float(value)
        if isinstance(value, torch.Tensor):
            buffers.append(storage_bytes(value.detach().cpu().clone(memory_format=torch.contiguous_format).untyped_storage()))
            return {"tensor": [str(value.dtype).removeprefix("torch."), list(value.shape), len(buffers) - 1]}
        if isinstance(value, Sequence):
            key, changes = mirrors.changes(value)
            return {"sequence": [key, {name: encode(each) for name, each in changes.items()}]}
        if isinstance(value, Handle):
            return {"handle": value.number}
        if isinstance(value, SamplingParams):
            return {"params": mirrors.numbers.get(id(value))}
        if isinstance(value, bytes):
            buffers.append(value)
            return {"bytes": len(buffers) - 1}
        kind = type(value).__name__
        if TYPES.get(kind) is type(value):
            names = value._fields if isinstance(value, tuple) else [field.name for field in dataclasses.fields(value)]
            return {"type": kind, "fields": {name: encode(getattr(value, name)) for name in names}}
        if isinstance(value, list):
            return [encode(each) for each in value]
        if isinstance(value, tuple):
            return {"tuple": [encode(each) for each in value]}
        if isinstance(value, dict):
            return {"dict": [[encode(key), encode(each)] for key, each in value.items()]}
        return {"other": f"{type(value).__module__}.{type(value).__qualname__}"}

    body = json.dumps(encode(value)).encode()
    return [body, *buffers]


class Handle:
    """Stands for an object of the grader in the submission's process."""

    def __init__(self, number: int):
        self.number = number


class Other:
    """Something that a part returned and no part of this slot should."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"a {self.name}"


def unpack_reply(parts: list[bytes], mirrors: Mirrors) -> Any:
    """The reverse. Trusts nothing.

    Raises:
        WireError: it is not what `pack_reply` writes.
    """

    def decode(value: object) -> object:
        if isinstance(value, list):
            return [decode(each) for each in value]
        if not isinstance(value, dict):
            return value
        [key] = value if len(value) == 1 else [None]
        if key == "tensor":
            dtype, shape, index = value["tensor"]
            return read_tensor(DTYPES[dtype], [int(size) for size in shape], parts[1 + int(index)])
        if key == "bytes":
            return parts[1 + int(value["bytes"])]
        if key == "tuple":
            return tuple(map(decode, value["tuple"]))
        if key == "dict":
            return {decode(name): decode(each) for name, each in value["dict"]}
        if key == "sequence":
            number, changes = value["sequence"]
            return mirrors.believe(int(number), {str(name): decode(each) for name, each in changes.items()})
        if key == "handle":
            return Handle(int(value["handle"]))
        if key == "params":
            return mirrors.params.get(value["params"])
        if key == "other":
            return Other(str(value["other"])[:200])
        return TYPES[value["type"]](**{str(name): decode(each) for name, each in value["fields"].items()})

    try:
        return decode(json.loads(parts[0]))
    except (WireError, AssertionError):
        raise
    except (Exception, RecursionError) as error:
        raise WireError(f"an answer that cannot be read ({type(error).__name__})") from None


def read_tensor(dtype: torch.dtype, shape: list[int], data: bytes) -> torch.Tensor:
    """Raises WireError where the sizes do not fit."""
    count = 1
    for size in shape:
        count *= size
    if any(size < 0 for size in shape) or count > LARGEST_TENSOR or count * dtype.itemsize != len(data):
        raise WireError(f"a tensor of shape {shape} in {len(data)} bytes")
    return torch.frombuffer(bytearray(data), dtype=dtype).view(shape) if count else torch.empty(shape, dtype=dtype)
