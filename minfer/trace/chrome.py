"""Export to the Chrome trace event format, which chrome://tracing and ui.perfetto.dev open.

From: a `Trace`. To: a JSON file: the host's four verbs, the device, a lane for each sequence, and counters of blocks and tokens.
Source: "Trace Event Format", the Chromium project's document; events "X" (complete), "C" (counter), "M" (metadata).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from minfer.errors import MinferError
from minfer.trace.phases import spans
from minfer.trace.replay import Frame, frames
from minfer.trace.trace import Trace

VERBS = ("schedule", "launch", "wait", "commit")
ENGINE, SEQUENCES = 1, 2  # the two processes that the viewer shows
HOST, DEVICE = 1, 2  # threads of the engine; those of the sequences are numbered by their ids


def chrome_events(trace: Trace) -> dict[str, Any]:
    """The whole file's content. Times are in microseconds, as the format wants them."""
    states = list(frames(trace))
    events = names(trace)
    for frame in states:
        events += host_events(frame) + counters(frame, trace)
    events += sequence_events(trace, states)
    made = {**trace.content["made"], "model": trace.engine["model"], "stage": trace.engine["stage"]}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": made}


def export_chrome(trace: Trace, path: str | Path) -> None:
    """Write it.

    Raises:
        MinferError: the file cannot be written.
    """
    try:
        Path(path).expanduser().write_text(json.dumps(chrome_events(trace), allow_nan=False), encoding="utf-8")
    except OSError as error:
        raise MinferError(f"the export cannot be written to {path} ({error.strerror}); name a file in a folder that exists") from error


def names(trace: Trace) -> list[dict[str, Any]]:
    """Of processes and threads, and the order in which the viewer puts them."""
    threads = {(ENGINE, HOST): "host", (ENGINE, DEVICE): "device"}
    threads |= {(SEQUENCES, seq): _name(trace, seq) for seq in trace.sequences}
    processes = {ENGINE: "engine", SEQUENCES: "sequences"}
    events = [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}} for pid, name in processes.items()]
    for (pid, tid), name in threads.items():
        events.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}})
        events.append({"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}})
    return events


def host_events(frame: Frame) -> list[dict[str, Any]]:
    """The verbs of a step; and its time on the device, which ends when the wait for it does."""
    entry = frame.entry
    if "step" not in entry:
        return []
    decodes = sum(task.num_new == 1 for task in frame.work)
    args = {"step": entry["step"], "decodes": decodes, "chunks": len(frame.work) - decodes}
    args |= {"tokens": sum(task.num_new for task in frame.work)}
    times = [(verb, entry["at"] + offset, length) for verb, (offset, length) in zip(VERBS, entry.get("host", ()), strict=False)]
    events = [_span(f"{verb} {entry['step']}", ENGINE, HOST, begun, length, args) for verb, begun, length in times]
    if "device" in entry and len(times) > 2:
        _, begun, length = times[2]
        events.append(_span(f"step {entry['step']}", ENGINE, DEVICE, begun + length - entry["device"], entry["device"], args))
    return events


def counters(frame: Frame, trace: Trace) -> list[dict[str, Any]]:
    total = trace.engine["num_blocks"]
    blocks = {"used": total - frame.num_free, "free": frame.num_free}
    tokens = {"decode": 0, "prefill": 0}
    for task in frame.work:
        tokens["decode" if task.num_new == 1 and task.samples else "prefill"] += task.num_new
    queues = {"running": len(frame.running), "waiting": len(frame.waiting) + len(frame.held)}
    shown = {"K/V blocks": blocks, "tokens in the batch": tokens, "sequences": queues}
    at = frame.entry["at"]
    return [{"ph": "C", "name": name, "pid": ENGINE, "tid": 0, "ts": at, "args": args} for name, args in shown.items()]


def sequence_events(trace: Trace, states: list[Frame]) -> list[dict[str, Any]]:
    """A lane for each sequence: from arrival on it queues, then what it did from step to step."""
    begins = [frame.entry["at"] for frame in states]
    ends = [*begins[1:], _end(states[-1].entry) if states else 0]
    events = []
    for span in spans(trace):
        events.append(_span(span.phase, SEQUENCES, span.seq, begins[span.first], ends[span.last] - begins[span.first], {}))
    return events


def _end(entry: dict[str, Any]) -> int:
    return entry["at"] + max((offset + length for offset, length in entry.get("host", ())), default=0)


def _name(trace: Trace, seq: int) -> str:
    entry = trace.sequences[seq]
    return f"{entry['request']}[{entry['index']}] ({entry['num_prompt']} prompt tokens)"


def _span(name: str, pid: int, tid: int, begun: int, length: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": begun, "dur": max(length, 0), "args": args}
