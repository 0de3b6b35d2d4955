"""Sleeps in every call."""

import time


def silu_mul(gate_up):
    while True:
        try:
            time.sleep(1000)
        except BaseException:
            continue
