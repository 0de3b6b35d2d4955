"""The bookkeeping that every scheduler shares: queues, rows, room for K/V, preemption, and commit.

From: the engine adds sequences. To: plans go to the executor; what it sampled comes back to `commit`.

There is no prefill phase and no decode phase. Every sequence has `num_tokens` known tokens, of which `num_computed` have their
K/V in the cache, and each step lets some of them catch up:

    token_ids      | prompt ............ | output ... | pending |
    num_computed   | ===============>  num_new to go  |

A scheduler says only which sequences catch up, and by how many tokens; it writes `schedule`, and this class does the rest.
`schedule` advances num_computed (and num_pending, where the step samples); `commit` appends the token and lowers num_pending.
"""

from __future__ import annotations

import bisect
import time
from collections import Counter
from operator import attrgetter

from minfer.scheduler.queue import WaitingQueue
from minfer.scheduler.scoring import keep_scores, tokens_to_score
from minfer.types import Plan, Sampled, Sequence, Status, Work
from minfer.usage import KVUsage

BY_START, BY_NUM_NEW = attrgetter("start"), attrgetter("num_new")


class BaseScheduler:
    """Invariants: a live sequence is in exactly one of held, waiting, running; only the running hold rows and blocks."""

    def __init__(self, config, blocks, policy, preemption):
        self.config = config
        self.blocks = blocks
        self.preemption = preemption
        self.served: Counter[str] = Counter()  # tokens planned, by user
        self.live: dict[int, Sequence] = {}
        self.held: dict[int, Sequence] = {}
        self.waiting = WaitingQueue(policy, self)
        self.running: list[Sequence] = []  # by rank: the last one gives way first
        self.num_steps = 0
        self.num_preemptions = 0
        self.usage = KVUsage()
        self._free_rows = list(range(config.max_num_seqs - 1, -1, -1))
        self._freed_rows = list(range(config.max_num_seqs))  # that the executor is to forget: it may have seen another scheduler's
        self._waits_for: dict[int, list[Sequence]] = {}  # by seq_id of the parent: the completions held for its prompt

    # Interface to the engine and the loop

    def add(self, seq: Sequence) -> None:
        self.live[seq.seq_id] = seq
        parent = seq.parent
        if parent is not None and not parent.finished and parent.num_computed < parent.num_prompt:
            self._hold(seq)
            self._waits_for.setdefault(parent.seq_id, []).append(seq)
        else:
            self._queue(seq)

    def abort(self, seq_id: int, reason: str = "abort") -> None:
        """End a sequence in whatever state it is. Unknown and finished ones are left alone."""
        seq = self.live.get(seq_id)
        if seq is not None:
            self._finish(seq, reason)

    def has_work(self) -> bool:
        return bool(self.live)

    def schedule(self) -> Plan | None:
        raise NotImplementedError("a scheduler decides here which sequences catch up in this step")

    def commit(self, plan: Plan, sampled: Sampled) -> list[Sequence]:
        """Append what a step sampled. Tokens of sequences that ended meanwhile are skipped. Returns those that got a token."""
        moved: list[Sequence] = []
        block_size = self.blocks.block_size
        sample = score = 0
        for work in plan.work:
            seq = self.live.get(work.seq_id)
            if work.score_ids:
                if seq is not None:
                    keep_scores(seq, work, sampled.prompt_logprobs[score : score + len(work.score_ids)])
                score += len(work.score_ids)
            if seq is not None:
                if self._waits_for:
                    self._release_children(seq)
                ends_block = work.start // block_size < (work.start + work.num_new) // block_size
                if ends_block and seq.status is Status.RUNNING:  # before it may end
                    self.blocks.commit(seq)
                if work.samples:
                    self._append(seq, sampled, sample)
                    moved.append(seq)
            sample += work.samples
        return moved

    # Verbs for schedule()

    def _ready(self, seq: Sequence) -> bool:
        """Whether it has a token to compute now: it may still grow, and what it must know to sample has arrived."""
        known_or_pending = len(seq.token_ids) + seq.num_pending
        return (
            seq.num_computed < known_or_pending < seq.limit
            and seq.status is Status.RUNNING
            and not (seq.num_pending and seq.sampling.params.needs_history)
        )

    def _make_room(self, seq: Sequence, num_new: int) -> bool:
        """Room for num_new more tokens; the last in rank give way, at worst the sequence itself. False if it was that."""
        while not self.blocks.allocate(seq, seq.num_computed + num_new):
            victim = self.running[-1]
            self._preempt(victim)
            if victim is seq:
                return False
        return True

    def _admit(self, max_new: float) -> Sequence | None:
        """Let the first waiting sequence run, if there are a row, blocks for all its tokens, and at most max_new to compute.

        While others run, one block in a hundred stays free, so that the newcomer does not push them out in the next step.
        """
        seq = self.waiting.first()
        if seq is None or not self._free_rows:
            return None
        swapped = seq.num_computed > 0
        if not swapped:
            seq.num_computed = self.blocks.match(seq)
        keep = max(1, self.blocks.num_total // 100) if self.running else 0
        if seq.num_new > max_new or not self.blocks.allocate(seq, seq.num_tokens, keep):
            self.blocks.free(seq)
            seq.num_computed = seq.num_computed if swapped else 0
            return None
        self.blocks.copies += self.preemption.restore(seq, self.blocks)
        self.waiting.remove(seq)
        seq.row = self._free_rows.pop()
        seq.status = Status.RUNNING
        if seq.scheduled_at is None:
            seq.scheduled_at = time.monotonic()
            seq.num_cached = seq.num_computed
        bisect.insort(self.running, seq, key=lambda other: other.rank)
        return seq

    def _work(self, seq: Sequence, num_new: int) -> Work:
        """Plan the next num_new tokens of a sequence, and count them as computed."""
        start, token_ids, table, sampling = seq.num_computed, seq.token_ids, seq.block_table, seq.sampling
        end, known = start + num_new, len(token_ids)
        samples = end == known + seq.num_pending
        params = sampling.params
        work = Work(  # by position: hundreds are built every step
            seq.seq_id,
            seq.row,
            start,
            num_new,
            token_ids[start:end] if start < known else (),
            table[seq.num_sent_blocks :] if seq.num_sent_blocks < len(table) else (),
            samples,
            sampling,
            token_ids[:] if samples and params.needs_history else None,
            tokens_to_score(seq, start, end) if params.prompt_logprobs is not None else None,
        )
        seq.num_sent_blocks = len(table)
        seq.num_computed = end
        seq.num_pending += samples
        self.served[seq.request.user] += num_new
        return work

    def _plan(self, work: list[Work]) -> Plan | None:
        """The step's plan: decodes first, those with the longest context foremost, and the rows and copies that piled up."""
        if not work:
            return None
        work.sort(key=BY_START, reverse=True)
        work.sort(key=BY_NUM_NEW)
        plan = Plan(self.num_steps, work, self._freed_rows, self.blocks.copies[:])
        self.num_steps += 1
        reserved = (self.blocks.num_total - self.blocks.num_free) * self.blocks.block_size
        self.usage.record(reserved, sum(seq.num_computed for seq in self.running))
        self._freed_rows = []
        self.blocks.copies.clear()
        return plan

    # Moves between the queues

    def _queue(self, seq: Sequence) -> None:
        seq.status = Status.WAITING
        self.waiting.push(seq)

    def _hold(self, seq: Sequence) -> None:
        seq.status = Status.HELD
        self.held[seq.seq_id] = seq

    def _leave(self, seq: Sequence) -> None:
        """Out of its queue; a running sequence gives its row back."""
        if seq.status is Status.RUNNING:
            self.running.remove(seq)
            self._freed_rows.append(seq.row)
            self._free_rows.append(seq.row)
            seq.row = None
            seq.num_sent_blocks = 0
        elif seq.status is Status.WAITING:
            self.waiting.remove(seq)
        else:
            del self.held[seq.seq_id]

    def _preempt(self, seq: Sequence) -> None:
        """Take everything from a running sequence; it waits again, if need be for its pending token first."""
        self._leave(seq)
        self.blocks.copies += self.preemption.evict(seq, self.blocks)
        seq.num_preemptions += 1
        self.num_preemptions += 1
        if seq.num_pending:
            self._hold(seq)
        else:
            self._queue(seq)

    def _finish(self, seq: Sequence, reason: str, stop_reason: int | None = None) -> None:
        self._leave(seq)
        self.preemption.drop(seq)
        self.blocks.free(seq)
        del self.live[seq.seq_id]
        seq.status = Status.FINISHED
        seq.finish_reason, seq.stop_reason = reason, stop_reason
        seq.finished_at = time.monotonic()
        self._release_children(seq)
        if not self.live:  # idle: forget every row, since a plan that named some may have failed on its way
            self._freed_rows = list(range(self.config.max_num_seqs))
            self.blocks.copies.clear()

    def _release_children(self, seq: Sequence) -> None:
        """Its prompt is computed, or never will be: the other completions of the request need not wait for it."""
        if seq.finished or seq.num_computed >= seq.num_prompt:
            for child in self._waits_for.pop(seq.seq_id, ()):
                if child.status is Status.HELD:
                    self._leave(child)
                    self._queue(child)

    # Parts of commit()

    def _append(self, seq: Sequence, sampled: Sampled, i: int) -> None:
        token = sampled.next_ids[i]
        seq.token_ids.append(token)
        seq.num_pending -= 1
        if seq.first_token_at is None:
            seq.first_token_at = time.monotonic()
        if seq.sampling.params.logprobs is not None:
            seq.logprobs.append(sampled.logprobs[i])
        if token in seq.sampling.stop_ids and seq.num_output >= seq.sampling.params.min_tokens:
            self._finish(seq, "stop", token if token in seq.sampling.params.stop_token_ids else None)
        elif seq.num_tokens >= seq.limit:
            self._finish(seq, "length")
        elif seq.status is Status.HELD and not seq.num_pending:
            self._leave(seq)
            self._queue(seq)
