"""What a prefix cache promises: a prefix that was computed is found again, until its memory is needed; and in which order it goes.

The pool is driven as the slot's suite does it, `minfer/testing/suites/blocks.py`; what must be found is known from the tokens alone.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from minfer.params import SamplingParams
from minfer.testing.pool import MAX_LEN, Pool
from minfer.testing.properties import Case, Place, Property, expect
from minfer.testing.suites.blocks import ALIKE
from minfer.testing.toy import toy_config
from minfer.types import Request, Sampling, Sequence, Status

AMPLE = 200  # blocks: more than a case can fill, so that none is ever used twice


STEMS = ([0] * 12, [1] * 12, [0, 0, 0, 1] * 3)


def beginnings() -> st.SearchStrategy[list[int]]:
    return st.builds(lambda stem, length: stem[:length], st.sampled_from(STEMS), st.integers(3, 12))


def alike() -> st.SearchStrategy[list[int]]:
    return st.lists(st.sampled_from(ALIKE), min_size=3, max_size=6)


def cases(ends: bool, prompts: st.SearchStrategy[list[int]], blocks: tuple[int, ...] = (AMPLE,)) -> st.SearchStrategy[Case]:
    """Sequences that come one after the other, each computed as far as `tokens`; with `ends`, many end at once."""
    turn = st.fixed_dictionaries(
        {
            "prompt": prompts,
            "tokens": st.integers(1, 14),
            "ends": st.booleans() if ends else st.just(False),
        }
    )
    return st.fixed_dictionaries(
        {
            "block_size": st.integers(1, 4),
            "num_blocks": st.sampled_from(blocks),
            "keep": st.just(0),
            "events": st.lists(turn, min_size=2, max_size=8).map(
                lambda turns: [event for number, turn in enumerate(turns) for event in events_of(number, turn)]
            ),
        }
    )


def events_of(number: int, turn: Case) -> list[Case]:
    """As `Pool` plays them."""
    events = [{"new": turn["prompt"]}, {"run": number, "tokens": turn["tokens"]}]
    return [*events, {"free": number}] if turn["ends"] else events


class Remembering(Pool):
    """Knows which prefixes were computed in whole blocks."""

    def __init__(self, part: Any, case: Case):
        super().__init__(part, case)
        self.computed: set[tuple[int, ...]] = set()

    def run(self, seq: Sequence, count: int) -> None:
        super().run(seq, count)
        if not seq.finished:
            whole = min(seq.num_computed, seq.num_tokens) // self.size
            self.computed.update(tuple(seq.token_ids[: n * self.size]) for n in range(1, whole + 1))

    def admit(self, seq: Sequence) -> bool:
        wanted = 0
        while wanted + self.size < seq.num_tokens and tuple(seq.token_ids[: wanted + self.size]) in self.computed:
            wanted += self.size
        found = self.blocks.lookup(seq)
        expect(
            found == wanted,
            f"{wanted} of the {seq.num_tokens} tokens {seq.token_ids} to be found: so many were computed before, in whole blocks of "
            f"{self.size} and without the last token",
            f"{found} found",
        )
        return super().admit(seq)


class Alive(Remembering):
    """Nobody ends."""

    def check_end(self) -> None:
        pass


def check_alive(part: Any, case: Case) -> None:
    Alive(part, case).play()


def check_kept(part: Any, case: Case) -> None:
    Remembering(part, case).play()


def check_collisions(part: Any, case: Case) -> None:
    Pool(part, case).play()


def order_cases(place: Place) -> st.SearchStrategy[Case]:
    """Sequences of so many blocks each, the order in which they end, and how many blocks are then needed."""
    lengths = st.lists(st.integers(1, 3), min_size=1, max_size=4)
    return lengths.flatmap(
        lambda blocks: st.fixed_dictionaries(
            {
                "block_size": st.integers(1, 4),
                "lengths": st.just(blocks),
                "ends": st.permutations(range(len(blocks))),
                "needed": st.integers(1, sum(blocks)),
            }
        )
    )


def check_order(part: Any, case: Case) -> None:
    """Fill the pool with prompts that have nothing in common, end them, take some blocks, and see which prefixes are left."""
    size, lengths = case["block_size"], case["lengths"]
    blocks = part(1 + sum(lengths), part.size_of_block(toy_config(block_size=size, max_model_len=MAX_LEN)))
    seqs = [sequence(number, [10 * number] * (count * size)) for number, count in enumerate(lengths)]
    for seq in seqs:
        compute(blocks, seq)
    for number in case["ends"]:
        blocks.free(seqs[number])
    compute(blocks, sequence(99, [7] * (case["needed"] * size)))
    going = [number for number in case["ends"] for _ in range(lengths[number])]  # the owner of each block, first to go first
    lost = going[: case["needed"]]
    for number, count in enumerate(lengths):
        wanted = (count - lost.count(number)) * size
        found = blocks.lookup(sequence(100 + number, [*seqs[number].token_ids, 1]))
        expect(
            found == wanted,
            f"{wanted} of the {count * size} tokens of sequence {number} to be found still: of {lengths} blocks, ended in the order "
            f"{case['ends']}, {case['needed']} were needed, and each sequence loses its last blocks first",
            f"{found} found",
        )


def salt_cases(place: Place) -> st.SearchStrategy[Case]:
    """One prompt, asked for with one salt or another, and computed as a whole each time."""
    return st.fixed_dictionaries(
        {
            "block_size": st.integers(1, 4),
            "length": st.integers(2, 9),
            "salts": st.lists(st.integers(0, 2), min_size=2, max_size=5),
        }
    )


def check_salt(part: Any, case: Case) -> None:
    size, length, salts = case["block_size"], case["length"], case["salts"]
    blocks = part(1 + AMPLE, part.size_of_block(toy_config(block_size=size, max_model_len=MAX_LEN)))
    for number, salt in enumerate(salts):
        seq = sequence(number, [7] * length, salt)
        wanted = (length - 1) // size * size if salt in salts[:number] else 0
        found = blocks.lookup(seq)
        expect(
            found == wanted,
            f"{wanted} of the {length} tokens of a request with cache_salt {salt} to be found: the same prompt was computed before "
            f"with the salts {salts[:number]}",
            f"{found} found",
        )
        compute(blocks, seq)


def sequence(number: int, ids: list[int], salt: int = 0) -> Sequence:
    """A request of its own, waiting."""
    request = Request(str(number), tuple(ids), SamplingParams(), cache_salt=salt)
    return Sequence(number, request, 0, Sampling(request.params, 0, (), len(ids)), list(ids), len(ids), 10**6)


def compute(blocks: Any, seq: Sequence) -> None:
    """Admit it and compute its prompt."""
    seq.num_computed = blocks.match(seq)
    expect(blocks.allocate(seq, seq.num_tokens), f"room for {seq.num_tokens} tokens, with {blocks.num_free} blocks free", "no room")
    seq.status = Status.RUNNING
    seq.num_computed = seq.num_tokens
    blocks.commit(seq)


def vary(case: Case, place: Place) -> dict[str, dict[Any, Case]]:
    return {"block_size": {size: {**case, "block_size": size} for size in range(1, 5)}}


PROPERTIES = [
    Property(
        "alive",
        "What a living sequence has computed in whole blocks is found by the next one that begins with the same tokens.",
        lambda place: cases(ends=False, prompts=beginnings()),
        check_alive,
        200,
        vary,
    ),
    Property(
        "kept",
        "It is found after that sequence has ended as well, as long as other free blocks could be used.",
        lambda place: cases(ends=True, prompts=beginnings()),
        check_kept,
        200,
        vary,
    ),
    Property(
        "collisions",
        "Blocks whose hashes are equal are told apart: a hash says where to look, and only the tokens say what is there.",
        lambda place: cases(ends=True, prompts=alike(), blocks=(8, AMPLE)),
        check_collisions,
        300,
        vary,
    ),
    Property(
        "salt",
        "Requests with different salts share nothing, those with the same salt do.",
        salt_cases,
        check_salt,
        100,
        vary,
    ),
    Property(
        "order",
        "Where memory is needed, what has been free for longest goes first, and the end of a sequence before its beginning.",
        order_cases,
        check_order,
        200,
        vary,
    ),
]
