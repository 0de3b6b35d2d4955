"""Ranks that are killed, stopped, raise or hang, and a caller that is killed: one error in time, and nothing is left of the others."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
import rank_parts
from engine_fixtures import checkpoint, greedy

from minfer import LLM
from minfer.errors import MinferError

IN_TIME = 10.0  # seconds
CALLER = """
import sys
from minfer import LLM, SamplingParams
llm = LLM(sys.argv[1], stage="chunked", device="cpu", tensor_parallel_size=2, max_model_len=128, num_kv_blocks=20)
print("ready", flush=True)
llm.generate([5, 6, 7], SamplingParams(max_tokens=100, ignore_eos=True), progress=False)
llm.engine.executor.ask(int)
"""


def make(swap: dict | None = None, path=None) -> LLM:
    options = {"device": "cpu", "max_model_len": 128, "num_kv_blocks": 20, "block_size": 4}
    return LLM(str(path or checkpoint()), stage="chunked", swap=swap, tensor_parallel_size=2, **options)


def workers(parent: psutil.Process | None = None) -> list[psutil.Process]:
    return [each for each in (parent or psutil.Process()).children(recursive=True) if "executor.worker" in " ".join(each.cmdline())]


def generate(llm: LLM) -> None:
    """Until it fails."""
    begin = time.monotonic()
    while time.monotonic() - begin < 60:
        llm.generate([5, 6, 7], greedy(20), progress=False)


def fails(llm: LLM, what: str) -> None:
    """A generation ends with that error in time, every later call with the same, and no process is left."""
    begin = time.monotonic()
    with pytest.raises(MinferError, match=what):
        generate(llm)
    assert time.monotonic() - begin < IN_TIME
    with pytest.raises(MinferError, match=what):
        llm.generate([5, 6, 7], greedy(2), progress=False)
    assert not llm.has_unfinished()
    assert workers() == []


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_rank(rank):
    """SIGKILL in the midst of steps: its rank and the signal."""
    llm = make()
    threading.Timer(0.3, workers()[rank].kill).start()
    fails(llm, rf"rank {rank} of 2 \(process \d+\) was killed by SIGKILL, and the engine is gone with it")


def test_a_rank_that_raises():
    """Not the other's complaint about a lost connection, but the error itself, with where it came from."""
    fails(make(rank_parts.FAILS), r"(?s)rank 1 of 2 .* failed: ZeroDivisionError: rank 1 cannot go on; .*rank_parts\.py")


def test_a_rank_that_hangs():
    """It is alive, but does not come to the sum: the other one says so."""
    fails(make(rank_parts.HANGS), r"rank 0 has waited 6 s for another rank, which hangs")


@pytest.mark.parametrize("ranks", [[0], pytest.param([0, 1], marks=pytest.mark.slow)])
def test_stopped_ranks(ranks):
    """SIGSTOP: no sign of life, or no part in a sum. Then it is a matter of seconds."""
    llm = make()
    for rank in ranks:
        workers()[rank].send_signal(signal.SIGSTOP)
    fails(llm, r"rank \d of 2 .* has given no sign of life for 6 s: it hangs|rank 1 has waited 6 s for another rank, which hangs")


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_caller_that_ends(how):
    """The ranks of a caller that is killed, or interrupted by Ctrl-C, end by themselves."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    caller = subprocess.Popen([sys.executable, "-c", CALLER, str(checkpoint())], **pipes)
    assert caller.stdout.readline() == "ready\n"
    left = workers(psutil.Process(caller.pid))
    assert len(left) == 2
    caller.send_signal(how)
    _, stderr = caller.communicate(timeout=IN_TIME)
    assert ("KeyboardInterrupt" in stderr) == (how is signal.SIGINT)
    psutil.wait_procs(left, timeout=IN_TIME)
    assert not [each for each in left if each.is_running()]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_kills_at_random_moments(seed):
    """25 times: while it starts, loads or runs, one of the ranks is killed. Each time one error in time, each time nothing is left."""
    rng = random.Random(seed)
    path = checkpoint()
    begin = time.monotonic()
    make(path=path).close()
    took = time.monotonic() - begin
    for turn in range(25):
        killed_at: list[float] = []

        def kill(rank: int, delay: float, killed_at: list[float]) -> None:
            begin = time.monotonic()
            while len(found := workers()) < 2 or time.monotonic() - begin < delay:
                time.sleep(0.01)
            killed_at.append(time.monotonic())
            found[rank].kill()

        killer = threading.Thread(target=kill, args=(turn % 2, rng.uniform(0, 1.2 * took), killed_at))
        killer.start()
        with pytest.raises(MinferError, match=rf"rank {turn % 2} of 2 .* was killed by SIGKILL"):
            generate(make(path=path))
        assert time.monotonic() - killed_at[0] < IN_TIME
        killer.join()
        assert workers() == []
