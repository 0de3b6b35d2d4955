"""Many clients at once against `minfer serve`, for a long time: each checks every answer against what the engine gives offline.

Some clients stream, some read slowly, some hang up in the middle. At the end nothing may be lost, doubled or mixed up, every K/V block
must be free again, and the memory of both processes must not have grown.

    PYTHONPATH=. python scripts/soak_server.py --seconds 900 --json benchmarks/results/soak-server-cpu.json

From: the requests of `minfer/bench/soak_requests.py`, on a tiny model with random weights. To: a line a minute, and a JSON file.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import httpx
import psutil
import typer

from minfer.bench.report import header, write_json
from minfer.bench.soak_requests import Case, make_cases
from minfer.testing.checkpoints import make_checkpoint
from minfer.testing.tokenizers import byte_level_tokenizer

SIZES = {"dtype": "float32", "max_model_len": 96, "max_num_seqs": 8, "max_num_batched_tokens": 64, "num_kv_blocks": 14}
FIELDS = (
    "n", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed", "max_tokens",
    "min_tokens", "logprobs",
)  # fmt: skip
KEPT = 20  # faults that are described
GROWTH = 64 << 20  # bytes by which a process may be larger at the end than after its first quarter


@dataclass
class Tally:
    """What has happened so far."""

    seconds: float = 0.0
    answered: int = 0
    streamed: int = 0
    hung_up: int = 0
    refused: int = 0  # 429; tried again
    output_tokens: int = 0
    preemptions: int = 0
    wrong: int = 0  # lost, doubled or mixed up
    leaked_blocks: int = 0
    memory: list[tuple[float, int, int]] = field(default_factory=list)  # seconds, bytes of the server, bytes of the engine
    faults: list[str] = field(default_factory=list)

    def note(self, fault: str) -> None:
        self.wrong += 1
        if len(self.faults) < KEPT:
            self.faults.append(fault)

    @property
    def growth(self) -> int:
        """Bytes by which both processes grew from the first quarter's end to the last look."""
        if not self.memory:
            return 0
        _, *then = self.memory[len(self.memory) // 4]
        return max(now - before for now, before in zip(self.memory[-1][1:], then, strict=True))

    @property
    def well(self) -> bool:
        return not self.wrong and not self.leaked_blocks and self.growth < GROWTH

    def line(self) -> str:
        return (
            f"{self.seconds:.0f} s: {self.answered} answered ({self.streamed} streamed), {self.hung_up} hung up, "
            f"{self.refused} refused, {self.output_tokens} tokens, {self.preemptions} preemptions, {self.wrong} wrong, "
            f"{self.leaked_blocks} blocks leaked, memory grew by {self.growth / 2**20:.1f} MiB"
        )


def body_of(case: Case, stream: bool) -> dict[str, Any]:
    """The request as the API takes it."""
    params = case.params
    body = {name: getattr(params, name) for name in FIELDS} | {"prompt": case.prompt, "stream": stream}
    return body | {"logit_bias": {str(token): bias for token, bias in params.logit_bias}, "stop_token_ids": list(params.stop_token_ids)}


class Client:
    """Asks, and checks what comes, until its time is over."""

    def __init__(self, number: int, http: httpx.AsyncClient, cases: list[Case], seed: int, tally: Tally):
        self.http, self.cases, self.tally = http, cases, tally
        self.random = random.Random(f"{seed}-{number}")

    async def run(self, until: float) -> None:
        while time.monotonic() < until and len(self.tally.faults) < KEPT:
            case = self.random.choice(self.cases)
            try:
                await (self.ask_stream(case) if self.random.random() < 0.6 else self.ask_whole(case))
            except (httpx.HTTPError, ValueError, KeyError) as error:
                self.tally.note(f"{type(error).__name__}: {error}")

    async def ask_whole(self, case: Case) -> None:
        """At times with less patience than the answer takes."""
        patience = self.random.choice([0.02, 0.2]) if self.random.random() < 0.2 else 300
        try:
            answer = await self.http.post("/v1/completions", json=body_of(case, False), timeout=patience)
        except httpx.TimeoutException:
            if patience == 300:
                raise
            self.tally.hung_up += 1
            return
        if not await self.refused(answer.status_code, answer.text):
            self.check(case, {each["index"]: (each["text"], each["finish_reason"]) for each in answer.json()["choices"]})
            self.tally.output_tokens += answer.json()["usage"]["completion_tokens"]

    async def ask_stream(self, case: Case) -> None:
        """At times slowly, at times not to the end."""
        leaves_after = self.random.randint(0, 12) if self.random.random() < 0.25 else None
        pause = self.random.choice([0.001, 0.05]) if self.random.random() < 0.3 else 0
        texts: dict[int, str] = {}
        reasons: dict[int, str] = {}
        done = False
        async with self.http.stream("POST", "/v1/completions", json=body_of(case, True), timeout=300) as answer:
            if answer.status_code != 200:
                await self.refused(answer.status_code, (await answer.aread()).decode())
                return
            async for line in answer.aiter_lines():
                if not line:
                    continue
                if leaves_after is not None and (leaves_after := leaves_after - 1) < 0:
                    self.tally.hung_up += 1
                    return
                await asyncio.sleep(pause)
                done = line == "data: [DONE]"
                if not done:
                    (choice,) = json.loads(line.removeprefix("data: "))["choices"]
                    index, reason = choice["index"], choice["finish_reason"]
                    if index in reasons:
                        self.tally.note(f"choice {index} goes on after its end: {line}")
                    texts[index] = texts.get(index, "") + choice["text"]
                    if reason is not None:
                        reasons[index] = reason
        if not done:
            self.tally.note("a stream ended without [DONE]")
        self.tally.streamed += 1
        self.check(case, {index: (text, reasons.get(index)) for index, text in texts.items()})

    async def refused(self, status: int, text: str) -> bool:
        if status == 429:
            self.tally.refused += 1
            await asyncio.sleep(0.2)
        elif status != 200:
            self.tally.note(f"status {status}: {text}")
        return status != 200

    def check(self, case: Case, found: dict[int, tuple[str, str | None]]) -> None:
        self.tally.answered += 1
        expected = {each.index: (each.text, each.finish_reason) for each in case.expected.outputs}
        if found != expected:
            self.tally.note(f"{case.prompt} gave {found}, not {expected}")


async def soak(url: str, cases: list[Case], seconds: float, clients: int, seed: int, tally: Tally, watch=lambda: None) -> None:
    """Let the clients ask; then see that the engine has come to rest. `watch` is called every few seconds."""
    begun = time.monotonic()
    limits = httpx.Limits(max_connections=2 * clients)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60) as http:

        async def look() -> None:
            while True:
                tally.seconds = time.monotonic() - begun
                tally.preemptions = (await http.get("/engine/state")).json()["num_preemptions"]
                watch()
                await asyncio.sleep(min(5.0, seconds / 10))

        looking = asyncio.create_task(look())
        await asyncio.gather(*(Client(i, http, cases, seed, tally).run(begun + seconds) for i in range(clients)))
        looking.cancel()
        for _ in range(100):
            state = (await http.get("/engine/state")).json()
            tally.leaked_blocks = state["engine"]["num_blocks"] - state["free"]
            if not state["sequences"] and not tally.leaked_blocks:
                break
            await asyncio.sleep(0.1)
        else:
            tally.note(f"the engine does not come to rest: {len(state['sequences'])} sequences, {tally.leaked_blocks} blocks")
    watch()
    tally.seconds = time.monotonic() - begun


def main(
    seconds: Annotated[float, typer.Option(help="How long the clients go on asking.")] = 60,
    clients: int = 32,
    requests: Annotated[int, typer.Option(help="Different requests to draw from.")] = 150,
    seed: int = 0,
    report: Annotated[Path | None, typer.Option("--json", metavar="FILE")] = None,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        make_checkpoint(path)
        byte_level_tokenizer().save_pretrained(path)
        cases = make_cases(folder, requests, SIZES["max_model_len"], seed, {"dtype": SIZES["dtype"], "device": "cpu"})
        options = [text for name, value in SIZES.items() for text in (f"--{name.replace('_', '-')}", str(value))]
        command = [sys.executable, "-m", "minfer", "serve", "--model", folder, "--port", "0", "--device", "cpu", "--max-waiting", "60"]
        log = path / "server.log"
        with log.open("w") as said:
            server = subprocess.Popen([*command, *options], stderr=said)
        try:
            while not (found := re.search(r"http://\S+:\d+", log.read_text())):
                if server.poll() is not None:
                    raise SystemExit(f"the server has ended: {log.read_text()}")
                time.sleep(0.1)
            processes = [psutil.Process(server.pid)]
            processes.append(max(processes[0].children(recursive=True), key=lambda each: each.memory_info().rss))
            tally, told = Tally(), [time.monotonic()]

            def watch() -> None:
                tally.memory.append((tally.seconds, *(each.memory_info().rss for each in processes)))
                if time.monotonic() - told[0] >= 60:
                    told[0] = time.monotonic()
                    typer.echo(tally.line(), err=True)

            asyncio.run(soak(found[0], cases, seconds, clients, seed, tally, watch))
        finally:
            server.terminate()
            server.wait(60)
            said = log.read_text()
    typer.echo(said, err=True)
    typer.echo(f"{clients} clients, {len(cases)} different requests; {tally.line()}")
    for fault in tally.faults:
        typer.echo(fault)
    if report is not None:
        facts = {"clients": clients, "requests": len(cases), "seed": seed, "well": tally.well}
        write_json(report, {"kind": "soak-server", **header(), **facts, **asdict(tally), "growth": tally.growth})
    if not tally.well:
        raise SystemExit(1)


if __name__ == "__main__":
    typer.run(main)
