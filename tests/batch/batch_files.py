"""Inputs for the tests of `minfer batch`: lines of every kind, and what an output says of them."""

from __future__ import annotations

import json
import random
from pathlib import Path

from minfer.batch.jobs import Jobs, run_items
from minfer.batch.run import run_batch

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
BAD = [b"{", b"\xff\xfe", b"[1]", b'{"custom_id": 7}', b'{"custom_id": "x", "method": "GET"}', b'{"custom_id": "y", "x": NaN}', b"null"]


def line(custom_id: str, body: dict, url: str = COMPLETIONS) -> bytes:
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": body}).encode()


def many_lines(count: int, seed: int = 0, longest: int = 12) -> list[bytes]:
    """Mostly good ones, with and without a seed, greedy and not, chats, several prompts; and some of each kind that is refused."""
    rng = random.Random(seed)
    lines: list[bytes] = []
    for i in range(count):
        kind = rng.random()
        body: dict = {"max_tokens": rng.randint(1, longest), "temperature": rng.choice([0, 0.7, 1.0]), "ignore_eos": rng.random() < 0.5}
        if rng.random() < 0.3:
            body["seed"] = rng.randrange(2**31)
        prompt = [rng.randrange(3, 300) for _ in range(rng.randint(1, 12))]
        if kind < 0.02:
            lines.append(rng.choice(BAD))
        elif kind < 0.04:
            lines.append(line(f"r{i}", {**body, "prompt": prompt, "temperature": -1}))
        elif kind < 0.06 and i:
            lines.append(line(f"r{rng.randrange(i)}", {**body, "prompt": prompt}))
        elif kind < 0.2:
            lines.append(line(f"r{i}", {**body, "messages": [{"role": "user", "content": "hé" * rng.randint(1, 3)}]}, CHAT))
        elif kind < 0.3:
            lines.append(line(f"r{i}", {**body, "prompt": [prompt, prompt[:2]], "n": 2}))
        else:
            lines.append(line(f"r{i}", {**body, "prompt": prompt}))
    return lines


def write(path: Path, lines: list[bytes], end: bytes = b"\n") -> Path:
    path.write_bytes(end.join(lines) + end)
    return path


def records(path: Path) -> list[dict]:
    return [json.loads(each) for each in path.read_bytes().splitlines()]


def answers_of(llm, window: int = 8):
    """The answers of an engine that is already there."""
    return lambda items: run_items(Jobs(llm, "tiny"), items, window)


def outcome(llm, folder: Path, lines: list[bytes], **options) -> list[dict]:
    source = write(folder / "in.jsonl", lines)
    (folder / "out.jsonl").unlink(missing_ok=True)
    run_batch(source, folder / "out.jsonl", answers_of(llm, **options), "tiny")
    return records(folder / "out.jsonl")
