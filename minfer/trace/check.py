"""Is this a trace? Its form first, then whether it can be carried out: a file that was cut short or edited is refused here, by name.

From: `Trace.load`. To: everybody else, who may then take a trace at its word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minfer.errors import MinferError
from minfer.trace.trace import FORMAT, VERSION, Trace

Test = Callable[[Any], bool]


def is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    return is_int(value) and value >= 0


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def list_of(test: Test, length: int | None = None) -> Test:
    return lambda value: isinstance(value, list) and length in (None, len(value)) and all(test(each) for each in value)


def table_of(test: Test) -> Test:
    return lambda value: isinstance(value, dict) and all(test(each) for each in value.values())


def is_queue_edit(value: Any) -> bool:
    if isinstance(value, dict):
        return set(value) <= {"out", "in"} and all(map(counts, value.values())) and len(value.get("in", ())) % 2 == 0
    return counts(value)


def is_table_edit(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and is_count(value[0]) and is_count(value[1]) and counts(value[2])


def is_work(value: Any) -> bool:
    return is_count(value) or (list_of(is_count, 5)(value) and value[3] >= 1 and value[4] <= 1)


def is_copy(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and value[0] in ("copy", "out", "in") and counts(value[1:])


def is_bucket(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and is_count(value[0]) and (value[1] is None or is_count(value[1]))


counts = list_of(is_count)
# Each field: the test of its value, and whether it must be there
TOP = {
    "format": (is_text, True),
    "version": (is_int, True),
    "made": (table_of(is_text), True),
    "engine": (lambda value: isinstance(value, dict), True),
    "sequences": (lambda value: isinstance(value, list), True),
    "steps": (lambda value: isinstance(value, list), True),
    "texts": (table_of(is_text), True),
}
ENGINE = {
    **{name: (is_text, True) for name in ("model", "stage", "device", "dtype")},
    **{
        name: (is_count, True)
        for name in ("block_size", "num_blocks", "num_host_blocks", "max_num_seqs", "max_num_batched_tokens", "max_model_len")
    },
    "parts": (table_of(is_text), True),
}
SEQUENCE = {
    **{name: (is_count, True) for name in ("id", "index", "num_prompt", "limit", "arrived")},
    "request": (is_text, True),
    "parent": (is_count, False),
    "num_output": (is_count, False),
    "prompt": (is_text, False),
    "finish": (is_text, False),
}
STEP = {
    "at": (is_count, True),
    **{name: (is_count, False) for name in ("step", "in_flight", "free", "device")},
    **{name: (is_queue_edit, False) for name in ("held", "waiting", "running")},
    **{name: (list_of(is_table_edit), False) for name in ("tables", "swapped")},
    **{name: (counts, False) for name in ("preempted", "cached")},
    "work": (list_of(is_work), False),
    "hits": (list_of(list_of(is_count, 2)), False),
    "copies": (list_of(is_copy), False),
    "bucket": (is_bucket, False),
    "host": (lambda value: list_of(list_of(is_count, 2))(value) and len(value) <= 4, False),
    "sampled": (list_of(is_int), False),
}


def check(trace: Trace) -> None:
    """The form of everything, then that each step can be carried out.

    Raises:
        MinferError: with the first thing that is wrong, and where it is.
    """
    content = trace.content
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise MinferError("this is no trace of minfer; `minfer trace` and LLM(..., trace=PATH) make one")
    if content.get("version") != VERSION:
        raise MinferError(
            f"the trace has version {content.get('version')!r}, and this minfer reads version {VERSION}; record it again, or view it "
            f"with the minfer that made it ({_maker(content)})"
        )
    check_fields("the trace", content, TOP)
    check_fields("engine", content["engine"], ENGINE)
    if content["engine"]["block_size"] < 1:
        raise MinferError("engine: block_size=0 must be at least 1; the file has been changed")
    for i, each in enumerate(content["sequences"]):
        check_fields(f"sequences[{i}]", each, SEQUENCE)
    for i, each in enumerate(content["steps"]):
        check_fields(f"steps[{i}]", each, STEP)
    check_replay(trace)


def check_fields(where: str, content: Any, fields: dict[str, tuple[Test, bool]]) -> None:
    """Every field is known and has a value that it may have, and none that must be there is missing."""
    if not isinstance(content, dict):
        raise MinferError(f"{where} is a {type(content).__name__} and not a table; the file has been changed")
    missing = [name for name, (_, needed) in fields.items() if needed and name not in content]
    if missing:
        raise MinferError(f"{where} lacks {', '.join(missing)}; the file may be cut short")
    unknown = sorted(set(content) - set(fields))
    if unknown:
        raise MinferError(f"{where} has {', '.join(unknown)}, which version {VERSION} does not know; the file has been changed")
    for name, value in content.items():
        if not fields[name][0](value):
            raise MinferError(f"{where}: {name}={str(value)[:80]} is not what it must be (docs/trace.md); the file has been changed")


def check_replay(trace: Trace) -> None:
    """Sequences and blocks that steps name exist, and no step needs what an earlier one would have had to say."""
    from minfer.trace.replay import frames

    engine, known, index = trace.engine, set(trace.sequences), -1
    if len(known) < len(trace.content["sequences"]):
        raise MinferError("sequences: an id is there twice; the file has been changed")
    try:
        for frame in frames(trace):
            index = frame.index
            check_frame(frame, known, engine)
    except (KeyError, IndexError) as error:
        raise MinferError(f"steps[{index + 1}] builds on what no step before it says ({error}); the file has been changed") from None


def check_frame(frame: Any, known: set[int], engine: dict[str, Any]) -> None:
    where, entry = f"steps[{frame.index}]", frame.entry
    work = [task.seq for task in frame.work]
    named = {*frame.held, *frame.waiting, *frame.running, *work, *(edit[0] for edit in entry.get("tables", ()))}
    if named - known:
        raise MinferError(f"{where} names sequence {min(named - known)}, which is not among `sequences`; the file has been changed")
    if "step" in entry and not work:
        raise MinferError(f"{where} computes nothing: its `work` is missing, and so is one before it; the file has been changed")
    blocks = {block for _, _, added in entry.get("tables", ()) for block in added} | set(entry.get("cached", ()))
    wrong = [block for block in blocks if not 1 <= block <= engine["num_blocks"]]
    if wrong:
        raise MinferError(f"{where} names block {min(wrong)}, and the pool has 1 to {engine['num_blocks']}; the file has been changed")
    size = engine["block_size"]
    for task in frame.work:
        room = len(frame.tables.get(task.seq, ())) * size
        if task.start + task.num_new > room:
            raise MinferError(
                f"{where}: sequence {task.seq} computes up to token {task.start + task.num_new}, and its blocks have room for {room}"
            )


def _maker(content: dict[str, Any]) -> str:
    made = content.get("made")
    return f"minfer {made.get('minfer', 'unknown')}" if isinstance(made, dict) else "unknown"
