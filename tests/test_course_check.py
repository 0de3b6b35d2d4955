"""`minfer check ch04`: what it says of solutions that are right, unfinished, wrong, borrowed, that hang or crash."""

from __future__ import annotations

import json
import shlex
import textwrap
from pathlib import Path

import pytest
from cli_runner import run, words
from course_fixtures import NORM, write_chapter
from typer.testing import CliRunner

from minfer.cli.app import app
from minfer.course import library
from minfer.course.jobs import FAILED, all_jobs
from minfer.course.supervise import Request, events

pytestmark = pytest.mark.slow  # each check is a process of its own
SMALL = ["--examples", "5"]
FAULT = "row 0 has 1 blocks of 1, too few for 2 tokens"  # of a scheduler that makes no room
RIGHT = """
import math
from minfer.scheduler.base import BaseScheduler

class ContinuousScheduler(BaseScheduler):
    def schedule(self):
        preemptions, work = self.num_preemptions, []
        for seq in self.running[:]:
            if self._ready(seq) and self._make_room(seq, seq.num_new):
                work.append(self._work(seq, seq.num_new))
        LATER
        budget = self.config.max_num_batched_tokens - len(work)
        max_new = math.inf
        while self.num_preemptions == preemptions and (seq := self._admit(max_new)) is not None:
            max_new = budget = budget - seq.num_new
            work.append(self._work(seq, seq.num_new))
        return self._plan(work)
"""


@pytest.fixture
def chapter(tmp_path, monkeypatch):
    """Chapter 4; the student works in an empty folder."""
    place = tmp_path / "chapters"
    chapter = write_chapter(place)
    chapter.starter.write_text("# nothing\n")
    monkeypatch.setattr(library, "root", lambda: place)
    (tmp_path / "home" / "04_continuous").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "home")
    return chapter


def write(text: str, later: str = "pass", top: str = "") -> Path:
    """The student's part.py, with a line in the middle of schedule() and one at the top."""
    path = Path("04_continuous/part.py")
    path.write_text(top + textwrap.dedent(text).replace("LATER", later))
    return path


def lines(result) -> list[str]:
    return [line.strip() for line in result.stdout.splitlines() if line.strip()]


def test_all_is_right(chapter, tmp_path):
    """Which file fills which slot, each property, the engine, the speed, all points; kept for `minfer status`; exit code 0."""
    write(RIGHT, 'print("a trace of mine")')
    result = run("check", "ch04", *SMALL, "--json", "report.json")
    said = lines(result)
    assert said[:2] == [
        "Chapter 4, Continuous batching: stage continuous",
        "scheduler is filled by ContinuousScheduler of 04_continuous/part.py",
    ]
    assert [line for line in said if line.startswith("passed")] == [
        *(f"passed       scheduler.{name:10} 5 examples" for name in ("tokens", "ahead", "budget", "oldest", "work")),
        next(line for line in said if "engine" in line),
    ]
    assert "8 requests, 68 tokens, the same as with minfer's own; on a CPU" in result.stdout
    assert any(line.startswith("speed ") and "tokens/s with yours" in line for line in said)
    assert said[-1] == "10 of 10 points and 2 of a bonus"
    assert "your file printed " in result.stderr
    assert "    a trace of mine\n" in result.stderr
    report = json.loads(Path("report.json").read_text())
    assert (report["passed"], report["points"], report["tasks"]) == (True, 10, {"task1": 6, "task2": 4, "task3": 2})
    assert "10 of 10 points" in run("status").stdout
    assert not Path(".hypothesis").exists()


def test_one_task(chapter):
    """Its properties only; the points of the others stay as they were."""
    write(RIGHT, "raise NotImplementedError('ch04 task2: newcomers')")
    said = lines(run("check", "ch04", "-k", "task2", *SMALL, code=1))
    assert not any("tokens" in line or "engine" in line for line in said[2:])
    assert said[-1].startswith("0 of 4 points; next: task2, Newcomers. A hint: minfer hint ch04 task2")
    assert "task1 0/6, task2 0/4" in run("status").stdout
    assert "ch04 has no task 'task7'" in run("check", "ch04", "-k", "task7", code=1).stderr


def test_a_stub_is_not_written_yet(chapter):
    """How far it got and what is next, without a stack; where another task's properties pass, it has its points."""
    write(RIGHT, "raise NotImplementedError('ch04 task1: let the running go on')")
    result = run("check", "ch04", *SMALL, code=1)
    assert lines(result).count("not written  scheduler.tokens     0 examples passed before: ch04 task1: let the running go on") == 1
    assert "not written  engine               ch04 task1: let the running go on" in lines(result)
    assert "FAILED" not in result.stdout
    assert "File " not in result.output
    assert lines(result)[-1] == "0 of 10 points; next: task1, Decodes first. A hint: minfer hint ch04 task1"


def test_a_wrong_part_is_told_once_in_full(chapter):
    """What must hold, what came, the case, the replay; the same fault in later properties is not repeated; the replay fails too."""
    write(RIGHT.replace("self._make_room(seq, seq.num_new)", "True"))
    result = run("check", "ch04", "--examples", "40", code=1)
    said = lines(result)
    assert sum(FAULT in line for line in said) == 1
    assert "as above" in said
    assert sum(line.startswith("must hold:") for line in said) == 1
    assert "FAILED       engine               stage continuous with your part in it" in said
    replay = next(line for line in said if line.startswith("replay:"))
    again = run(*shlex.split(replay.removeprefix("replay:"))[1:], code=1)
    assert FAULT in again.stdout


def test_an_endless_loop_is_told_with_its_line(chapter, monkeypatch):
    """Each property has its time, less once one has run out; the engine is not tried then."""
    write(RIGHT, "while True: pass")
    result = run("check", "ch04", "-k", "task1", *SMALL, code=1)
    assert "expected:  an end within 5 s" in lines(result)
    assert "came:      none: it was still at part.py, line 11: while True: pass" in lines(result)
    assert "expected:  an end within 2 s" in lines(result)
    assert "0 of 6 points" in lines(result)


@pytest.mark.parametrize(
    ("later", "message"),
    [
        ("import os; os._exit(0)", "the process ended by itself (os._exit?) in the middle of it"),
        ("raise SystemExit(0)", "raised:    SystemExit: 0 (part.py, line 11: raise SystemExit(0))"),
    ],
)
def test_a_process_that_ends_is_one_property(chapter, later, message):
    """The next process goes on with the rest."""
    write(RIGHT, later)
    said = lines(run("check", "ch04", "-k", "task1", *SMALL, code=1))
    assert message in said
    assert sum(line.startswith("FAILED") for line in said) == 2


def test_a_part_that_hangs_for_good_is_ended(chapter):
    """Even one that lets no exception through, with all processes that it has started."""
    body = "import subprocess, time; child = subprocess.Popen(['sleep', '300'])\n"
    hang = "\n        while True:\n            try:\n                time.sleep(1)\n            except BaseException: pass"
    path = write(RIGHT, f"print(child.pid, flush=True){hang}", body)
    jobs = all_jobs(chapter.tasks)[:1]
    request = Request(chapter, {"scheduler": f"{path}:ContinuousScheduler"}, jobs, False, False, silence=15.0)
    outcomes = [event["outcome"] for event in events(request) if event["event"] == "outcome"]
    assert [(each.job, each.status) for each in outcomes] == [("scheduler.tokens", FAILED)]
    assert outcomes[0].message == "the process did not answer any more in the middle of it"
    child = Path(f"/proc/{request.printed[0]}/stat")
    assert not child.exists() or child.read_text().split()[2] == "Z"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = (\n", "part.py, line 1: '(' was never closed: x = ("),
        ("class Scheduler: pass\n", "defines no ContinuousScheduler (for the slot scheduler); it defines Scheduler"),
        ("from minfer.scheduler.continuous import ContinuousScheduler\n", "line 1, imports ContinuousScheduler from minfer's own"),
        ("from minfer.scheduler.continuous import *\n", "line 1, imports * from minfer's own"),
        ("from minfer.scheduler import continuous\n", "line 1, imports minfer.scheduler.continuous from minfer's own"),
        ("def f():\n    import minfer.scheduler.continuous as c\n", "line 2, imports minfer.scheduler.continuous from minfer's own"),
        ("x = '\ud800'\n", "is no text in UTF-8"),
    ],
)
def test_what_is_refused_unseen(chapter, text, message):
    """Mistakes are told with their line before anything runs; the reference is what is to be written."""
    Path("04_continuous/part.py").write_bytes(text.encode(errors="surrogatepass"))
    assert message in run("check", "ch04", code=1).stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import importlib\nContinuousScheduler = importlib.import_module('minfer.scheduler.continuous').ContinuousScheduler\n",
         "is minfer's own part, from "),
        ("import nothing_like_it\n" + RIGHT, "cannot be imported: ModuleNotFoundError: No module named 'nothing_like_it'"),
        (RIGHT.replace("schedule(self)", "schedule(self, now)"), "must take (); it takes (now)"),
        ("import os; os._exit(3)\n" + RIGHT, "the process ended with exit code 3 () while it was loaded"),
        ("raise SystemExit('no')\n" + RIGHT, "cannot be imported: SystemExit: no"),
    ],
)  # fmt: skip
def test_what_cannot_be_loaded(chapter, text, message):
    """One line, no points, and what to do next."""
    write(text)
    result = run("check", "ch04", code=1)
    assert message in result.stdout
    assert lines(result)[-1] == "0 of 10 points; first mend what is told above"
    assert "task1" not in result.stdout


def test_where_the_file_is_looked_for(chapter, monkeypatch):
    """In the chapter's folder, from above it and from inside; anywhere, if it is named."""
    assert "`minfer start ch04` makes it" in run("check", "ch04", code=1).stderr
    assert "none.py cannot be read: No such file" in run("check", "ch04", "none.py", code=1).stderr
    write("x = (")
    assert "04_continuous/part.py, line 1" in run("check", "4", code=1).stderr
    monkeypatch.chdir("04_continuous")
    assert "part.py, line 1" in run("check", "continuous", code=1).stderr


def test_slots_and_chapters_do_not_mix(chapter):
    """Options of the one are refused for the other."""
    for arguments, message in (
        (["ch04", "--part", "a.py:b"], "--part and --replay go with a slot"),
        (["norm", "a.py"], "FILE and -k go with a chapter"),
        (["norm", "-k", "task1"], "FILE and -k go with a chapter"),
        (["nrm"], "no slot is called 'nrm'"),
    ):
        assert message in words(CliRunner().invoke(app, ["check", *arguments]).output)
        run("check", *arguments, code=2)
    assert "no chapter is called 'ch05'" in run("check", "ch05", code=1).stderr


def test_a_file_for_several_slots_may_lack_one(tmp_path, chapter, monkeypatch):
    """What is missing earns nothing; the rest is checked."""
    text = NORM.replace('norm = "add_rms_norm"', 'norm = "add_rms_norm"\nscheduler = "ChunkedScheduler"', 1)
    text = text.replace('"norm.sum"', '"scheduler.work"').replace('needs = ["triton"]', "needs = []")
    other = write_chapter(library.root(), text, "07_fused_norm")
    other.starter.write_text("")
    Path("mine.py").write_text("from minfer.norm.torch import rms_norm\ndef add_rms_norm(x, residual, weight, eps):\n"
                               "    s = x if residual is None else x + residual\n    return rms_norm(s, weight, eps), s\n")  # fmt: skip
    said = lines(run("check", "ch07", "mine.py", *SMALL, code=1))
    assert "scheduler: mine.py has no ChunkedScheduler; its tasks earn nothing, and minfer's own part stands in for it" in said
    assert "not checked  scheduler.work" in said
    assert "5 of 10 points" in said
