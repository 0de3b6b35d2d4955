"""Fault: a row keeps the sampling parameters of the first sequence that had it."""

from __future__ import annotations

from minfer.inputs.resident import ResidentInputs


class Mutant(ResidentInputs):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        begin, seen = self.rows._begin, set()

        def only_once(works):
            kept = self.rows.reals.clone()
            begin(works)
            for work in works:
                if work.row in seen:
                    self.rows.reals[:, work.row] = kept[:, work.row]
                seen.add(work.row)

        self.rows._begin = only_once
