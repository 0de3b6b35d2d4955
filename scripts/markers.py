"""Numbers in pages: found by their markers, read from reports or computed, and written in their places.

    <!-- table ladder-cpu stages=paged,chunked columns=stage,speed -->   ...table...   <!-- end -->
    <!-- table ./measured:waste -->   ...table...   <!-- end -->
    <!--n ladder-cpu:stages[name=paged].tokens_per_s .0f-->39<!--/n-->
    <!--n ladder-cpu:stages[1].ttft_ms / ladder-cpu:stages[0].ttft_ms .2f-->1.07<!--/n-->
    <!--n answers:bytes_per_token ,.0f-->46,080<!--/n-->

A name is a report under benchmarks/results without its ending, or `./NAME`, a JSON beside the page; `answers:NAME` calls that function
of the answers.py beside the page. A path goes by keys, [index] and [key=value], the first item of a list where that holds. A value
may be divided by a second one, or by a number. Formats are Python's. What stands in fenced code is left alone.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import reports

TABLE = re.compile(r"<!-- table (?P<spec>[^>\n]+?) -->\n(?P<old>(?:(?!<!-- table ).)*?)<!-- end -->", re.DOTALL)
NUMBER = re.compile(r"<!--n (?P<spec>[^>\n]+?)-->(?P<old>[^<\n]*)<!--/n-->")
LEFT_OVER = re.compile(r"<!--\s*/?n\b[^\n]*?-->|<!--\s*table\b[^\n]*?-->|<!--\s*end\s*-->")
FENCE = re.compile(r"^(```|~~~).*?^\1[^\S\n]*$", re.DOTALL | re.MULTILINE)
FORMAT = re.compile(r"[+]?,?(\.\d+)?[dfegs%]")
STEP = re.compile(r"\.?(?:\[(?P<index>-?\d+)\]|\[(?P<key>[^=\]]+)=(?P<value>[^\]]*)\]|(?P<name>[^.\[\]]+))")


class MarkerError(Exception):
    """A marker that cannot be filled; says where and why."""


def fill(text: str, page: Path, root: Path) -> str:
    """The page's text with what its markers stand for.

    Raises:
        MarkerError: an unknown name, path, format, function or option, or a marker that is not closed.
    """
    parts, at = [], 0
    for fence in [*FENCE.finditer(text), None]:
        end = fence.start() if fence else len(text)
        parts.append(_fill(text[at:end], page, root, 1 + text.count("\n", 0, at)))
        parts.append(fence[0] if fence else "")
        at = fence.end() if fence else end
    return "".join(parts)


def _fill(text: str, page: Path, root: Path, line: int) -> str:
    def write(write_one: Callable[[str, Path, Path], str], before: str, match: re.Match) -> str:
        try:
            return f"{before.format(match['spec'])}{write_one(match['spec'], page, root)}"
        except (ValueError, OSError, ArithmeticError) as error:
            raise MarkerError(f"{_where(page, root)}:{line + text.count(chr(10), 0, match.start())}: {error}") from error

    left_over = LEFT_OVER.search(_blank(NUMBER, _blank(TABLE, text)))
    if left_over:
        at = line + text.count("\n", 0, left_over.start())
        raise MarkerError(f"{_where(page, root)}:{at}: {left_over[0]} has no partner, or is not written as scripts/markers.py says")
    numbers = NUMBER.sub(lambda match: write(_number, "<!--n {}-->", match) + "<!--/n-->", text)
    return TABLE.sub(lambda match: write(_table, "<!-- table {} -->\n", match) + "\n<!-- end -->", numbers)


def _blank(pattern: re.Pattern, text: str) -> str:
    """Everything that matches, blanked out; lines stay where they are."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def _table(spec: str, page: Path, root: Path) -> str:
    name, *options = spec.split()
    chosen = {}
    for option in options:
        key, equals, value = option.partition("=")
        if key not in ("columns", "stages", "slots") or not equals:
            raise ValueError(f"{option!r} is not an option of a table; use columns=a,b or stages=a,b or slots=a,b")
        chosen[key] = value.split(",")
    name, colon, path = name.partition(":")
    report = load(name, page, root)
    if colon:
        content = look_up(report, path)
        if not isinstance(content, dict) or not {"columns", "rows"} <= content.keys():
            raise ValueError(f"{name}:{path} is no table: it needs the keys columns and rows")
        return reports.plain(content, report).pick(**chosen).markdown()
    kind = report.get("kind")
    if kind not in reports.WRITERS:
        known = ", ".join(reports.WRITERS)
        raise ValueError(f"{name} is a report of the kind {kind!r}, for which there is no table; there is one for {known}")
    return reports.WRITERS[kind](report).pick(**chosen).markdown()


def _number(spec: str, page: Path, root: Path) -> str:
    expression, space, form = spec.strip().rpartition(" ")
    if not space or not FORMAT.fullmatch(form):
        raise ValueError(f"{spec!r} must be a value and a format such as .1f, ,.0f, d, .0% or s")
    values = [_value(each.strip(), page, root) for each in expression.split(" / ")]
    if len(values) > 2:
        raise ValueError(f"{expression!r} divides more than once; use a function of answers.py")
    value = values[0] if len(values) == 1 else values[0] / values[1]
    if isinstance(value, bool) or not isinstance(value, str if form == "s" else int | float):
        raise ValueError(f"{expression!r} is {value!r}, which the format {form!r} does not fit")
    return format(int(value) if form.endswith("d") and value == int(value) else value, form)


def _value(text: str, page: Path, root: Path) -> Any:
    name, colon, path = text.partition(":")
    if not colon:
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"{text!r} is neither NAME:path nor a number") from None
    if name == "answers":
        return answers(page.parent / "answers.py", path)
    value = look_up(load(name, page, root), path)
    if isinstance(value, dict | list) or value is None:
        raise ValueError(f"{text} is {'nothing' if value is None else 'not a single value'}")
    return value


def load(name: str, page: Path, root: Path) -> dict:
    """A report by its name; `./NAME` lies beside the page."""
    path = page.parent / f"{name[2:]}.json" if name.startswith("./") else root / "benchmarks" / "results" / f"{name}.json"
    if not path.exists():
        raise ValueError(f"there is no report {_where(path, root)}")
    return json.loads(path.read_text(encoding="utf-8"))


def look_up(content: Any, path: str) -> Any:
    """What lies at a path such as stages[name=paged].decode[0].ms_per_step.

    Raises:
        ValueError: it leads nowhere; the message says from where on, and what there is.
    """
    at = 0
    while at < len(path):
        step = STEP.match(path, at)
        if step is None:
            raise ValueError(f"the path {path!r} cannot be read from {path[at:]!r} on")
        content = _step(content, step, path)
        at = step.end()
    return content


def _step(content: Any, step: re.Match, path: str) -> Any:
    here = f"{path[: step.start()] or 'the report'!r}"
    if step["name"] is not None:
        if not isinstance(content, dict) or step["name"] not in content:
            has = f"its keys are {', '.join(content)}" if isinstance(content, dict) else f"it is a {type(content).__name__}"
            raise ValueError(f"{here} has no key {step['name']!r}; {has}")
        return content[step["name"]]
    if not isinstance(content, list):
        raise ValueError(f"{here} is no list, so {step[0]!r} leads nowhere")
    if step["index"] is not None:
        index = int(step["index"])
        if not -len(content) <= index < len(content):
            raise ValueError(f"{here} has {len(content)} items, and no {step[0]}")
        return content[index]
    for item in content:
        if isinstance(item, dict) and str(item.get(step["key"])) == step["value"]:
            return item
    there = ", ".join(str(item.get(step["key"])) for item in content if isinstance(item, dict))
    raise ValueError(f"{here} has no item with {step['key']}={step['value']}; there are {there}")


def answers(path: Path, name: str) -> float:
    """What a function of a chapter's answers.py returns."""
    if not path.exists():
        raise ValueError(f"there is no {path.name} beside the page")
    function = getattr(_module(path), name, None)
    if not callable(function):
        raise ValueError(f"{path.parent.name}/{path.name} has no function {name!r}")
    try:
        return function()
    except Exception as error:
        raise ValueError(f"{name}() in {path.parent.name}/{path.name} raised {type(error).__name__}: {error}") from error


@functools.cache
def _module(path: Path):
    spec = importlib.util.spec_from_file_location(f"answers_of_{path.parent.name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _where(path: Path, root: Path) -> str:
    return str(path.relative_to(root) if path.is_relative_to(root) else path)
