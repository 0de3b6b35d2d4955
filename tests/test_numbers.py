"""Numbers in pages: markers are filled from reports, again and again with the same result, and what cannot be filled is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import markers
import pytest
import reports
import tables
from hypothesis import given, settings
from hypothesis import strategies as st
from markers import MarkerError, fill, look_up

ROOT = Path(__file__).parent.parent
HEADER = {
    "hardware": {"cpu": "A CPU", "torch_threads": 2, "gpus": []},
    "versions": {"torch": "2.13", "transformers": "5.24"},
    "commit": "0123456789",
}


def stage(name: str, speed: float, **others) -> dict:
    known = {"ttft_ms": 10.4, "peak_kv_mib": 1.0, "kv_wasted_percent": 50.0, "tokens_equal_baseline": True, "dtype": "float32"}
    return {"name": name, "tokens_per_s": speed, **known, "decode": [], **others}


LADDER = {
    "kind": "ladder", "model": "m", **HEADER, "stages": [stage("hf", 10.0), stage("decoder", 8.0), stage("paged", 20.0)],
}  # fmt: skip
WASTE = {"columns": {"length": "tokens", "wasted": "wasted"}, "formats": {"wasted": ".0%"}, "rows": [{"length": 50, "wasted": 0.25}]}
ANSWERS = "def seven():\n    return 7\n\n\ndef broken():\n    return 1 / 0\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A checkout with one report, and one chapter with a report and answers of its own."""
    root = tmp_path_factory.mktemp("checkout")
    (root / "benchmarks" / "results").mkdir(parents=True)
    (root / "benchmarks" / "results" / "ladder-cpu.json").write_text(json.dumps(LADDER))
    (root / "benchmarks" / "results" / "odd.json").write_text('{"kind": "odd", "a": null, "text": "word", "many": [1, 2]}')
    chapter = root / "chapters" / "03_paged"
    chapter.mkdir(parents=True)
    (chapter / "measured.json").write_text(json.dumps({**HEADER, "waste": WASTE}))
    (chapter / "answers.py").write_text(ANSWERS)
    return root


def filled(text: str, root: Path) -> str:
    return fill(text, root / "chapters" / "03_paged" / "README.md", root)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("ladder-cpu:stages[name=paged].tokens_per_s .1f", "20.0"),
        ("ladder-cpu:stages.[name=decoder].tokens_per_s .1f", "8.0"),
        ("ladder-cpu:stages[-1].name s", "paged"),
        ("ladder-cpu:stages[name=paged].tokens_per_s / ladder-cpu:stages[name=hf].tokens_per_s .2f", "2.00"),
        ("ladder-cpu:stages[0].ttft_ms / 1000 .4f", "0.0104"),
        ("./measured:waste.rows[length=50].wasted .0%", "25%"),
        ("./measured:waste.rows[0].length d", "50"),
        ("answers:seven ,.1f", "7.0"),
    ],
)
def test_a_number_comes_from_its_place(root, spec, expected):
    assert filled(f"It is <!--n {spec}-->9<!--/n--> here.", root) == f"It is <!--n {spec}-->{expected}<!--/n--> here."


def test_a_table_has_the_rows_and_columns_that_were_asked_for(root):
    """And the ratio to the stage before is that of the ladder, not of the row above."""
    text = filled("<!-- table ladder-cpu stages=paged,hf columns=stage,speed,before -->\nold\n<!-- end -->\n", root)
    assert text.splitlines()[1:-2] == [
        "| stage | tokens/s | × before |",
        "|---|--:|--:|",
        "| `paged` | 20 | 2.50 |",
        "| `hf` | 10 |  |",
        "",
    ]
    assert text.splitlines()[-2] == "m, float32; A CPU, 2 threads; torch 2.13, transformers 5.24; commit 01234567."


def test_kernels_of_some_slots(root):
    """All cases of a slot stay together, and what was not measured is left out."""
    contenders = [{"name": "minfer", "median_us": 2.0, "gb_per_s": 40.0, "share_of_copy": 0.5}]
    eager = {"name": "PyTorch eager", "median_us": 6.0, "times_as_long_as_minfer": 3.0}
    cases = [("norm", "a", []), ("attention, decode", "b", [eager]), ("norm", "c", [eager]), ("attention, prefill", "d", [])]
    results = [{"slot": slot, "shape": shape, "contenders": contenders + others} for slot, shape, others in cases]
    table = reports.kernels({**HEADER, "copy_gb_per_s": 80.0, "results": results})
    assert [row["shape"] for row in table.rows] == ["a", "b", "c", "d"]
    lines = table.pick(["slot", "shape", "share", "times"], slots=["attention", "norm"]).markdown().splitlines()[2:6]
    assert lines == [
        "| `attention` decode | b | 50% | 3.0 |",
        "| `attention` prefill | d | 50% |  |",
        "| `norm` | a | 50% |  |",
        "| `norm` | c | 50% | 3.0 |",
    ]


def test_a_chapter_makes_tables_of_what_it_measured(root):
    text = filled("<!-- table ./measured:waste -->\n<!-- end -->", root)
    assert text.splitlines()[1:4] == ["| tokens | wasted |", "|--:|--:|", "| 50 | 25% |"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<!--n no-such:a .1f-->1<!--/n-->", "there is no report benchmarks/results/no-such.json"),
        ("<!--n ./no-such:a .1f-->1<!--/n-->", "there is no report chapters/03_paged/no-such.json"),
        ("<!--n ladder-cpu:stages[name=paqed].tokens_per_s .1f-->1<!--/n-->", "no item with name=paqed; there are hf, decoder, paged"),
        ("<!--n ladder-cpu:stages[7].name s-->1<!--/n-->", "has 3 items"),
        ("<!--n ladder-cpu:model[0] s-->1<!--/n-->", "'model' is no list"),
        ("<!--n ladder-cpu:models s-->1<!--/n-->", "no key 'models'; its keys are kind, model"),
        ("<!--n ladder-cpu:stages[ s-->1<!--/n-->", "cannot be read from '[' on"),
        ("<!--n ladder-cpu:stages .1f-->1<!--/n-->", "not a single value"),
        ("<!--n odd:a .1f-->1<!--/n-->", "is nothing"),
        ("<!--n odd:text .1f-->1<!--/n-->", "the format '.1f' does not fit"),
        ("<!--n odd:many[0] s-->1<!--/n-->", "the format 's' does not fit"),
        ("<!--n odd:many[0] / odd:many[0] / 2 d-->1<!--/n-->", "divides more than once"),
        ("<!--n odd:many[0] / 0 .1f-->1<!--/n-->", "division by zero"),
        ("<!--n ladder-cpu:model-->1<!--/n-->", "must be a value and a format"),
        ("<!--n ladder-cpu:model .1q-->1<!--/n-->", "must be a value and a format"),
        ("<!--n ladder .1f-->1<!--/n-->", "neither NAME:path nor a number"),
        ("<!--n answers:eight .1f-->1<!--/n-->", "answers.py has no function 'eight'"),
        ("<!--n answers:broken .1f-->1<!--/n-->", "raised ZeroDivisionError"),
        ("<!-- table ladder-cpu columns=stage,sped -->\n<!-- end -->", "no column is called 'sped'; there are stage, speed"),
        ("<!-- table ladder-cpu stages=paqed -->\n<!-- end -->", "no stage is called 'paqed'; there are hf, decoder, paged"),
        ("<!-- table ladder-cpu rows=1 -->\n<!-- end -->", "'rows=1' is not an option of a table"),
        ("<!-- table odd -->\n<!-- end -->", "kind 'odd', for which there is no table"),
        ("<!-- table ./measured:hardware -->\n<!-- end -->", "is no table"),
        ("<!-- table ladder-cpu -->\n", "has no partner"),
        ("<!-- end -->", "has no partner"),
        ("<!--n answers:seven d-->7", "has no partner"),
        ("7<!--/n-->", "has no partner"),
        ("<!-- n answers:seven d -->7<!--/n-->", "has no partner"),
        ("<!--n answers:seven d-->\n7<!--/n-->", "has no partner"),
    ],
)
def test_what_cannot_be_filled_is_named_with_its_line(root, text, says):
    with pytest.raises(MarkerError) as error:
        filled(f"one\n```\n<!-- end -->\n```\ntwo\n{text}\n", root)
    assert str(error.value).startswith("chapters/03_paged/README.md:6: ")
    assert says in str(error.value)


def test_a_page_without_answers_beside_it_cannot_ask_for_one(root):
    with pytest.raises(MarkerError, match=r"README.md:1: there is no answers.py beside the page"):
        fill("<!--n answers:seven d-->7<!--/n-->", root / "README.md", root)


WORDS = st.text(st.characters(blacklist_characters="<>`~", blacklist_categories=["Cs", "Cc"]), max_size=12)
FILLED = {
    "<!--n ladder-cpu:stages[0].tokens_per_s .1f-->": ("10.0", "<!--/n-->"),
    "<!--n answers:seven d-->": ("7", "<!--/n-->"),
    "```\n<!-- table no-such -->\n": ("x\n", "```\n"),
    "<!-- table ./measured:waste columns=length -->\n": (
        "| tokens |\n|--:|\n| 50 |\n\nA CPU, 2 threads; torch 2.13, transformers 5.24; commit 01234567.\n", "<!-- end -->",
    ),
}  # fmt: skip


@given(pieces=st.lists(st.tuples(WORDS, st.sampled_from(sorted(FILLED)), WORDS), max_size=5))
@settings(max_examples=60, deadline=None)
def test_pages_go_round(root, pieces):
    """Whatever stood in the markers, the right thing stands there after; nothing else has changed; a second time changes nothing."""
    before, after = "", ""
    for words, marker, old in pieces:
        right, end = FILLED[marker]
        fenced = marker.startswith("```")
        inside = right if fenced else f"{old}\n" if marker.startswith("<!-- table") else old
        before += f"{words}\n{marker}{inside}{end}"
        after += f"{words}\n{marker}{right}{end}"
    assert filled(before, root) == after
    assert filled(after, root) == after


JSON = st.recursive(
    st.integers(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.from_regex(r"\A[a-z_-]{1,5}\Z"), inner, max_size=3)
)


@given(content=JSON, data=st.data())
@settings(max_examples=60, deadline=None)
def test_every_place_has_a_path(content, data):
    here, path = content, ""
    while isinstance(here, list | dict) and here:
        key = data.draw(st.sampled_from(sorted(here)) if isinstance(here, dict) else st.integers(0, len(here) - 1))
        path += f".{key}" if isinstance(here, dict) else f"[{key}]"
        here = here[key]
    assert look_up(content, path.removeprefix(".")) == here


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "benchmarks" / "results").glob("*.json")))
def test_every_report_that_has_a_table_fills_it(name):
    """All rows are as long as the heads, for each report that is committed."""
    report = markers.load(name, ROOT / "README.md", ROOT)
    if report.get("kind") in reports.WRITERS:
        lines = reports.WRITERS[report["kind"]](report).markdown().splitlines()
        assert len({line.count("|") for line in lines[:-2]}) == 1


PAGES = sorted(page for pattern in tables.PAGES for page in ROOT.glob(pattern))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_pages_numbers_are_those_of_the_reports(page):
    """`make tables` was run after the last measurement."""
    text = page.read_text(encoding="utf-8")
    assert fill(text, page, ROOT) == text


def test_the_command_says_what_is_wrong_and_mends_it(tmp_path):
    """--check fails with all that is wrong; without it the pages are written, and --check is content."""
    for folder in ("scripts", "benchmarks/results", "chapters/03_paged", "docs"):
        (tmp_path / folder).mkdir(parents=True)
    for script in ("tables.py", "markers.py", "reports.py", "bare_numbers.py"):
        (tmp_path / "scripts" / script).write_text((ROOT / "scripts" / script).read_text())
    (tmp_path / "chapters/03_paged/answers.py").write_text(ANSWERS)
    page = tmp_path / "chapters/03_paged/README.md"
    page.write_text("It is <!--n answers:seven d-->8<!--/n--> bytes.\n\nIt takes 4 ms.\n")

    def run(*options: str) -> subprocess.CompletedProcess:
        command = [sys.executable, str(tmp_path / "scripts/tables.py"), *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    said = run("--check")
    assert said.returncode == 1
    assert "chapters/03_paged/README.md: its numbers are not what the reports say" in said.stderr
    assert "chapters/03_paged/README.md:3: '4 ms' is stated by hand" in said.stderr
    assert run().returncode == 0
    assert page.read_text().startswith("It is <!--n answers:seven d-->7<!--/n--> bytes.")
    page.write_text(page.read_text().replace("4 ms", "a moment"))
    assert run("--check").returncode == 0
    page.write_text("<!--n answers:eight d-->8<!--/n-->")
    assert run("--check").stderr.startswith("chapters/03_paged/README.md:1: ")
