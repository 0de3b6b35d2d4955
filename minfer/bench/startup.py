"""How long an engine takes to start: in processes of their own, one after the other.

From: `minfer bench startup`, which gives what LLM takes. To: seconds of each start, for a table and a report.

`python -m minfer.bench.startup '{"model": ...}'` is one such process: it builds an engine, generates a token, says how long it took.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from statistics import median

import psutil

from minfer.errors import MinferError

LONGEST = 600  # seconds that a start may take


@dataclass(frozen=True)
class Start:
    """Seconds."""

    construction: float  # of LLM(...)
    since_process_start: float  # from the process's first instant to its first token, imports included
    stage: str

    def describe(self) -> dict:
        return asdict(self)


def startup(options: dict, repeats: int) -> list[Start]:
    """Start so many processes, after one more that fills the caches of kernels and files.

    Args:
        options: keyword arguments of LLM, as JSON can say them.

    Raises:
        MinferError: a start failed, or took longer than LONGEST seconds.
    """
    return [one(options) for _ in range(repeats + 1)][1:]


def one(options: dict) -> Start:
    """One engine in a process of its own."""
    command = [sys.executable, "-m", "minfer.bench.startup", json.dumps(options)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        raise MinferError(f"the engine had not started after {LONGEST} s") from None
    if done.returncode:
        raise MinferError(f"the engine did not start: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
    return Start(**json.loads(done.stdout.splitlines()[-1]))


def seconds_to_start(starts: list[Start]) -> tuple[float, float]:
    """Medians: of the construction, and since the process's start."""
    return median(each.construction for each in starts), median(each.since_process_start for each in starts)


def main() -> None:
    from minfer.llm import LLM
    from minfer.params import SamplingParams

    begin = time.perf_counter()
    with LLM(**json.loads(sys.argv[1])) as llm:
        construction = time.perf_counter() - begin
        llm.generate([[0]], SamplingParams(max_tokens=1), progress=False)
        start = Start(construction, time.time() - psutil.Process().create_time(), llm.stage.name)
    sys.stdout.write(json.dumps(start.describe()) + "\n")


if __name__ == "__main__":
    main()
