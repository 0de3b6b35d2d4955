"""What a suite is made of: properties of a slot's part, each with the cases that it must hold for.

From: `minfer/testing/suites`, one list of properties a slot. To: `checking.py` draws cases, runs them and shrinks those that fail.

A case is a small dict of plain numbers, strings and lists: sizes, and the seed that its tensors are made from. So it can be printed
in one line, sent to somebody else, and run again exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Case = dict[str, Any]


class Place(NamedTuple):
    """Where a part is run: what can be asked of it depends on that."""

    device: str = "cpu"
    interpreted: bool = False  # a Triton kernel in Triton's interpreter: slow, and silently wrong in bfloat16
    threads: int | None = 1  # of PyTorch: on small tensors more cost time. None: as many as it has

    @property
    def dtypes(self) -> list[str]:
        """The dtypes to draw from, by name; the first is the simplest."""
        return ["float32", "float16"] if self.interpreted else ["float32", "float16", "bfloat16"]

    @property
    def where(self) -> Case:
        """What a case must say of the device: nothing where it is a CPU."""
        return {} if self.device == "cpu" else {"device": self.device}


CPU = Place()


@dataclass(frozen=True)
class Property:
    """Something that every part of a slot must do.

    Args:
        name: one word, or several with hyphens; unique in its suite.
        statement: what must hold, as a sentence.
        cases: the place → a strategy of cases.
        check: takes the part and a case. Raises AssertionError, best of all Differs, where the property does not hold.
        examples: cases to draw where nobody says how many.
        vary: from a case that fails, and the place, others that differ in one thing: label → {value: case}. They show what the fault
            depends on.
    """

    name: str
    statement: str
    cases: Callable[[Place], SearchStrategy[Case]]
    check: Callable[[Any, Case], None]
    examples: int = 30
    vary: Callable[[Case, Place], dict[str, dict[Any, Case]]] | None = None


def again(cases: Callable[[Place], SearchStrategy[Case]], check: Callable[[Any, Case], Any]) -> Property:
    """The property of a function that it keeps nothing from one call to the next. check: compares one call with what it must give."""

    def check_again(part: Any, case: Case) -> None:
        for number in range(2):
            check(part, {**case, "seed": case["seed"] + number})

    return Property("again", "A call leaves nothing behind: the next one, on other numbers of the same sizes, is right too.", cases,
                    check_again, 20)  # fmt: skip


class Differs(AssertionError):
    """A part gave something else than it should have."""

    def __init__(self, expected: object, came: object):
        super().__init__(f"expected {expected}; came {came}")
        self.expected, self.came = str(expected), str(came)


class OutOfTime(Differs):
    """A part had not ended when its time was up."""


def expect(holds: bool, expected: object, came: object) -> None:
    """Raise Differs unless it holds."""
    if not holds:
        raise Differs(expected, came)


def expect_equal(came: object, expected: object, what: str) -> None:
    """Raise Differs unless the two are equal; `what` says which thing they are."""
    if came != expected:
        raise Differs(f"{what} {expected}", came)


def expect_tensor(value: object, like: torch.Tensor, what: str) -> None:
    """Raise Differs unless `value` is a tensor of the shape, dtype and device of `like`."""
    if not isinstance(value, torch.Tensor):
        raise Differs(f"{what}, a tensor", f"{type(value).__name__} (is a return missing?)")
    for name, mine, wanted in (
        ("shape", tuple(value.shape), tuple(like.shape)),
        ("dtype", value.dtype, like.dtype),
        ("device", value.device.type, like.device.type),
    ):
        expect(mine == wanted, f"{what} of {name} {wanted}", f"{name} {mine}")


@contextmanager
def untouched(**shared: torch.Tensor | None) -> Iterator[None]:
    """Raise Differs where the block changes one of these tensors, by name: others read them after the part."""
    before = {name: tensor.clone() for name, tensor in shared.items() if tensor is not None}
    yield
    for name, old in before.items():
        new = shared[name]
        if not torch.equal(new.nan_to_num(7), old.nan_to_num(7)):
            at = tuple(int(i) for i in (new.nan_to_num(7) != old.nan_to_num(7)).nonzero()[0])
            raise Differs(
                f"{name} as it was: others read it after this part. At index {at} it was {old[at].item():.6g}", f"{new[at].item():.6g}"
            )


def dtype_of(case: Case) -> torch.dtype:
    """The torch dtype that a case names."""
    return getattr(torch, case["dtype"])


def device_of(case: Case) -> str:
    """The device that a case names; without one it is the CPU."""
    return case.get("device", "cpu")
