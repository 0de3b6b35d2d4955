"""The proxy of a submitted policy: a sequence and what the engine knows go there, a key comes back.

The blocks stay here, and a policy that asks how much of a sequence they hold asks the grader.

From: `remote_parts.py`. To: `remote.py` makes requests of its calls; `serving.py` does what they ask.
"""

from __future__ import annotations

from typing import Any

from minfer.course.classroom.frames import WireError
from minfer.course.classroom.remote import Remote
from minfer.testing.properties import Differs
from minfer.types import Sequence

SIZES = ("block_size", "num_free", "num_total")


class RemotePolicy(Remote):
    """Sequences are told anew at each call, so that a long run of them fills no memory."""

    @property
    def changes(self) -> bool:
        return self.ask("policy_changes") is True

    def __call__(self, seq: Sequence, context: Any) -> Any:
        def looked_up(name: str, args: list) -> int:
            if name != "lookup" or len(args) != 1 or not isinstance(args[0], Sequence):
                raise WireError(f"no question: {name}")
            return context.blocks.lookup(args[0])

        self.forget()
        sizes = {name: getattr(context.blocks, name) for name in SIZES}
        key = self.ask("policy", seq, dict(context.served), sizes, asked=looked_up)
        if isinstance(key, tuple) and not all(isinstance(each, int | float | str | tuple) for each in key):
            raise Differs("a tuple of numbers and strings", repr(key))
        return key
