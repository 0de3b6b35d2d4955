"""The ladder: each stage is the one before with exactly one part swapped, and a slot is called the same everywhere."""

from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import minfer
from minfer.errors import MinferError
from minfer.parts import SLOTS
from minfer.stages import CHUNKED, CPU, CPU_TORCH, HF, LADDER, RAY, STAGES, TENSOR_PARALLEL, find_stage

slots = st.sampled_from(list(SLOTS))


def test_every_step_of_the_ladder_swaps_one_part():
    """The slots that differ between neighbours: always exactly one. Names are unique."""
    for before, after in pairwise(LADDER):
        assert len(after.differs(before)) == 1, f"{after.name} swaps {after.differs(before)}"
    assert [stage.name for stage in LADDER[:5]] == ["hf", "decoder", "paged", "continuous", "chunked"]
    assert len({stage.name for stage in LADDER}) == len(LADDER)
    assert {stage.name: stage for stage in (*LADDER, TENSOR_PARALLEL, RAY, CPU_TORCH, CPU)} == STAGES
    assert TENSOR_PARALLEL.differs(LADDER[-1]) == RAY.differs(TENSOR_PARALLEL) == ["executor"]


@given(st.dictionaries(slots, st.just("mine.py:part")))
def test_a_swap_of_any_other_number_of_parts_raises(parts):
    """swap takes one slot; the error says which stage and which slots. with_parts takes any number."""
    mixed = CHUNKED.with_parts("mine", **parts)
    assert set(mixed.differs(CHUNKED)) == set(parts)
    assert mixed.parts() == {**CHUNKED.parts(), **parts}
    if len(parts) == 1:
        assert CHUNKED.swap("mine", **parts) == mixed
    else:
        with pytest.raises(MinferError, match="'mine' must swap exactly one part of 'chunked'") as error:
            CHUNKED.swap("mine", **parts)
        assert all(slot in str(error.value) for slot in parts)


@given(slots)
def test_a_swap_that_changes_nothing_raises(slot):
    """The part that is there already is no swap."""
    with pytest.raises(MinferError, match="exactly one part"):
        HF.swap("same", **{slot: getattr(HF, slot)})


def test_unknown_slots_and_stages_list_the_known():
    """The error says what there is."""
    with pytest.raises(MinferError, match="no slot is called atention, nrom; the slots are executor, loop"):
        HF.with_parts(nrom="a.py:b", atention="a.py:b")
    with pytest.raises(MinferError, match="no stage is called 'fast'; the stages are hf, decoder"):
        find_stage("fast")
    assert find_stage("hf") is HF
    assert find_stage(replace(HF, name="mine")).name == "mine"


def test_a_slot_is_one_word_in_every_place():
    """Stage's fields, the Protocols, and the folders of the package are the same names in the same places."""
    assert [field.name for field in fields(HF)] == ["name", *SLOTS]
    for slot in SLOTS:
        assert (Path(minfer.__file__).parent / slot / "__init__.py").is_file()
        for stage in STAGES.values():
            assert getattr(stage, slot).startswith(f"minfer.{slot}.")
