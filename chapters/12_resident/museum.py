"""Bug museum, chapter 12: inputs with one fault of a kind that engines have had. Find it before you read on.

    minfer check inputs --part chapters/12_resident/museum.py:ResidentInputs
"""

from __future__ import annotations

import numpy as np

from minfer.inputs import resident, rows
from minfer.types import Plan


class Rows(rows.Rows):
    """Sends a row anew when another sequence has taken it."""

    def enter(self, plan: Plan, rows: np.ndarray, seq_ids: np.ndarray) -> tuple[list[int], list[int]]:
        newcomers = [plan.work[i] for i in np.flatnonzero(self.seq_ids[rows] != seq_ids)]
        places, blocks = [], []
        if newcomers:
            self._begin(newcomers)
        for work in plan.work:
            if work.new_blocks:
                first = self.num_blocks[work.row]
                self.num_blocks[work.row] += len(work.new_blocks)
                begin = work.row * self.width + first
                places.extend(range(begin, begin + len(work.new_blocks)))
                blocks.extend(work.new_blocks)
        if len(blocks) > self.num_rows:
            self._put(self.block_tables.view(-1), places, blocks)
            return [], []
        return places, blocks


class ResidentInputs(resident.ResidentInputs):
    """One message a step, and `Rows`."""

    def __init__(self, config, block_size: int):
        super().__init__(config, block_size)
        self.rows = Rows(config, block_size)
