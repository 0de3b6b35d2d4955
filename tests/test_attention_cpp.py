"""Slot `attention`, C++: equals the float64 reference on mixed batches, alone and shared among threads, and says what is wrong when it
cannot be built."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from kernel_cases import Draw, attention_case, check_attention

from minfer.errors import MinferError, PartError
from minfer.resolve import resolve
from minfer.testing.batches import LAYOUTS

if not any(shutil.which(name) for name in ("c++", "g++", "clang++")):
    pytest.skip("needs a C++ compiler", allow_module_level=True)

from minfer.attention import cpp

HEADS = [(1, 1), (2, 2), (4, 2), (9, 3), (4, 1), (7, 1), (8, 1), (13, 1), (50, 1)]


PAGES = [1, 5, 16, 256]


@settings(max_examples=80, phases=[Phase.generate])  # a seed has nothing to shrink
@given(st.integers(0, 2**32 - 1))
def test_cpp_equals_the_reference(seed):
    """Any mix of decodes, chunks and padding; groups, head and page sizes, windows, layouts, dtypes; contexts split among threads."""
    draw = Draw(seed, (*PAGES, 64, 128, 512), 300)
    choose = draw.random.choice
    works = draw.works(3, choose([0, 1]))
    heads, D = choose(HEADS), choose([4, 8, 24, 64, 80, 96, 100, 128])
    dtype = choose([torch.float32, torch.bfloat16, torch.float16])
    case = attention_case(works, heads, D, choose(PAGES), dtype, choose(LAYOUTS), seed % 100)
    try:
        torch.set_num_threads(choose([1, 2, 8]))
        check_attention(cpp.attention, case, draw.window(works))
    finally:
        torch.set_num_threads(1)


def test_large_scores_do_not_overflow():
    """The online softmax subtracts the largest score before it exponentiates."""
    q, kv, batch = attention_case([(1, 150), (70, 90)], (4, 2), 16, 4, torch.float32)
    check_attention(cpp.attention, (q * 300, kv, batch), slack=300)


def test_many_chunks_and_decodes():
    """More tasks than threads, of very different lengths."""
    works = [(1, 1 + 53 * i % 400) for i in range(20)] + [(5 + 9 * i, 40 + 9 * i) for i in range(4)]
    torch.set_num_threads(3)
    check_attention(cpp.attention, attention_case(works, (6, 2), 32, 16, torch.float32))
    torch.set_num_threads(1)


def test_other_dtypes_and_layouts_are_refused():
    """The message says what is computed, and what the caches must be like."""
    q, (k, v), batch = attention_case([(1, 5)], (2, 2), 8, 4, torch.float64)
    with pytest.raises(RuntimeError, match="float32, float16 and bfloat16"):
        cpp.attention(q, (k, v), batch, 1.0, None)
    with pytest.raises(MinferError, match="the same for both"):
        cpp.attention(q, (k, v.transpose(1, 2).contiguous().transpose(1, 2)), batch, 1.0, None)


def test_every_instruction_set_compiles(tmp_path, monkeypatch):
    """What other processors would build compiles here as well; it is only looked through, since the machine code may not run."""
    for capability in ("AVX2", "DEFAULT"):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda capability=capability: capability)
        words = cpp.command(shutil.which("c++"), tmp_path / "x.so")
        done = subprocess.run([*words, "-fsyntax-only"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]


def test_it_is_built_once_and_kept(tmp_path, monkeypatch):
    """A second process finds the library; an edited source or another PyTorch asks for another one; half-built ones are never seen."""
    calls = []

    def build(command: list[str]) -> None:
        calls.append(command)
        assert not list(tmp_path.glob("csrc/*.so")), "it must not be at its place before it is whole"
        with open(command[command.index("-o") + 1], "w") as file:
            file.write("library")

    monkeypatch.setenv("MINFER_CACHE", str(tmp_path))
    monkeypatch.setattr(cpp, "build", build)
    first = cpp.library()
    assert first.read_text() == "library"
    assert cpp.library() == first
    assert len(calls) == 1
    assert [path.name for path in (tmp_path / "csrc").iterdir()] == [first.name]
    shutil.copytree(cpp.SOURCES, tmp_path / "edited")
    (tmp_path / "edited" / "product.h").open("a").write("// edited\n")
    monkeypatch.setattr(cpp, "SOURCES", tmp_path / "edited")
    first.unlink()
    edited = cpp.library()
    edited.unlink()
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    assert len({first, edited, cpp.library()}) == 3


@pytest.mark.parametrize("failure", ["no compiler", "it fails", "killed", "not writable", "damaged"])
def test_what_cannot_be_built_names_the_pytorch_part(failure, tmp_path, monkeypatch):
    """Whatever is in the way, the message says so in one line and names the part to use instead."""
    monkeypatch.setenv("MINFER_CACHE", str(tmp_path))
    compiler = tmp_path / "c++"
    error = "echo 'x.cpp:1: error: no such thing' >&2; exit 1"
    script = {"it fails": error, "killed": "kill -9 $$", "damaged": 'shift; echo broken > "$2"'}.get(failure, "")
    compiler.write_text(f"#!/bin/sh\n{script}\n")
    compiler.chmod(0o755)
    monkeypatch.setattr(cpp.shutil, "which", lambda name: None if failure == "no compiler" else str(compiler))
    if failure == "not writable":
        (tmp_path / "csrc").write_text("a file where the folder should be")
    with pytest.raises(PartError, match=r"use attention=minfer\.attention\.torch:attention instead") as error:
        cpp.load()
    words = {"no compiler": "needs a C", "it fails": "no such thing", "killed": "ended with -9", "not writable": "MINFER_CACHE"}
    assert words.get(failure, "delete") in str(error.value)
    assert "\n" not in str(error.value)


def test_engine_gives_the_oracles_tokens():
    """Swapped into the CPU's stage, in a process of its own, whole prompts come out as transformers has them."""
    code = (
        "from engine_fixtures import *\n"
        "texts = [[3 + (7 * i + 5 * j) % 300 for j in range(4 + 9 * i)] for i in range(6)]\n"
        "engine = make_engine('cpu', swap={'attention': 'minfer.attention.cpp:attention'}, max_num_batched_tokens=20)\n"
        "print(sum(oracle().count_ties(p, t) for p, t in zip(texts, ids_of(run(engine, texts, greedy(9))))))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd="tests", capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "0", done.stderr[-2000:]


def test_without_a_compiler_the_plain_part_is_named(monkeypatch):
    """Before the file is imported, so that the reason is not hidden behind an import error."""
    monkeypatch.setattr("minfer.resolve.machine", lambda: frozenset())
    with pytest.raises(PartError, match=r"needs a C\+\+ compiler .*; attention=minfer\.attention\.torch:attention runs without"):
        resolve("attention", "minfer.attention.cpp:attention")
