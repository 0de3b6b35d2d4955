"""Reports: on what machine and with what versions something was measured, written whole or not at all."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
import torch

from minfer.bench import report
from minfer.errors import MinferError


def test_a_report_opens_with_the_machine_and_the_versions():
    facts = json.loads(json.dumps(report.header(), allow_nan=False))
    assert facts["versions"]["torch"] == torch.__version__
    assert facts["versions"]["python"].startswith("3.")
    assert facts["hardware"]["memory_gib"] > 0
    assert facts["hardware"]["cpu"]
    assert facts["hardware"]["torch_threads"] == torch.get_num_threads()
    assert report.version_of("no-such-package") is None


def make_commit(folder) -> None:
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], check=True)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commit_is_that_of_minfers_files(tmp_path, monkeypatch):
    """Marked where files were changed since; None outside of a checkout, also inside somebody else's."""
    file = tmp_path / "root" / "minfer" / "bench" / "report.py"
    file.parent.mkdir(parents=True)
    file.touch()
    monkeypatch.setattr(report, "__file__", str(file))
    assert report.commit() is None
    make_commit(tmp_path)  # a checkout further up, into which minfer was installed
    assert report.commit() is None
    make_commit(tmp_path / "root")
    found = report.commit()
    assert len(found) == 40
    file.write_text("changed")
    assert report.commit() == f"{found}-dirty"


def test_a_report_is_whole_or_not_there(tmp_path):
    """A number that JSON does not have leaves the old report as it was, and nothing beside it."""
    path = tmp_path / "made" / "r.json"
    report.write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="JSON"):
        report.write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [each.name for each in path.parent.iterdir()] == ["r.json"]


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*args):
        raise OSError("disk full")

    monkeypatch.setattr(report.os, "replace", full)
    with pytest.raises(OSError, match="disk full"):
        report.write_json(tmp_path / "r.json", {})
    assert list(tmp_path.iterdir()) == []


def test_a_place_without_a_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(MinferError, match="cannot be made"):
        report.check_writable(tmp_path / "file" / "r.json")
    with pytest.raises(MinferError, match="is a folder"):
        report.check_writable(tmp_path)
