"""Parts that are not finished: what they raise where something is still to be written.

From: an error that a part raised. To: `checking.py`, which does not count it as a failure; `report.py` shows the message.
"""

from __future__ import annotations

import re

from minfer.errors import MinferError

RAISED = re.compile(r"NotImplementedError: (ch\d\d task\w+: [^\n]*?)(?:; the engine is gone|\n|$)")  # in another process
STUB = re.compile(r"ch\d\d task\w+: [^\n]*")  # what the starters of the course raise, or assert in a Triton kernel
ASSERTED = ("AssertionError", "CompileTimeAssertionFailure")  # by tl.static_assert, in the interpreter and on a GPU


def unwritten(error: BaseException) -> str | None:
    """What is still to be written, as the part says it; None where the error is another one.

    Triton wraps what a kernel raises, so the errors that led to this one count too. What a rank raised is told in the error's text.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, NotImplementedError):
            return str(seen).strip().partition("\n")[0]
        if type(seen).__name__ in ASSERTED and (found := STUB.findall(str(seen))):
            return found[-1]  # above it, the compiler may have quoted the kernel's own comments
        if isinstance(seen, MinferError) and (found := RAISED.search(str(seen))):
            return found[1]
        seen = seen.__cause__ or seen.__context__
    return None
