"""Measures chapter 9: the second question to the same long system prompt, with and without a prefix cache.

From: SmolLM2-135M on this machine's CPU. To: `measured.json` beside this file, which the chapter's text and notebook read.
Run it from the repository's root: PYTHONPATH=. python chapters/09_prefix_cache/measure.py. It takes about a minute.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

from minfer import LLM, SamplingParams
from minfer.bench.report import header, write_json

MODEL = "smollm2-135m"
SYSTEM, QUESTION, ANSWER = 512, 16, 4  # tokens of the shared prompt, of each user's question, of an answer
USERS = 5
PARTS = {"paged": "minfer.blocks.paged:PagedBlocks", "prefix": "minfer.blocks.prefix:PrefixBlocks"}


def first_tokens(blocks: str) -> list[dict]:
    """One user after the other → of each, the tokens found in the cache and the ms to the first token."""
    found = []
    with LLM(MODEL, stage="chunked", swap={"blocks": blocks}, device="cpu", max_model_len=1024, max_num_seqs=4) as llm:
        params = SamplingParams(temperature=0, max_tokens=ANSWER, ignore_eos=True)
        llm.generate([list(range(40_000, 40_000 + SYSTEM))], params, progress=False)  # warms up
        system = list(range(1000, 1000 + SYSTEM))
        for user in range(USERS):
            question = [20_000 + 100 * user + at for at in range(QUESTION)]
            output = llm.generate([[*system, *question]], params, progress=False)[0]
            found.append({"cached": output.num_cached_tokens, "ttft_ms": 1e3 * output.metrics.time_to_first_token})
    return found


def main() -> None:
    rows = []
    for name, blocks in PARTS.items():
        users = first_tokens(blocks)
        later = users[1:]
        rows.append(
            {
                "blocks": name,
                "first_ms": users[0]["ttft_ms"],
                "later_ms": median(user["ttft_ms"] for user in later),
                "cached": later[0]["cached"],
                "users": users,
            }
        )
    columns = {
        "blocks": "blocks",
        "first_ms": "first user: first token after, ms",
        "cached": "later users: tokens found",
        "later_ms": "later users: first token after, ms (median)",
    }
    table = {
        "columns": columns,
        "rows": [{**{key: row[key] for key in columns}, "blocks": f"`{row['blocks']}`"} for row in rows],
        "formats": {"first_ms": ",.0f", "later_ms": ",.0f"},
    }
    facts = {"model": MODEL, "system_tokens": SYSTEM, "question_tokens": QUESTION, "answer_tokens": ANSWER, "runs": rows}
    write_json(Path(__file__).with_name("measured.json"), {"kind": "chapter", **header(), **facts, "first_tokens": table})


if __name__ == "__main__":
    main()
