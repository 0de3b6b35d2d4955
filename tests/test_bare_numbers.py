"""Measurements that a chapter states by hand are found; code, examples and what cites its source are left alone."""

from __future__ import annotations

import bare_numbers
import pytest


@pytest.mark.parametrize(
    "line",
    [
        "A step takes 3.5 ms.", "It reads 40 GB/s.", "It is 1.9× faster.", "It is 2 × as fast.", "39 tokens/s", "a share of 84 %",
        "84%", "12µs", "1,024 MiB", "400 TFLOPS", "20 tokens a second",
    ],
)  # fmt: skip
def test_measurements_by_hand_are_found(line):
    assert [number for number, _ in bare_numbers.find(f"# Title\n\n{line}\n")] == [3]


@pytest.mark.parametrize(
    "line",
    [
        "4 pages of 16 tokens", "2 × 30 × 3 × 64 bytes", "`3 ms`", "$3\\,ms$", "They report 24 % ([paper](https://arxiv.org/abs/1)).",
        "Say a step takes 10 ms. <!-- given -->", "It is <!--n answers:seven d-->7<!--/n--> ms.", "float32", "ch04 task2", "step 3",
        "```\n3 ms\n```", "<!-- table ladder-cpu -->\n| 3 ms |\n<!-- end -->", "the 3 msgs", "v2.1 GB", "SmolLM2-135M",
    ],
)  # fmt: skip
def test_other_numbers_are_left_alone(line):
    assert list(bare_numbers.find(line)) == []
