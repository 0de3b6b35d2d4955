"""Slot `linear`: its suite over every part."""

from slot_suites import suite_test

test_every_part_has_the_properties = suite_test("linear")
