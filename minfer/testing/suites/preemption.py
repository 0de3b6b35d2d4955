"""Slot `preemption`: a sequence that gives way loses its blocks, and no token: what is not computed again has come back.

The part is driven over blocks with memory, an array of token ids each, on the device and on the host.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from minfer.blocks.paged import PagedBlocks
from minfer.params import SamplingParams
from minfer.testing.properties import Case, Place, Property, expect
from minfer.testing.traffic import Traffic
from minfer.testing.traffic import cases as traffic_cases
from minfer.types import Copy, Request, Sampling, Sequence, Status

NUM_BLOCKS = 10  # on the device, block 0 included
EMPTY = "nothing"


def cases(place: Place) -> st.SearchStrategy[Case]:
    """Sequences by their numbers of tokens, and events: {"run": i} admits or restores one and computes all its tokens, {"evict": i}
    makes it give way, {"drop": i} ends it.
    """
    event = st.sampled_from(["run", "evict", "run", "evict", "drop"]).flatmap(
        lambda verb: st.fixed_dictionaries({verb: st.integers(0, 3)})
    )
    return st.fixed_dictionaries(
        {
            "block_size": st.integers(1, 4),
            "host_blocks": st.integers(0, 8),
            "lengths": st.lists(st.integers(1, 8), min_size=1, max_size=4),
            "events": st.lists(event, min_size=1, max_size=24),
        }
    )


class Memory:
    """Sequences, blocks, and what lies in them."""

    def __init__(self, part: Any, case: Case):
        self.size, self.num_host = case["block_size"], case["host_blocks"]
        self.part, self.blocks = part(self.num_host), PagedBlocks(NUM_BLOCKS, self.size)
        self.device = [[EMPTY] * self.size for _ in range(NUM_BLOCKS)]
        self.host = [[EMPTY] * self.size for _ in range(self.num_host)]
        self.seqs = []
        for number, length in enumerate(case["lengths"]):
            ids = [10 * number + at for at in range(length)]
            request = Request(str(number), tuple(ids), SamplingParams())
            self.seqs.append(Sequence(number, request, 0, Sampling(request.params, 0, (), length), ids, length, length + 1))

    def run(self, seq: Sequence) -> None:
        """Admit it, bring back what is on the host, compute the rest."""
        if seq.status is not Status.WAITING or not self.blocks.allocate(seq, seq.num_tokens):
            return
        self.carry_out(self.part.restore(seq, self.blocks), "in")
        seq.status = Status.RUNNING
        for at in range(seq.num_computed, seq.num_tokens):
            self.device[seq.block_table[at // self.size]][at % self.size] = seq.token_ids[at]
        seq.num_computed = seq.num_tokens
        self.check_contents(seq)

    def evict(self, seq: Sequence) -> None:
        if seq.status is not Status.RUNNING:
            return
        copies = self.part.evict(seq, self.blocks)
        self.carry_out(copies, "out")
        seq.status = Status.WAITING
        expect(not seq.block_table, "evict to take all blocks away", f"block table {seq.block_table}")
        expect(
            0 <= seq.num_computed <= len(copies) * self.size,
            f"num_computed of what was copied out at most, {len(copies)} blocks of {self.size} tokens",
            seq.num_computed,
        )

    def end(self, seq: Sequence) -> None:
        self.part.drop(seq)
        self.blocks.free(seq)
        seq.status = Status.FINISHED

    def carry_out(self, copies: list[Copy], kind: str) -> None:
        """As an executor does, in this order."""
        for each in copies:
            expect(each.kind == kind, f"copies of the kind {kind!r}", each)
            host, device = (each.src, each.dst) if kind == "in" else (each.dst, each.src)
            expect(0 <= host < self.num_host, f"a host block from 0 to {self.num_host - 1}", each)
            expect(1 <= device < NUM_BLOCKS, f"a device block from 1 to {NUM_BLOCKS - 1}", each)
            if kind == "in":
                self.device[device] = list(self.host[host])
            else:
                self.host[host] = list(self.device[device])

    def check_contents(self, seq: Sequence) -> None:
        for at, token in enumerate(seq.token_ids):
            came = self.device[seq.block_table[at // self.size]][at % self.size]
            expect(came == token, f"sequence {seq.seq_id} to find token {token} at position {at} when it runs again", came)


def check_contents(part: Any, case: Case) -> None:
    memory = Memory(part, case)
    for event in case["events"]:
        ((verb, number),) = event.items()
        seq = memory.seqs[number % len(memory.seqs)]
        {"run": memory.run, "evict": memory.evict, "drop": memory.end}[verb](seq)
    for seq in memory.seqs:
        memory.end(seq)
    free, total = memory.blocks.num_free, memory.blocks.num_total
    expect(free == total, f"all {total} device blocks free at the end", free)


def check_leaks(part: Any, case: Case) -> None:
    """One sequence after another, all alike: each must fare as the first one did, however often it gives way."""
    alike = {**case, "lengths": case["lengths"][:1]}
    memory, kept = Memory(part, alike), []
    for times in (1, 3, 1):
        [seq] = Memory(part, alike).seqs
        for _ in range(times):
            memory.run(seq)
            memory.evict(seq)
            kept.append(seq.num_computed)
        memory.end(seq)
    expect(len(set(kept)) == 1, f"the same {kept[0]} tokens kept each time that a sequence like it gives way", f"{kept} tokens")


def check_traffic(part: Any, case: Case) -> None:
    Traffic(case, preemption=part).play()


PROPERTIES = [
    Property("contents", "A sequence that gave way finds all its tokens when it runs again.", cases, check_contents, 250),
    Property("gives-back", "What a sequence held on the host is free again once it has run on, or ended.", cases, check_leaks, 60),
    Property(
        "traffic",
        "Under any scheduler, each request that gives way gets the tokens that it gets alone.",
        lambda place: traffic_cases(place, "preemption", ahead=True),
        check_traffic,
        200,
    ),
]
