"""Fair share: the user served the fewest tokens so far comes first; a hundred requests of one cannot shut out one of another."""

from minfer.types import Sequence


def policy(seq: Sequence, context) -> tuple:
    return (context.served.get(seq.request.user, 0), seq.seq_id)


policy.changes = True
