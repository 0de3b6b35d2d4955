"""`minfer` and `python -m minfer`: the command line. Nothing but the options is imported before a command runs."""

from minfer.cli.app import app


def main() -> None:
    """Run the command line and exit with its code."""
    app(prog_name="minfer")


if __name__ == "__main__":
    main()
