"""A part of the slot `blocks`, and blocks with a memory, driven as a scheduler drives them.

A token's K/V depend on all tokens before it, so in their place lies the list of these tokens. What a block table says can be compared
with what the sequence must find there.

From: the events of a case. To: `suites/blocks.py` and `promises/blocks.py`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from minfer.params import SamplingParams
from minfer.testing.properties import Case, expect
from minfer.testing.toy import toy_config
from minfer.types import Request, Sampling, Sequence, Status

MAX_LEN = 16
Memory = dict[int, dict[int, list]]  # block → offset → `content` of the token there


def content(seq: Sequence, at: int) -> list:
    """What the K/V at that position were computed of: all tokens so far, and the salt, since others may not share them."""
    salt = seq.request.cache_salt
    return [f"salt {salt}"] * bool(salt) + seq.token_ids[: at + 1]


class Pool:
    """The part and its blocks' memory, with the sequences that use them."""

    def __init__(self, part: Any, case: Case):
        self.case = case
        config = toy_config(max_model_len=MAX_LEN, block_size=case["block_size"])
        self.size = part.size_of_block(config)
        expect(isinstance(self.size, int) and self.size >= 1, "size_of_block to give a number of tokens, at least 1", self.size)
        self.blocks = part(case["num_blocks"], self.size)
        self.memory: Memory = {}
        self.seqs: list[Sequence] = []

    def play(self, end: bool = True) -> None:
        """All events of the case; with `end`, then all sequences end."""
        total = self.blocks.num_total
        expect(total == self.case["num_blocks"] - 1, f"num_total {self.case['num_blocks'] - 1}: all but block 0", total)
        for event in self.case["events"]:
            if "new" in event:
                self.add(event)
            elif self.seqs and "run" in event:
                self.run(self.seqs[event["run"] % len(self.seqs)], event["tokens"])
            elif self.seqs:
                self.end(self.seqs[event["free"] % len(self.seqs)])
            self.check()
        if end:
            self.check_end()

    def check_end(self) -> None:
        for seq in self.seqs:
            self.end(seq)
            self.check()
        total = self.blocks.num_total
        expect(self.blocks.num_free == total, f"all {total} blocks free once every sequence has ended", self.blocks.num_free)

    def add(self, event: Case) -> None:
        """A sequence, waiting; with "of", another completion of that one's request, once its prompt is computed."""
        of, prompt_logprobs = event.get("of"), 1 if event.get("scored") else None
        fresh = Request(
            str(len(self.seqs)), tuple(event["new"]), SamplingParams(prompt_logprobs=prompt_logprobs), cache_salt=event.get("salt", 0)
        )
        first = self.seqs[of % len(self.seqs)] if of is not None and self.seqs else None
        parent = first if first is not None and first.index == 0 and first.num_computed >= first.num_prompt else None
        request = parent.request if parent else fresh
        ids = list(request.prompt_ids)
        sampling = Sampling(request.params, 0, (), len(ids))
        self.seqs.append(Sequence(len(self.seqs), request, int(parent is not None), sampling, ids, len(ids), MAX_LEN, parent))

    def run(self, seq: Sequence, count: int) -> None:
        """Admit it if need be, and compute `count` tokens: known ones in one piece, then output one by one."""
        if seq.finished or (seq.status is Status.WAITING and not self.admit(seq)):
            return
        last = min(seq.num_computed + count, MAX_LEN)
        while seq.num_computed < min(last, seq.num_tokens):
            end = min(last, seq.num_tokens)
            if not self.allocate(seq, end, 0):
                return
            for at in range(seq.num_computed, end):
                self.memory.setdefault(seq.block_table[at // self.size], {})[at % self.size] = content(seq, at)
            seq.num_computed = end
            self.blocks.commit(seq)
            if end == seq.num_tokens < MAX_LEN:
                seq.token_ids.append(2 + seq.index)  # differs between the completions of a request

    def admit(self, seq: Sequence) -> bool:
        """As a scheduler does: take what is there already, then room for all its tokens."""
        before = self.blocks.num_free
        found = self.blocks.lookup(seq)
        expect(self.blocks.num_free == before and not seq.block_table, "lookup to take nothing", "blocks taken")
        seq.num_computed = matched = self.blocks.match(seq)
        expect(
            0 <= matched < seq.num_tokens, f"match to leave the last of {seq.num_tokens} tokens to compute", f"{matched} tokens matched"
        )
        scored = seq.parent is None and seq.request.params.prompt_logprobs is not None
        expect(not scored or not matched, "nothing matched for a request with prompt_logprobs, which needs its whole prompt's logits",
               f"{matched} tokens matched")  # fmt: skip
        if seq.parent is None:
            expect(matched == found, f"match to find what lookup did, {found} tokens", matched)
        self.check_contents(seq, "match")
        if not self.allocate(seq, seq.num_tokens, self.case["keep"]):
            if seq.block_table:  # what was matched
                self.blocks.free(seq)
            seq.num_computed = 0
            return False
        seq.status = Status.RUNNING
        return True

    def allocate(self, seq: Sequence, num_tokens: int, keep: int) -> bool:
        """Room for num_tokens, and the copies that this takes. All or nothing, and no more than is needed."""
        table, free = list(seq.block_table), self.blocks.num_free
        done = self.blocks.allocate(seq, num_tokens, keep)
        for kind, source, target in self.blocks.copies:
            expect(kind == "copy", 'copies of the kind "copy"', kind)
            self.memory[target] = dict(self.memory.get(source, {}))
        copied = len(self.blocks.copies)
        self.blocks.copies.clear()
        if not done:
            expect(
                seq.block_table == table and self.blocks.num_free == free and not copied,
                f"nothing taken where there is no room: block table {table}, {free} blocks free",
                f"block table {seq.block_table}, {self.blocks.num_free} free, {copied} copied",
            )
            needed = -(-num_tokens // self.size) - len(table)
            expect(needed + 1 + keep > free, f"room for {needed} more blocks (one for a copy, {keep} kept): {free} are free", "no room")
            return False
        wanted = max(len(table), -(-num_tokens // self.size))
        expect(
            len(seq.block_table) == wanted,
            f"a table of {wanted} blocks of {self.size} for {num_tokens} tokens",
            f"{len(seq.block_table)}: {seq.block_table}",
        )
        if self.size < MAX_LEN and self.blocks.num_free < free:  # else nobody will ever need a second block
            expect(self.blocks.num_free >= keep, f"{keep} blocks left free", self.blocks.num_free)
        self.check_contents(seq, "allocate")
        return True

    def end(self, seq: Sequence) -> None:
        """Free it twice: the second time nothing is left to free."""
        self.blocks.free(seq)
        expect(not seq.block_table, "free to leave an empty block table", seq.block_table)
        free = self.blocks.num_free
        self.blocks.free(seq)
        expect(self.blocks.num_free == free, f"{free} blocks free after freeing a sequence twice", self.blocks.num_free)
        seq.status = Status.FINISHED

    def check(self) -> None:
        """Every block is free or in use; what each sequence has computed is where its table says."""
        tables = [seq.block_table for seq in self.seqs if seq.status is Status.RUNNING]
        for table in tables:
            expect(len(set(table)) == len(table), "a block once in a table", table)
        held = Counter(block for table in tables for block in table)
        total = self.blocks.num_total
        wrong = sorted(block for block in held if not 1 <= block <= total)
        expect(not wrong, f"block numbers from 1 to {total} (block 0 is for padding)", wrong)
        expect(
            self.blocks.num_free + len(held) == total,
            f"{total - len(held)} of {total} blocks free, since {len(held)} are in tables: {tables}",
            self.blocks.num_free,
        )
        for seq in self.seqs:
            if seq.status is Status.RUNNING:
                self.check_contents(seq, "this")

    def check_contents(self, seq: Sequence, verb: str) -> None:
        for at in range(seq.num_computed):
            block, offset = at // self.size, at % self.size
            if block < len(seq.block_table):
                number = seq.block_table[block]
                found = self.memory.get(number, {}).get(offset, "nothing")
            else:
                number, found = "none", "nothing"
            expect(
                found == content(seq, at),
                f"sequence {seq.seq_id} to find the K/V of its tokens {content(seq, seq.num_computed - 1)} in its blocks after {verb}",
                f"those of {found} at position {at} (block {number}, offset {offset})",
            )
