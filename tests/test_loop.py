"""Slot `loop`: its suite over every part that comes with minfer."""

from slot_suites import suite_test

test_every_part_has_the_properties = suite_test("loop")
