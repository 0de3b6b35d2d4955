"""prompt_logprobs over several steps: which prompt tokens a chunk can score, and what is kept of the scores.

The logits at position p score the token at p + 1, so a chunk scores the tokens that follow its own. The first prompt token has
nothing before it and gets None.
"""

from __future__ import annotations

from minfer.types import Sequence, Work


def tokens_to_score(seq: Sequence, start: int, end: int) -> list[int] | None:
    """The prompt tokens that follow positions start .. end - 1, of a sequence whose request asked for prompt_logprobs.

    None where there are none, where all have been scored before, and for all but the first of n completions.
    """
    if seq.index or len(seq.prompt_logprobs) >= seq.num_prompt:
        return None
    return seq.token_ids[start + 1 : min(end + 1, seq.num_prompt)] or None


def keep_scores(seq: Sequence, work: Work, scores: list[dict[int, float]]) -> None:
    """Append the scores of one chunk, less those that were scored before a preemption."""
    known = len(seq.prompt_logprobs)
    seq.prompt_logprobs += scores[max(known - (work.start + 1), 0) :]
