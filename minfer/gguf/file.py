"""A GGUF file, opened: its key-value pairs and its tensors.

From: a path. To: `config.py`, `tokenizer.py` and `weights.py` beside this file.
"""

from __future__ import annotations

import importlib.util
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from minfer.errors import ModelError

HEADER = struct.Struct("<4sIQQ")  # magic, version, number of tensors, number of key-value pairs
MIN_ENTRY = 12  # bytes that a tensor's description or a key-value pair takes at the very least


class GGUFFile:
    """Reads through the `gguf` package, which is imported only here.

    Raises:
        ModelError: the package is missing, or the file is no GGUF file, or it is truncated or corrupt.
    """

    def __init__(self, source: Path):
        self.source = source
        self.reader = open_reader(source)
        self.tensors = {tensor.name: tensor for tensor in self.reader.tensors}

    def get(self, key: str, kind: type, default: Any = ...) -> Any:
        """The value of `key`, of the type `kind`: str, bool, int, float or list. Without a default it must be there."""
        field = self.reader.get_field(key)
        if field is None and default is not ...:
            return default
        if field is None:
            raise ModelError(f"{self.source} has no {key}: it is incomplete, or of a kind that minfer does not know")
        try:
            value = field.contents()
        except (UnicodeDecodeError, IndexError) as error:
            raise ModelError(f"{self.source} is corrupt: {key} cannot be read ({error}); get the file again") from error
        if type(value) is not kind:
            raise ModelError(f"{self.source}: {key} is of type {type(value).__name__}; minfer reads only {kind.__name__} there")
        return value

    def count(self, key: str, default: Any = ...) -> int:
        """The value of `key`, which must be a whole number above 0."""
        value = self.get(key, int, default)
        if value < 1:
            raise ModelError(f"{self.source}: {key} is {value}, but must be at least 1; get the file again")
        return value

    def shape(self, name: str) -> tuple[int, ...]:
        """The tensor's shape as PyTorch has it: GGUF lists the dimensions the other way round."""
        return tuple(int(size) for size in reversed(self.tensors[name].shape))

    def read(self, name: str) -> np.ndarray:
        """The tensor in float32, dequantised; rows in the file's order."""
        from gguf.quants import dequantize

        tensor = self.tensors[name]
        try:
            return dequantize(tensor.data, tensor.tensor_type).reshape(self.shape(name))
        except NotImplementedError as error:
            raise ModelError(
                f"{self.source}: {name} is stored as {tensor.tensor_type.name}, which the gguf package cannot dequantise; "
                f"it can do F32, F16, BF16, {', '.join(dequantisable())}. Take another quantisation of this model"
            ) from error


def dequantisable() -> list[str]:
    """The quantised types that the installed gguf package can read, found by trying each on one block of zeros."""
    from gguf.constants import GGML_QUANT_SIZES
    from gguf.quants import dequantize

    names = []
    for kind, (values, size) in GGML_QUANT_SIZES.items():
        with suppress(NotImplementedError):
            if values > 1:
                dequantize(np.zeros((1, size), dtype=np.uint8), kind)
                names.append(kind.name)
    return names


def need_package() -> None:
    """Raises ModelError where the gguf package is not installed."""
    if importlib.util.find_spec("gguf") is None:
        raise ModelError('GGUF files are read with a package that is not installed: pip install "minfer[gguf]"')


def open_reader(source: Path) -> Any:
    """The package's reader. It checks little itself, so whatever it trips over is taken for a broken file."""
    need_package()
    from gguf import GGUFReader

    class Reader(GGUFReader):
        """GGUFReader takes what lies beyond the end of the file for empty arrays, and may read them for ever."""

        def _get(self, offset, dtype, count=1, *order, **orders):
            if offset + np.dtype(dtype).itemsize * int(count) > len(self.data):
                raise ValueError("the file ends early")
            return super()._get(offset, dtype, count, *order, **orders)

    try:
        size = source.stat().st_size
        with source.open("rb") as file:
            head = file.read(HEADER.size)
    except OSError as error:
        raise ModelError(f"{source} cannot be read: {error.strerror}") from error
    if not head.startswith(b"GGUF"):
        raise ModelError(f"{source} is not a GGUF file: it starts with {head[:4]!r} instead of b'GGUF'")
    broken = f"{source} ({size} bytes) is truncated or corrupt; get the file again"
    if len(head) < HEADER.size or max(HEADER.unpack(head)[2:]) > size // MIN_ENTRY:
        raise ModelError(broken)
    try:
        return Reader(source)
    except Exception as error:
        raise ModelError(f"{broken} ({type(error).__name__}: {error})") from error
