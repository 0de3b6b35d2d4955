"""The glossary: in order, short, and with an entry for each slot and for each type that travels through the engine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from minfer import types
from minfer.parts import SLOTS

TEXT = (Path(__file__).parent.parent / "docs" / "glossary.md").read_text(encoding="utf-8")
ENTRIES = dict(re.findall(r"^### (.+)\n(.+(?:\n.+)*)", TEXT, re.MULTILINE))
SLOT_NAMES = {"blocks": "Block", "inputs": "Inputs", "sample": "Sampling", "write_kv": "Write K/V"}


def test_terms_are_in_order_and_defined_once():
    terms = re.findall(r"^### (.+)$", TEXT, re.MULTILINE)
    plain = [re.sub(r"[^a-z0-9]", "", term.lower()) for term in terms]
    assert plain == sorted(set(plain))
    assert list(ENTRIES) == terms, "each term is followed by its text, without an empty line"


@pytest.mark.parametrize("term", ENTRIES)
def test_an_entry_is_short(term):
    """A definition and at most what it is good for; the source not counted."""
    text = re.split(r" Source: |; with a single", " ".join(ENTRIES[term].split()))[0]
    assert 1 <= len(re.findall(r"[.:](?= [A-Z`]|$)", text)) <= 4
    assert len(text) < 340


@pytest.mark.parametrize("slot", SLOTS)
def test_every_slot_has_an_entry(slot):
    assert SLOT_NAMES.get(slot, slot.capitalize()) in ENTRIES


@pytest.mark.parametrize("name", ["Request", "Sequence", "Work", "Plan", "Batch", "Bucket"])
def test_every_type_of_the_journey_has_an_entry(name):
    assert hasattr(types, name)
    assert name in ENTRIES


def test_links_within_the_page_lead_somewhere():
    anchors = {re.sub(r"[^a-z0-9 -]", "", term.lower()).replace(" ", "-") for term in ENTRIES}
    found = re.findall(r"\]\(#([^)]+)\)", TEXT)
    assert found
    assert set(found) <= anchors
