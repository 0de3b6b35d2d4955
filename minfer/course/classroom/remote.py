"""A submitted part as the suites see it: it looks like the part, and each call goes to the submission's process.

So the suites run in the grader, with their cases and expected values, and the submission sees the arguments of its calls only.

From: `remote_parts.py` has a proxy for each slot. To: `process.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minfer.course.classroom.frames import WireError
from minfer.course.classroom.mirrors import Mirrors
from minfer.course.classroom.process import Process
from minfer.errors import PartError
from minfer.types import Sequence


class PartRaised(Exception):
    """The submitted part raised something."""


class Remote:
    """What all proxies share: requests, and what an answer says besides its value."""

    def __init__(self, process: Process, slot: str):
        self.process, self.slot = process, slot
        self.not_written = False  # whether it ever raised NotImplementedError
        self.raised: list[BaseException] = []  # by objects that it was given

    def ask(self, do: str, *args: Any, asked: Callable[[str, list], Any] | None = None, seconds: float | None = None) -> Any:
        """The answer's value. seconds: the time limit, where it is not that of a call.

        Raises:
            NotImplementedError, PartError: as the part did.
            PartRaised: it raised anything else.
            Gone: the process has ended.
        """
        answer = self.process.request(do, *args, asked=self.guarded(asked), seconds=seconds)
        self.take(answer)
        error = answer.get("error")
        if error is None:
            return answer["ok"]
        if "outside" in error and 0 <= error["outside"] < len(self.raised):
            raise self.raised[error["outside"]]
        text = str(error.get("text"))
        if error.get("unwritten"):
            self.not_written = True
            raise NotImplementedError(str(error["unwritten"])[:300])
        if "PartError" in error["kinds"]:
            raise PartError(text)
        raise PartRaised(f"{error['kinds'][0]}: {text}" + (f" ({error['where']})" if error.get("where") else ""))

    def guarded(self, asked: Callable[[str, list], Any] | None) -> Callable[[str, list], dict]:
        """Answers as messages; what raises here goes on there, and comes back to the suite if the part lets it through."""

        def answer(name: str, args: list) -> dict:
            if asked is None:
                raise WireError("a question, where the part was given nothing to ask")
            told = [each for each in args if isinstance(each, Sequence)]  # they may have changed
            try:
                return {"answer": asked(name, args), "sequences": told}
            except (WireError, LookupError, TypeError):
                raise
            except Exception as error:
                self.raised.append(error)
                return {"raised": len(self.raised) - 1, "sequences": told}

        return answer

    def take(self, answer: dict) -> None:
        """Called with each answer."""

    def forget(self) -> None:
        self.process.mirrors = Mirrors()
        self.raised = []
        self.process.request("forget")


class RemoteFunction(Remote):
    """norm, write_kv, attention, activation, linear, sample. Tensors that the part writes to are written to here."""

    def __call__(self, *args: Any) -> Any:
        return self.ask("call", self.slot, *args)


class RemoteClass(Remote):
    """Stands for a class: called, it makes the part there, and itself again stands for the instance."""

    def __call__(self, *args: Any) -> RemoteClass:
        made = type(self)(self.process, self.slot)
        made.report = self.report if hasattr(self, "report") else self
        made.forget()
        made.make(*args)
        return made

    def ask(self, do: str, *args: Any, asked: Callable[[str, list], Any] | None = None, seconds: float | None = None) -> Any:
        try:
            return super().ask(do, *args, asked=asked, seconds=seconds)
        finally:
            if self.not_written and hasattr(self, "report"):
                self.report.not_written = True
