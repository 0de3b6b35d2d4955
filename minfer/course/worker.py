"""The process in which a student's file is loaded and checked: `python -m minfer.course.worker`, started by `supervise.py`.

From: a request on the command line, in JSON. To: one JSON object a line on a pipe of its own, so that what the file
prints disturbs nothing.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

from minfer.course.chapter import ENGINE
from minfer.course.jobs import FAILED, PASSED, SKIPPED, Job, Outcome
from minfer.errors import MinferError


def main(request: dict[str, Any], pipe: int) -> None:
    """Do the request's jobs, in order. Each is announced before it begins, so that the parent knows where a process ended.

    request: chapter (a folder), parts (slot → file:name), jobs (pairs of property and focus), engine and speed (whether to run them),
    examples, seed.
    """

    def tell(event: str, **content: Any) -> None:
        os.write(pipe, (json.dumps({"event": event, **content}) + "\n").encode())

    logging.disable(logging.WARNING)  # of the part or of minfer: repeated for every example, and the parent would not show it
    from minfer.course import checking, engine_run
    from minfer.course.chapter_file import load_chapter

    chapter = load_chapter(Path(request["chapter"]))
    interpreted = checking.interpret_if_needed(chapter)
    targets = {}
    for slot, name in request["parts"].items():
        tell("begin", job=f"load {slot}")
        try:
            targets[slot] = checking.load(chapter, slot, name)
        except MinferError as error:
            tell("unusable", slot=slot, text=str(error))
        else:
            tell("loaded", slot=slot, lines=targets[slot].describe()[1:])
    effort, hasty = checking.EFFORT, False
    for prop, focus in request["jobs"]:
        job = Job(prop, focus)
        if job.slot not in targets:
            continue
        tell("begin", job=job.id)
        outcome = checking.check_job(job, targets, request["examples"], request["seed"], effort, hasty=hasty)
        if outcome.status == FAILED:
            effort = checking.LITTLE_EFFORT
            hasty |= outcome.facts["out_of_time"]
        tell("outcome", outcome=outcome.to_json())
    if request["engine"] and targets:
        tell("begin", job="engine")
        if hasty:
            outcome = Outcome(ENGINE, SKIPPED, lines=[f"not run      {ENGINE:20} since a property above did not end"])
        else:
            outcome = engine_run.compare(chapter, targets, interpreted)
        tell("outcome", outcome=outcome.to_json())
        if request["speed"] and outcome.status == PASSED and not interpreted:
            tell("begin", job="speed")
            tell("speed", text=engine_run.speed(chapter, targets))
    tell("end")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), int(sys.argv[2]))
