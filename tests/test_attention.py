"""Slot `attention`: its suite over every part, and what only the PyTorch part has."""

from __future__ import annotations

import torch
from slot_suites import suite_test

from minfer.attention.torch import find_rows

test_every_part_has_the_properties = suite_test("attention")


def test_rows_of_a_large_cache_need_64_bits():
    """A row number beyond 2³¹ does not wrap around."""
    cache = torch.empty(1, 1, 1, 1).expand(2**24, 256, 2, 1)  # no memory behind it
    rows = find_rows(torch.tensor([[255]]), torch.tensor([[2**24 - 1]], dtype=torch.int32), cache)
    assert rows.tolist() == [(2**24 - 1) * 256 * 2 + 255 * 2 + head for head in range(2)]
