"""One request at a time: how long until its first token, and how long for each one after.

From: `minfer bench latency`. To: its table and its report.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from minfer.bench.run import run_workload, warm_up
from minfer.bench.workload import mixed
from minfer.llm import LLM


@dataclass(frozen=True)
class Latency:
    """Requests of one prompt length, one after the other."""

    prompt_tokens: int
    output_tokens: int
    ttft_ms: list[float]  # time to first token, of each repeat
    tpot_ms: list[float]  # mean time of a later token, of each repeat

    def describe(self) -> dict:
        """For a report."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "output_tokens": self.output_tokens,
            "ttft_ms": median(self.ttft_ms),
            "tpot_ms": median(self.tpot_ms),
            "repeats": {"ttft_ms": self.ttft_ms, "tpot_ms": self.tpot_ms},
        }


def latency(llm: LLM, prompt_lens: list[int], output_len: int, repeats: int, seed: int) -> list[Latency]:
    """Each prompt length `repeats` times, with prompts of its own each time. output_len must be at least 2."""
    vocab_size, max_len = llm.config.model.vocab_size, llm.engine.max_len
    results = []
    for length in prompt_lens:
        lengths = (length, length), (output_len, output_len)
        workloads = [mixed(1, *lengths, vocab_size, max_len, seed + repeat) for repeat in range(repeats)]
        run_workload(llm, warm_up(llm, workloads[0]))
        ttft, tpot = [], []
        for workload in workloads:
            run = run_workload(llm, workload)
            first = run.first_token_s[0]
            ttft.append(1e3 * first)
            tpot.append(1e3 * (run.seconds - first) / (output_len - 1))
        results.append(Latency(length, output_len, ttft, tpot))
    return results
