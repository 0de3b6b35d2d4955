"""Parts by name: what fits its slot is found, in a module or in a reader's own file; what does not is refused in one line."""

import os
import shutil
import textwrap
from pathlib import Path

import pytest
from engine_fixtures import CPU, MIXES, checkpoint, greedy, ids_of, make_engine, oracle, run

import minfer
from minfer import LLM
from minfer.choice import best_stage
from minfer.errors import MinferError, PartError
from minfer.parts import SLOTS
from minfer.resolve import NEEDS, machine, missing, resolve, why_not
from minfer.stages import STAGES

HOME = Path(minfer.__file__).parent


def write(folder: Path, text: str, name: str = "mine.py") -> str:
    (folder / name).write_text(textwrap.dedent(text))
    return str(folder / name)


@pytest.mark.parametrize("stage", {**STAGES, **MIXES}.values(), ids=lambda stage: stage.name)
def test_every_part_that_runs_here_fits_its_slot(stage):
    """Of every stage and mix; a part that needs what this machine lacks says so, and its file is there all the same."""
    for slot, name in stage.parts().items():
        if missing(name):
            with pytest.raises(PartError, match=f"{slot}=.* needs "):
                resolve(slot, name)
        else:
            assert callable(resolve(slot, name))


BAD_NAMES = {
    "no colon": ("attention", "mine", "does not name a part; write module:Name"),
    "no attribute": ("attention", "mine.py:", "does not name a part"),
    "not a string": ("attention", len, "does not name a part"),
    "no slot": ("atention", "mine.py:f", "no slot is called 'atention'; the slots are executor, loop"),
    "no file": ("attention", "/nowhere/mine.py:attention", "there is no file /nowhere/mine.py"),
    "no module": ("attention", "minfer.nothing:attention", r"no module is called 'minfer.nothing'.*mine.py:attention"),
    "no package": ("attention", "no_such_package.mine:f", "no module is called"),
    "no such name": ("attention", "minfer.attention.torch:atention", r"has no 'atention'; it has attention, decode, prefill"),
    "built into Python": ("activation", "time:nothing", "time.* has no 'nothing'"),
}


@pytest.mark.parametrize("case", BAD_NAMES)
def test_names_of_nothing(case):
    """A name that leads nowhere says how far it led, and what is there instead."""
    slot, name, message = BAD_NAMES[case]
    refused(slot, name, message)


def refused(slot: str, name, message: str) -> None:
    with pytest.raises(PartError, match=message) as error:
        resolve(slot, name)
    assert "\n" not in str(error.value), "one line"


ATTENTION = r"must take \(q, kv, batch, scale, window\); it takes "
BAD_FILES = {
    "syntax error": ("attention", "x = 1\ndef f(:\n", "mine.py, line 2: invalid syntax"),
    "fails on import": ("attention", "x = 1 / 0", "it cannot be imported: ZeroDivisionError"),
    "imports nothing": ("attention", "import nothing_here", "it cannot be imported: ModuleNotFoundError"),
    "too few": ("attention", "def f(q, kv, batch, scale): pass", ATTENTION + r"\(q, kv, batch, scale\)"),
    "too many": ("attention", "def f(q, kv, batch, scale, window, more): pass", ATTENTION),
    "a keyword too many": ("attention", "def f(q, kv, batch, scale, window=1, *, more): pass", ATTENTION),
    "no arguments": ("norm", "def f(): pass", r"must take \(x, residual, weight, eps\)"),
    "a class": ("attention", "class f: pass", r"must be a function \(q, kv, batch, scale, window\)"),
    "a number": ("sample", "f = 3", "must be a function .*; it is a int"),
    "a function": ("blocks", "def f(num_blocks, block_size): pass", "must be a class with size_of_block, __init__, lookup"),
    "no method": ("preemption", "class f:\n def __init__(self, n): pass\n def evict(self, s, b): pass", r"lacks the method restore\("),
    "no constructor": ("preemption", "class f: pass", r"lacks the method __init__\(num_host_blocks\)"),
    "a method's arguments": (
        "preemption",
        "class f:\n def __init__(self, n): pass\n def evict(self, seq): pass\n def restore(self, s, b): pass\n def drop(self, s): pass",
        r"mine.py:f.evict must take \(seq, blocks\); it takes \(seq\)",
    ),
    "needs unknown": ("sample", 'needs = {"a unicorn"}\ndef f(logits, batch): pass', r"line 1: needs .* 'cuda'.*it is \{'a unicorn'\}"),
    "needs a sum": ("sample", 'needs = set("cuda".split())\ndef f(logits, batch): pass', "line 1: needs must be written out"),
    "needs a string": ("sample", 'needs = "cuda"\ndef f(logits, batch): pass', "line 1: needs must be written out, as a set"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_parts_that_do_not_fit(tmp_path, case):
    """A file that cannot be read, or whose part could not be called: one line that says what is wanted and what is there."""
    slot, text, message = BAD_FILES[case]
    refused(slot, write(tmp_path, text) + ":f", message)


def test_bytes_are_no_part(tmp_path):
    """A file that is no text."""
    (tmp_path / "mine.py").write_bytes(b"\xff\xfe\x00")
    refused("sample", f"{tmp_path}/mine.py:f", "is no Python file|line 1")


@pytest.mark.parametrize(
    "text",
    [
        "def f(q, kv, batch, scale, window): pass",
        "def f(a, b, c, d, e): pass",
        "def f(*everything): pass",
        "def f(q, kv, *others, **more): pass",
        "def f(q, kv, batch, scale, window=None, extra=3, *, more=4): pass",
        "import functools\ndef g(x, q, kv, batch, scale, window): pass\nf = functools.partial(g, 1)",
        "class A:\n def __call__(self, q, kv, batch, scale, window): pass\nf = A()",
    ],
)
def test_whatever_can_be_called_fits(tmp_path, text):
    """Arguments may have other names and defaults; callable objects are functions too."""
    assert callable(resolve("attention", write(tmp_path, text) + ":f"))


@pytest.mark.parametrize("line", ['needs = {"cuda"}', 'needs: set[str] = {"cuda"}', 'needs = ("cuda",)'])
def test_needs_are_read_without_importing(tmp_path, line):
    """A file that would fail on import is asked what it needs, and refused for that."""
    if "cuda" in machine():
        pytest.skip("this machine has a GPU")
    name = write(tmp_path, f"{line}\nraise RuntimeError('imported')\n") + ":attention"
    assert missing(name) == ["cuda"]
    refused("attention", name, r"attention=.*needs an NVIDIA GPU .*is_available\(\) is False")
    stage = CPU.with_parts("mine", attention=name)
    assert why_not(stage) == f"its attention ({name}) needs {NEEDS['cuda']}"
    with pytest.raises(MinferError, match=r"this machine cannot run the stage 'mine'.* NVIDIA GPU .*; use 'cpu"):
        LLM(str(checkpoint()), stage=stage)


def test_every_need_of_ours_is_known():
    """Each part's file in the package declares needs that the page lists, and names no others."""
    for slot in SLOTS:
        for file in (HOME / slot).glob("*.py"):
            if file.stem != "__init__":
                assert set(missing(f"minfer.{slot}.{file.stem}:x")) <= set(NEEDS)


def test_the_best_stage_is_one_that_runs():
    """Without a GPU the fastest mix on a CPU, and with a reason."""
    stage, why = best_stage("cpu")
    assert why_not(stage) is None
    assert (stage, bool(why)) == (CPU, True)


@pytest.mark.parametrize("slot", ["attention", "write_kv", "norm", "activation", "sample"])
def test_a_copy_in_another_folder_works(tmp_path, slot):
    """A reader copies a part's file, and the engine runs with it, under the file's own name; a change in it counts at once."""
    _, _, attribute = getattr(CPU, slot).partition(":")
    source = HOME / slot / "torch.py"
    shutil.copy(source, tmp_path / "mine.py")
    name = f"{tmp_path}/mine.py:{attribute}"
    engine = make_engine("cpu", swap={slot: name})
    assert getattr(engine.stage, slot) == name
    assert Path(resolve(slot, name).__code__.co_filename) == tmp_path / "mine.py"
    assert oracle().count_ties([5, 6, 7], ids_of(run(engine, [[5, 6, 7]], greedy(6)))[0]) == 0
    (tmp_path / "mine.py").write_text(source.read_text() + f"\n\ndef {attribute}(*everything):\n    raise ZeroDivisionError\n")
    with pytest.raises(ZeroDivisionError):
        run(make_engine("cpu", swap={slot: name}), [[5, 6, 7]], greedy(6))


def test_an_edit_within_the_same_second_counts(tmp_path):
    """Python's own cache of compiled files cannot tell two versions of equal length and age apart."""
    for answer in (1, 2, 3):
        name = write(tmp_path, f"def policy(seq, context): return ({answer},)")
        os.utime(tmp_path / "mine.py", (10**9, 10**9))
        assert resolve("policy", name + ":policy")(None, None) == (answer,)


def test_a_class_in_another_folder_works(tmp_path):
    """So does a scheduler that builds on ours, several parts at once, and a path from the home or the working folder."""
    write(
        tmp_path,
        """
        from minfer.scheduler.chunked import ChunkedScheduler

        class OneAtATime(ChunkedScheduler):
            def _admit(self, max_new):
                return None if self.running else super()._admit(max_new)

        def policy(seq, context):
            return (-seq.seq_id,)
        """,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        with LLM(
            str(checkpoint()), stage="chunked", num_kv_blocks=30, swap={"scheduler": "mine.py:OneAtATime", "policy": "mine.py:policy"}
        ) as llm:
            for name in "abc":
                llm.add_request(name, [5, 6, 7], greedy(3), stream=False)
            ended = []
            while llm.has_unfinished():
                ended += [output.request_id for output in llm.step()]
    assert ended == ["c", "b", "a"]
