"""The command line as a whole: its options are frozen, its help is quick, and its errors are for people."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer
from cli_runner import failing, run, tiny_model
from typer.testing import CliRunner

from minfer.cli.app import app

ENGINE = [
    "--block-size", "--device", "--dtype", "--engine-seed", "--executor", "--max-model-len", "--max-num-batched-tokens",
    "--max-num-seqs", "--memory-share", "--model", "--num-host-blocks", "--num-kv-blocks", "--ray-address", "--revision", "--swap",
    "--tp",
]  # fmt: skip
SAMPLING = [
    "--frequency-penalty", "--ignore-eos", "--include-stop", "--keep-special-tokens", "--logit-bias", "--max-tokens", "--min-p",
    "--min-tokens", "--presence-penalty", "--repetition-penalty", "--seed", "--stop", "--stop-token-id", "--temperature", "--top-k",
    "--top-p",
]  # fmt: skip
OPTIONS = {
    "": ["--debug", "--verbose", "--version"],
    "generate": ["--file", "--json", "--logprobs", "--n", "--prompt-logprobs", "--stage", *ENGINE, *SAMPLING],
    "batch": ["--engines", "--stage", "--window", *ENGINE],
    "chat": ["--stage", "--system", *ENGINE, *SAMPLING],
    "serve": [
        "--api-key", "--deadline", "--host", "--max-output-tokens", "--max-waiting", "--port", "--served-model-name",
        "--shutdown-seconds", "--stage", *ENGINE,
    ],
    "stages": ["--json"],
    "ladder": [
        "--json", "--max-tokens", "--plot", "--repeats", "--requests", "--resume", "--shape", "--slow-requests", "--stages",
        "--workload", "--workload-seed", *ENGINE,
    ],
    "bench": [],
    "bench throughput": [
        "--arrival", "--baseline", "--batch-size", "--json", "--output-len", "--prompt-len", "--rate", "--repeats", "--requests",
        "--shape", "--stage", "--workload", "--workload-seed", *ENGINE,
    ],
    "bench latency": ["--json", "--output-len", "--prompt-len", "--repeats", "--shape", "--stage", "--workload-seed", *ENGINE],
    "bench startup": ["--json", "--repeats", "--shape", "--stage", *ENGINE],
    "bench profile": ["--batch", "--context", "--json", "--plot", "--shape", "--stage", "--steps", "--trace", *ENGINE],
    "bench serve": [
        "--api-key", "--clients", "--concurrency", "--ignore-eos", "--json", "--model", "--output-len", "--plot", "--prompt-len",
        "--rate", "--requests", "--slo-tpot-ms", "--slo-ttft-ms", "--timeout", "--url", "--vocab-size", "--warm-up", "--workload",
        "--workload-seed",
    ],
    "bench soak": ["--json", "--requests", "--seconds", "--seed", "--stage", *ENGINE],
    "bench kernels": ["--json", "--plot", "--repeats", "--slot"],
    "classroom": [],
    "classroom grade": [
        "--call-seconds", "--chapter", "--examples", "--gradescope", "--hidden-seed", "--json", "--junit", "--memory",
    ],
    "classroom build": ["--install", "--out"],
    "check": ["--examples", "--json", "--part", "--replay", "--seed", "--task"],
    "start": ["--to"],
    "status": ["--dir", "--json"],
    "hint": ["--dir", "--more"],
    "diff": [],
    "trace": [],
    "trace record": ["--file", "--n", "--out", "--requests", "--shape", "--stage", "--workload", *ENGINE, *SAMPLING],
    "trace view": ["--chapters", "--compare", "--open", "--out"],
    "trace export": ["--out"],
    "plan": ["--batch", "--block-size", "--context", "--dtype", "--gpu", "--json", "--memory-share", "--tp"],
    "pull": ["--revision"],
    "doctor": ["--json"],
    "demo": ENGINE,
}  # fmt: skip


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


def options_of(command, path: str = "") -> dict[str, list[str]]:
    """Command → its options, --help left out."""
    long = sorted(max(each.opts, key=len) for each in command.params if each.opts[0].startswith("-"))
    found = {path: [name for name in long if name != "--help"]}
    for name, child in getattr(command, "commands", {}).items():
        found |= options_of(child, f"{path} {name}".strip())
    return found


def test_the_options_are_frozen():
    """A new option is a decision: this list is where it is made."""
    assert options_of(typer.main.get_command(app)) == {command: sorted(options) for command, options in OPTIONS.items()}


def test_help_of_every_command_documents_the_exit_codes():
    """Whoever scripts a command finds in its help what its exit code means."""
    for command in OPTIONS:
        text = " ".join(run(*command.split(), "--help").stdout.split())
        assert "130 interrupted" in text, command


def test_help_imports_neither_torch_nor_transformers():
    """`minfer --help` answers at once."""
    script = (
        "import sys\nfrom minfer.__main__ import main\nsys.argv = ['minfer', '--help']\ntry:\n    main()\n"
        "finally:\n    assert not {'torch', 'transformers', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "generate" in done.stdout


def test_version():
    assert run("--version").stdout.startswith("minfer 0.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--stage", "warp"], "no stage is called 'warp'; the stages are hf,"),
        (["--swap", "engine=a:b"], "no slot is called engine"),
        (["--model", "no-such-model"], "no model is called 'no-such-model'"),
        (["--temperature", "-1"], "temperature=-1.0"),
        (["--dtype", "float8"], "dtype='float8' is not supported"),
        (["--max-model-len", "99999"], "max_model_len=99999"),
    ],
)
def test_what_cannot_be_done_exits_with_1_and_one_message(tiny, arguments, message):
    """A message on stderr, nothing on stdout, no traceback."""
    result = run("generate", "hello", *([] if "--model" in arguments else ["--model", tiny]), *arguments, code=1)
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert result.stdout == ""


def test_debug_shows_where_an_error_came_from():
    """--debug lets the exception through, which Python then prints with its traceback."""
    result = CliRunner().invoke(app, ["--debug", "generate", "hello", "--stage", "warp"])
    assert result.exit_code == 1
    assert "warp" in str(result.exception)
    assert not isinstance(result.exception, SystemExit)


def test_an_unexpected_error_names_its_type_and_debug(monkeypatch):
    monkeypatch.setattr("minfer.llm.LLM", failing(RuntimeError("the device is gone")))
    stderr = run("generate", "hello", code=1).stderr
    assert stderr == "error: RuntimeError: the device is gone\n`minfer --debug` shows where it happened\n"


def test_ctrl_c_exits_with_130(monkeypatch):
    monkeypatch.setattr("minfer.llm.LLM", failing(KeyboardInterrupt()))
    assert run("generate", "hello", code=130).stderr == "interrupted\n"
