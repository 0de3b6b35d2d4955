"""A file that is no trace, or none any more, is refused with the place and the reason."""

from __future__ import annotations

import copy

import pytest
from trace_fixtures import small_trace

from minfer.errors import MinferError
from minfer.trace import Trace

BROKEN = {
    "no trace": (lambda c: c.update(format="x"), "no trace of minfer"),
    "another version": (lambda c: c.update(version=99), "version 99, and this minfer reads version 1"),
    "a field too many": (lambda c: c["steps"][1].update(colour=1), r"steps\[1\] has colour"),
    "a field too few": (lambda c: c["engine"].pop("num_blocks"), "engine lacks num_blocks"),
    "a wrong type": (lambda c: c["steps"][2].update(free="many"), r"steps\[2\]: free=many"),
    "a negative count": (lambda c: c["sequences"][0].update(num_prompt=-1), r"sequences\[0\]: num_prompt=-1"),
    "a block beyond the pool": (lambda c: c["steps"][0]["tables"][0][2].append(999), "names block 999, and the pool has 1 to 14"),
    "an unknown sequence": (lambda c: c["sequences"].pop(0), "names sequence 0"),
    "a twin": (lambda c: c["sequences"].append(c["sequences"][0]), "twice"),
    "a step cut out": (lambda c: c["steps"].pop(0), r"steps\[\d+\]"),
    "a table cut": (lambda c: c["steps"][0]["tables"].pop(), "its blocks have room for 0"),
    "a bucket of one": (lambda c: c["steps"][0].update(bucket=[1]), "bucket"),
    "a table for a list": (lambda c: c.update(steps={}), "steps"),
    "a step that is a number": (lambda c: c["steps"].insert(0, 3), r"steps\[0\] is a int"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_by_name(tmp_path, name):
    """The message says the file, the place and what is wrong there."""
    damage, message = BROKEN[name]
    content = copy.deepcopy(small_trace().content)
    damage(content)
    path = tmp_path / "broken.json"
    Trace(content).save(path)
    with pytest.raises(MinferError, match=message) as refused:
        Trace.load(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("text", ["", "[1, 2", "3", "null", '{"format": "minfer-trace"}'])
def test_what_is_no_trace_is_refused(tmp_path, text):
    path = tmp_path / "no.json"
    path.write_text(text)
    with pytest.raises(MinferError, match=r"no\.json"):
        Trace.load(path)
    with pytest.raises(MinferError, match=r"missing\.json"):
        Trace.load(tmp_path / "missing.json")
