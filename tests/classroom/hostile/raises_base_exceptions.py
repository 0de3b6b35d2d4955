"""Raises what `except Exception` does not catch."""


class Sly(BaseException):
    def __str__(self):
        raise KeyboardInterrupt


def silu_mul(gate_up):
    raise Sly
