"""Calls that are broken off at any line, or run in several threads: what comes after them is clean, and nobody's tokens change."""

import random
import sys
import threading
from contextlib import suppress

import pytest
from engine_fixtures import MIXES, checkpoint, greedy, ids_of

from minfer import LLM
from minfer.testing.invariants import check_idle
from minfer.trace import record
from minfer.trace.check import check

TEXTS = [[5, 6, 7, 8, 9, 10], [5, 6, 7, 8, 9], [9] * 7, [3, 4]]
PARAMS = [greedy(9, n=3, stop=["zz"]), greedy(7, logprobs=2), greedy(9), greedy(4, prompt_logprobs=1)]
BOOKKEEPING = ("minfer/scheduler", "minfer/blocks", "minfer/preemption", "minfer/policy")


class Interrupt:
    """Raises KeyboardInterrupt at the n-th line that runs in one of these folders; n = 0: nowhere, lines are only counted."""

    def __init__(self, folders: tuple[str, ...], n: int = 0):
        self.folders, self.n, self.count = folders, n, 0

    def __enter__(self):
        sys.settrace(lambda frame, event, arg: self._line if any(part in frame.f_code.co_filename for part in self.folders) else None)
        return self

    def __exit__(self, *exception):
        sys.settrace(None)

    def _line(self, frame, event, arg):
        self.count += event == "line"
        if event == "line" and self.count == self.n:
            sys.settrace(None)
            raise KeyboardInterrupt
        return self._line


def new_llm(mix: str) -> LLM:
    paged = {} if mix in ("hf", "decoder") else {"num_kv_blocks": 10, "block_size": 2, "num_host_blocks": 4 if "swap" in mix else 0}
    return LLM(str(checkpoint()), stage=MIXES[mix], max_model_len=32, max_num_seqs=4, **paged)


def answer(llm: LLM) -> list[list[list[int]]]:
    return [[completion.token_ids for completion in output.outputs] for output in llm.generate(TEXTS, PARAMS, progress=False)]


@pytest.mark.parametrize("folders", [BOOKKEEPING, ("/minfer/",)], ids=["bookkeeping", "anywhere"])
@pytest.mark.parametrize("mix", ["cpu", "cpu+ahead+swap", "chunked+swap", "continuous+prefix", "decoder", "hf"])
def test_ctrl_c_at_any_line(mix, folders):
    """Ctrl-C comes between any two lines, in the middle of the bookkeeping too; the next call gives what an untouched engine gives."""
    rng = random.Random(mix)
    with new_llm(mix) as llm:
        with Interrupt(folders) as counted:
            expected = answer(llm)
        if mix not in ("hf", "decoder"):
            assert llm.stats().num_preemptions > 0
        for n in (rng.randint(1, counted.count) for _ in range(8)):
            with Interrupt(folders, n) as interrupt, suppress(KeyboardInterrupt):
                answer(llm)
            where = f"interrupted at line {n} of {counted.count}; {interrupt.count} ran"
            check_idle(llm.engine.scheduler)
            assert not llm.has_unfinished(), where
            assert answer(llm) == expected, where
            check_idle(llm.engine.scheduler)


def test_a_policy_that_fails_in_the_middle_of_a_step():
    """A sequence gives way and cannot be queued again: it is in no queue then, and yet everything comes back. Counts go on."""
    with new_llm("chunked+swap") as llm:
        expected = answer(llm)
        steps, preemptions, policy = llm.stats().num_steps, llm.stats().num_preemptions, llm.engine.scheduler.waiting._policy
        llm.engine.scheduler.waiting._policy = lambda seq, context: 1 / 0 if seq.num_preemptions else policy(seq, context)
        with pytest.raises(ZeroDivisionError):
            answer(llm)
        check_idle(llm.engine.scheduler)
        assert llm.stats().num_steps > steps
        assert llm.stats().num_preemptions > preemptions
        assert answer(llm) == expected


def test_a_recording_goes_on_after_an_error():
    """It hears what comes after, and its picture of queues, tables and cached blocks is the engine's."""
    with new_llm("cpu") as llm, record(llm) as recording:
        answer(llm)
        with Interrupt(BOOKKEEPING, 3000), pytest.raises(KeyboardInterrupt):
            answer(llm)
        before = recording.trace.num_steps
        llm.generate([TEXTS[0]], greedy(2))
        *_, last = recording.trace.frames()
        assert recording.trace.num_steps > before
        assert set(last.cached) == set(llm.engine.blocks.cached) != set(), "only this call's blocks can be found"
        check(recording.trace)


def test_threads_take_turns():
    """Several threads complete and stream on one LLM at once: each gets its own tokens."""
    with LLM(str(checkpoint()), stage=MIXES["cpu"], max_model_len=64, num_kv_blocks=40, block_size=4) as llm:
        texts = [[[5 + i, 6], [7, 8 + i], [9 + i]] for i in range(4)]
        expected = [ids_of(llm.generate(own, greedy(12))) for own in texts]
        wrong = []

        def work(i: int) -> None:
            try:
                for _ in range(3):
                    got = ids_of(llm.generate(texts[i], greedy(12), progress=False))
                    streamed = list(llm.stream(texts[i][0], greedy(12)))[-1].outputs[0].token_ids
                    if (got, streamed) != (expected[i], expected[i][0]):
                        wrong.append((i, got, streamed))
            except Exception as error:
                wrong.append((i, error))

        threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        assert not any(thread.is_alive() for thread in threads)
        assert wrong == []
        check_idle(llm.engine.scheduler)
