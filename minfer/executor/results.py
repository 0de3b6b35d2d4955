"""From a step's tensors to the host's lists."""

from __future__ import annotations

from minfer.sample.logprobs import to_dicts
from minfer.types import Plan, Sampled, StepResult


def to_host(plan: Plan, result: StepResult) -> Sampled:
    """Wait for the device and read what was sampled, in the plan's order."""
    next_ids = result.next_ids.tolist()
    logprobs = prompt_logprobs = None
    if result.logprobs is not None:
        counts = [work.sampling.params.logprobs or 0 for work in plan.work if work.samples]
        logprobs = to_dicts(result.logprobs, next_ids, counts)
    if result.prompt_logprobs is not None:
        scored = [(token, work.sampling.params.prompt_logprobs) for work in plan.work for token in work.score_ids or ()]
        ids, counts = zip(*scored, strict=True)
        prompt_logprobs = to_dicts(result.prompt_logprobs, list(ids), list(counts))
    return Sampled(next_ids, logprobs, prompt_logprobs)
