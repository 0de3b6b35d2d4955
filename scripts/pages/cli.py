"""The reference of the command line, made from the typer app itself: every command, argument and option."""

from __future__ import annotations

import re

from typer.main import get_command

from pages.page import Page, fence, table


def page() -> Page:
    from minfer.cli.app import EPILOG, app

    root = get_command(app)
    parts = ["# Command line", "Made from the commands themselves; `minfer COMMAND --help` says the same.", options(root), EPILOG]
    parts += commands(root, "minfer", 2)
    return Page("reference/cli.md", "docs/reference/cli.md", "\n\n".join(part for part in parts if part) + "\n")


def commands(group, name: str, level: int) -> list[str]:
    """A section for each command of a group."""
    parts = []
    for key, command in group.commands.items():
        title = f"{name} {key}"
        parts.append(f"{'#' * level} {title}")
        parts.append(prose(command.help or ""))
        if hasattr(command, "commands"):
            parts += commands(command, title, level + 1)
            continue
        usage = [f"[{each}]" if not param.required else each for param, each in arguments(command)]
        parts.append(fence(" ".join([title, *usage, "[OPTIONS]"]), "text"))
        parts.append(options(command))
    return parts


def arguments(command) -> list[tuple]:
    return [(param, param.metavar or param.name.upper()) for param in command.params if param.param_type_name == "argument"]


def options(command) -> str:
    """Arguments and options as one table."""
    rows = [[f"`{name}`", "", words(param)] for param, name in arguments(command)]
    for param in command.params:
        if param.param_type_name == "option" and not param.hidden and "--help" not in param.opts:
            names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
            rows.append([names, default(param), words(param)])
    return table(["argument or option", "default", "what it is"], rows) if rows else ""


def words(param) -> str:
    return prose(param.help or "").replace("\n", " ").replace("|", "\\|")


def prose(text: str) -> str:
    """Help texts are plain; what could be taken for HTML is kept as it is."""
    return re.sub(r"<", "&lt;", " ".join(text.split()) if "\n\n" not in text else text)


def default(param) -> str:
    value = param.default
    if value is None or callable(value) or value in ([], (), False) or param.required:
        return ""
    return f"`{value}`"
