"""Whole files of requests on one engine, or on many: `minfer batch INPUT.jsonl OUTPUT.jsonl`, in OpenAI's batch format.

A line's way: `lines.py` (the input) → `items.py` (what it asks for) → `jobs.py` (the engine) or `ray_engines.py` (many engines) →
`records.py` (the answer as a line) → `output.py` (the file). `run.py` puts them together.

Records are written in the order of the input. So the output is the only state there is: a run that was killed goes on behind the last
whole record, and ends with the very file that an unbroken run writes. For that, a record holds no times, its ids come from the line's
number, and so does the seed of a request that brings none.
"""
