"""What Prometheus is told. Names are vLLM's with the prefix `minfer:` in place of `vllm:`, where they mean the same.

From: `front.py`, after each step and at each request's end. To: GET /metrics.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from minfer.outputs import RequestMetrics
from minfer.serve.messages import Load

SHORT = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2.5, 5, 10)  # between tokens
LONG = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640)
TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000)


class Metrics:
    """A registry of its own, so that several servers can live in one process."""

    def __init__(self, model: str):
        self.registry = CollectorRegistry()
        self._model = model
        self.running = self._of(Gauge, "num_requests_running", "Sequences in the batch")
        self.waiting = self._of(Gauge, "num_requests_waiting", "Sequences that wait for a row and blocks")
        self.usage = self._of(Gauge, "kv_cache_usage_perc", "Share of the K/V blocks in use; 1 is all of them")
        self.preemptions = self._of(Counter, "num_preemptions", "Times that a sequence gave its blocks back before its end")
        self.queries = self._of(Counter, "prefix_cache_queries", "Prompt tokens of ended requests")
        self.hits = self._of(Counter, "prefix_cache_hits", "Those of them whose K/V were found in the cache")
        self.prompts = self._of(Counter, "prompt_tokens", "Prompt tokens of ended requests")
        self.generated = self._of(Counter, "generation_tokens", "Tokens generated")
        self.refused = self._of(Counter, "request_refused", "Requests refused with 429, since too many were under way")
        self.first_token = self._of(Histogram, "time_to_first_token_seconds", "From arrival to the first token", LONG)
        self.inter_token = self._of(Histogram, "inter_token_latency_seconds", "Between two tokens of a stream, as they left", SHORT)
        self.per_token = self._of(
            Histogram, "request_time_per_output_token_seconds", "Of each request: from its first token to its last, by token", SHORT
        )
        self.queue_time = self._of(Histogram, "request_queue_time_seconds", "From arrival to the first step", LONG)
        self.whole_time = self._of(Histogram, "e2e_request_latency_seconds", "From arrival to the last token", LONG)
        self.prompt_lens = self._of(Histogram, "request_prompt_tokens", "Tokens of each prompt", TOKENS)
        self.output_lens = self._of(Histogram, "request_generation_tokens", "Tokens of each completion", TOKENS)
        names = ["model_name", "finished_reason"]
        self._success = Counter("minfer:request_success", "Completions by how they ended", names, registry=self.registry)

    def text(self) -> bytes:
        """In Prometheus' text format."""
        return generate_latest(self.registry)

    def take_load(self, load: Load, before: Load) -> None:
        """The engine's numbers after a step."""
        self.running.set(load.num_running)
        self.waiting.set(load.num_waiting)
        self.usage.set(load.num_used_blocks / max(load.num_blocks, 1))
        if load.num_preemptions != before.num_preemptions:
            self.preemptions.inc(load.num_preemptions - before.num_preemptions)

    def take_end(self, num_prompt: int, ends: list[tuple[str, int]], arrived: float, streamed: bool, times: RequestMetrics) -> None:
        """A prompt has all its completions. `ends`: how each ended, and after how many tokens; times are monotonic seconds."""
        self.queries.inc(num_prompt)
        self.prompts.inc(num_prompt)
        self.hits.inc(times.num_cached_tokens)
        self.prompt_lens.observe(num_prompt)
        for reason, num_tokens in ends:
            self._success.labels(self._model, reason).inc()
            self.output_lens.observe(num_tokens)
        first, last, longest = times.first_token_time, times.finished_time, max((count for _, count in ends), default=0)
        if times.first_scheduled_time is not None:
            self.queue_time.observe(times.first_scheduled_time - arrived)
        if last is not None:
            self.whole_time.observe(last - arrived)
        if first is not None and not streamed:
            self.first_token.observe(first - arrived)
        if first is not None and last is not None and longest > 1:
            self.per_token.observe((last - first) / (longest - 1))

    def _of(self, kind: type, name: str, what: str, buckets: tuple[float, ...] | None = None):
        options = {} if buckets is None else {"buckets": buckets}
        return kind(f"minfer:{name}", what, ["model_name"], registry=self.registry, **options).labels(self._model)
