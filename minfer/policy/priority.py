"""Priority: the request with the lowest `priority` number runs first, then the oldest. It can starve low priorities."""

from minfer.types import Sequence


def policy(seq: Sequence, context) -> tuple:
    return (seq.request.priority, seq.seq_id)
