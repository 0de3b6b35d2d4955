"""What a load on a server came to: times to first token, times between tokens, throughput and goodput.

From: `bench/serve.py`, what became of each request. To: the table and the report of `minfer bench serve`, and `bench/serve_plot.py`.

Definitions. TTFT: from when a request was due to its first token. TPOT: of one request, the mean time of a token after the first.
Inter-token latency (ITL): the time between two events of one stream; a server may put several tokens into one event. Goodput: answered
requests a second that kept every objective (Zhong et al., DistServe, 2024).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import fmean

from minfer.bench.run import percentiles
from minfer.bench.serve_client import Served


@dataclass(frozen=True)
class Objective:
    """A service level objective: what a request must keep to count as good. None: that one does not matter."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None

    def __bool__(self) -> bool:
        return self.ttft_ms is not None or self.tpot_ms is not None

    def kept_by(self, served: Served) -> bool:
        """Whether an answered request kept it. One without a second token has no TPOT to miss."""
        mean = tpot(served)
        fast = self.ttft_ms is None or 1e3 * ttft(served) <= self.ttft_ms
        return fast and (self.tpot_ms is None or mean is None or 1e3 * mean <= self.tpot_ms)


@dataclass(frozen=True)
class Load:
    """One run. Requests that failed count in nothing but `errors`."""

    start: float  # on time.monotonic's clock
    served: list[Served]  # in the workload's order
    busy: list[float]  # of each client process: the share of the time that it computed

    @property
    def answered(self) -> list[Served]:
        """Requests that got a whole answer with at least one token."""
        return [each for each in self.served if each.error is None and each.token_times]

    @property
    def errors(self) -> dict[str, int]:
        """What went wrong, and how often."""
        return dict(Counter(each.error or "an answer without a token" for each in self.served if each.error or not each.token_times))

    @property
    def seconds(self) -> float:
        """From the start to the end of the last request, failed ones included."""
        return max(each.ended for each in self.served) - self.start

    @property
    def output_tokens(self) -> int:
        return sum(num_tokens(each) for each in self.answered)

    @property
    def tokens_per_s(self) -> float:
        """Output tokens a second, of answered requests."""
        return self.output_tokens / self.seconds

    def times(self) -> dict[str, list[float]]:
        """In seconds: TTFT, TPOT and whole time of each answered request, and every ITL."""
        answered = self.answered
        gaps = [b - a for each in answered for a, b in zip(each.token_times, each.token_times[1:], strict=False)]
        return {
            "ttft_ms": [ttft(each) for each in answered],
            "tpot_ms": [mean for each in answered if (mean := tpot(each)) is not None],
            "itl_ms": gaps,
            "request_ms": [each.ended - each.due for each in answered],
        }

    def goodput(self, objective: Objective) -> float:
        """Requests a second that kept the objective."""
        return sum(objective.kept_by(each) for each in self.answered) / self.seconds

    def describe(self, objective: Objective | None = None) -> dict:
        """For a report. Times in milliseconds."""
        times = {name: values for name, values in self.times().items() if values}
        content = {
            "seconds": self.seconds,
            "answered": len(self.answered),
            "failed": len(self.served) - len(self.answered),
            "errors": self.errors,
            "output_tokens": self.output_tokens,
            "tokens_counted_by": "server" if all(each.tokens is not None for each in self.answered) else "events",
            "tokens_per_s": self.tokens_per_s,
            "requests_per_s": len(self.answered) / self.seconds,
            "percentiles": {name: percentiles(values) for name, values in times.items()},
            "means": {name: 1e3 * fmean(values) for name, values in times.items()},
            "client_busy": self.busy,
        }
        if objective:
            good = sum(objective.kept_by(each) for each in self.answered)
            content["slo"] = {"ttft_ms": objective.ttft_ms, "tpot_ms": objective.tpot_ms}
            content |= {"goodput_requests_per_s": self.goodput(objective), "good_share": good / len(self.served)}
        return content


def num_tokens(served: Served) -> int:
    """Output tokens, as the server says; where it does not, an event is taken for a token."""
    return len(served.token_times) if served.tokens is None else served.tokens


def ttft(served: Served) -> float:
    """Seconds from when the request was due to its first token."""
    return served.token_times[0] - served.due


def tpot(served: Served) -> float | None:
    """Mean seconds of a token after the first; None where all came at once."""
    first, last, count = served.token_times[0], served.token_times[-1], num_tokens(served) - 1
    return (last - first) / count if count > 0 and len(served.token_times) > 1 else None
