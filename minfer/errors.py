"""The errors that minfer raises on purpose. Each message gives the value, the limit, the likely cause and what to do."""


class MinferError(ValueError):
    """Something asked for cannot be done. It is a ValueError, so that callers need no import of ours to catch it."""


class PartError(MinferError):
    """A part cannot be found, does not fit its slot, or needs what this machine lacks."""


class ModelError(MinferError):
    """A checkpoint cannot be found, read or understood."""
