"""Ends the process with success in the middle of a property."""

import os


def silu_mul(gate_up):
    os._exit(0)
