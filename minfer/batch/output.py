"""The output: a file to which records are added, and which a later run takes up where this one was broken off.

From: `run.py`. To: the disk.

What holds after the process is killed at any moment: every whole record stays (the system has it once `write` returns), and at most one
is cut short, which the next run removes. Against a crash of the machine itself the file is synchronised every SYNC_SECONDS and at the
end; what was written since may be lost then, and the next run computes it again.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from minfer.batch.items import Item
from minfer.batch.records import head
from minfer.errors import MinferError

log = logging.getLogger(__name__)

SYNC_SECONDS = 5.0


class Output:
    """The file, open for one writer. `with Output(path) as output`."""

    def __init__(self, path: Path):
        """
        Raises:
            MinferError: it cannot be opened, or another run is writing to it.
        """
        self.path = path
        try:
            self._file = open(path, "a+b", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise MinferError(f"{path} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise MinferError(f"{path} is being written by another run; wait for its end, or name another file") from error
        except OSError as error:
            log.warning("%s cannot be locked here (%s): see to it that no other run writes to it", path, error.strerror)
        self._synced = time.monotonic()

    def resume(self, items: Iterable[Item], model: str) -> tuple[int, Iterator[Item]]:
        """Compare the records that are there with the items whose records they should be, and cut off one that is not whole.

        Args:
            items: of the input, from its beginning.
            model: the name that responses give.

        Returns:
            How many whole records there are, and the items that have none.

        Raises:
            MinferError: what is there is no output of this input, or another model's. The file is as it was.
        """
        items, count, good, named = iter(items), 0, 0, False
        with open(self.path, "rb") as file:
            while record := file.readline():
                item = next(items, None)
                whole = record.endswith(b"}\n")
                if item is None or not (record.startswith(head(item)) if whole else begins(record, head(item))):
                    raise MinferError(
                        f"{self.path} is there already, and its line {count + 1} is not the record of this input's; "
                        "name another output, or remove it"
                    )
                if not whole:
                    items = chain([item], items)
                    break
                named = named or self._check_model(record, model)
                count, good = count + 1, good + len(record)
        self._file.truncate(good)
        return count, items

    def write(self, records: bytes) -> None:
        """Add whole records at the end, and see to it that they last.

        Raises:
            MinferError: the disk is full, for example.
        """
        try:
            rest = memoryview(records)
            while rest:
                rest = rest[self._file.write(rest) :]
            if time.monotonic() > self._synced + SYNC_SECONDS:
                self.sync()
        except OSError as error:
            raise MinferError(f"{self.path} cannot be written: {error.strerror}; once it can, the same command goes on") from error

    def sync(self) -> None:
        """Wait until the disk has it all."""
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def _check_model(self, record: bytes, model: str) -> bool:
        """Whether the record says which model answered. It must be the one that goes on."""
        response = json.loads(record)["response"]
        if response is None or response["status_code"] != 200:
            return False
        before = response["body"]["model"]
        if before != model:
            raise MinferError(f"{self.path} holds answers of the model {before!r}, and this run's is {model!r}; name another output")
        return True


def begins(cut: bytes, start: bytes) -> bool:
    """Whether the beginning of a record is one that begins with `start`."""
    return cut[: len(start)] == start[: len(cut)]
