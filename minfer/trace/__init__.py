"""Traces: what an engine decided at every step, recorded from outside, replayed, looked at, compared.

    from minfer.trace import record, show
    with record(llm) as recording:
        llm.generate(prompts, params)
    show(recording)                     # the player, in a notebook

From: a running engine. To: a JSON file (docs/trace.md), the player's HTML page, or the Chrome trace format.
"""

from minfer.trace.compare import Difference, first_difference
from minfer.trace.recording import Recording, record, show
from minfer.trace.replay import Frame, Task
from minfer.trace.trace import Trace

__all__ = ["Difference", "Frame", "Recording", "Task", "Trace", "first_difference", "record", "show"]
