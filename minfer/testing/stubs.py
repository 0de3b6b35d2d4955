"""Parts that are not finished: what they raise where something is still to be written.

From: an error that a part raised. To: `checking.py`, which does not count it as a failure; `report.py` shows the message.
"""

from __future__ import annotations

import re

STUB = re.compile(r"ch\d\d task\w+: [^\n]*")  # what the starters of the course raise, or assert in a Triton kernel
ASSERTED = ("AssertionError", "CompileTimeAssertionFailure")  # by tl.static_assert, in the interpreter and on a GPU


def unwritten(error: BaseException) -> str | None:
    """What is still to be written, as the part says it; None where the error is another one.

    Triton wraps what a kernel raises, so the errors that led to this one count too.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, NotImplementedError):
            return str(seen).strip().partition("\n")[0]
        if type(seen).__name__ in ASSERTED and (found := STUB.findall(str(seen))):
            return found[-1]  # above it, the compiler may have quoted the kernel's own comments
        seen = seen.__cause__ or seen.__context__
    return None
