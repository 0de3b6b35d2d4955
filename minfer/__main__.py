"""`minfer` and `python -m minfer`: the command line. Nothing but the options is imported before a command runs."""

import os

from minfer.cli.app import app

BUSY = 0.5  # other programs' load, in cores


def main() -> None:
    """Run the command line and exit with its code."""
    wait_politely()
    app(prog_name="minfer")


def wait_politely() -> None:
    """Where other programs keep a core busy, let PyTorch's threads sleep while they wait for each other.

    By default they spin: faster on an idle machine, but far slower where a thread that all others wait for gets no core. OpenMP reads
    the variable once, when PyTorch is loaded; a value that is set already stays.
    """
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > BUSY:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


if __name__ == "__main__":
    main()
