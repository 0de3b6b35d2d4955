"""A run whose requests come by and by, as users' requests do, whether or not the engine keeps up (an open loop).

From: a Workload and the times at which its requests are due. To: a Run, with the time between any two tokens of a request.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from minfer.bench.run import Run, later_token
from minfer.bench.workload import Workload
from minfer.errors import MinferError

if TYPE_CHECKING:
    from minfer.llm import LLM


def poisson(requests: int, rate: float, seed: int = 0) -> list[float]:
    """When each request is due, in seconds after the start: a Poisson process of `rate` requests a second; the first comes at 0.

    Raises:
        MinferError: the rate is no positive number.
    """
    if not 0 < rate < float("inf"):
        raise MinferError(f"rate={rate} must be a positive number: requests a second")
    rng = random.Random(seed)
    due = [0.0]
    while len(due) < requests:
        due.append(due[-1] + rng.expovariate(rate))
    return due[:requests]


def run_arrivals(llm: LLM, workload: Workload, due: list[float]) -> Run:
    """Add each request when it is due, and step while there is work.

    A step is not cut short: a request that is due meanwhile waits for its end, and that wait is in its time to first token, which
    counts from the moment it was due. Every token is shown as it comes, as a server would.
    """
    names = [f"arrival-{i}" for i in range(len(due))]
    index = {name: i for i, name in enumerate(names)}
    params = workload.params()
    token_ids: list[list[int]] = [[] for _ in names]
    texts = [""] * len(names)
    first, last, later, gaps = [0.0] * len(names), [0.0] * len(names), [], []
    before, added, now = llm.stats(), 0, 0.0
    start = time.perf_counter()
    while added < len(due) or llm.has_unfinished():
        now = time.perf_counter() - start
        while added < len(due) and due[added] <= now:
            llm.add_request(names[added], workload.prompts[added], params[added])
            added += 1
        if not llm.has_unfinished():
            time.sleep(due[added] - now)
            continue
        outputs = llm.step()
        now = time.perf_counter() - start
        for output in outputs:
            i, completion = index[output.request_id], output.outputs[0]
            new = len(completion.token_ids) - len(token_ids[i])
            if not token_ids[i]:
                first[i] = now - due[i]
            else:
                gaps += [(now - last[i]) / new] * new
            last[i], token_ids[i], texts[i] = now, completion.token_ids, completion.text
            if output.finished and (mean := later_token(output)) is not None:
                later.append(mean)
    after = llm.stats()
    steps, preemptions = after.num_steps - before.num_steps, after.num_preemptions - before.num_preemptions
    return Run(now, token_ids, texts, first, later, gaps, steps, preemptions)
