"""Slot `sample`: greedy rows take the largest logit, random ones draw by the documented race; a row depends on itself alone."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st

from minfer.params import SamplingParams
from minfer.sample.noise import log_arrivals
from minfer.testing.properties import Case, Differs, Place, Property, device_of, dtype_of, expect
from minfer.testing.sampling import INF, allowed, chi_square, edited, row
from minfer.testing.sampling_cases import ANY_SPREAD, EDITS, FILTERS, build, cases, filtered, impossible, small_edits, ties
from minfer.testing.sampling_draws import MARGIN, check_filtered, check_ties, draw, rank_of


def check_greedy(part: Any, case: Case) -> None:
    """The largest score, of equal ones the first. Scores that were edited may tie within rounding."""
    logits, asked = build(case)
    ids = draw(part, logits, asked)
    for i, (sampling, position, history) in enumerate(asked):
        if sampling.params.greedy:
            scores = edited(logits[i], sampling, position, history)
            best = int(scores.argmax())
            exact = torch.equal(scores, logits[i].double().cpu())
            fine = ids[i] == best if exact else scores[ids[i]] >= scores[best] - MARGIN
            expect(fine, f"token {best} in row {i}, with score {scores[best]:.4f}", f"token {ids[i]} with {scores[ids[i]]:.4f}")


def check_race(part: Any, case: Case) -> None:
    """The token with the smallest (largest score - score) / temperature + noise, among those that the filters leave."""
    logits, asked = build(case)
    ids = draw(part, logits, asked)
    for i, (sampling, position, history) in enumerate(asked):
        params, scores = sampling.params, edited(logits[i], sampling, position, history)
        if params.greedy:
            continue
        noise = log_arrivals(torch.tensor([sampling.seed]), torch.tensor([position]), len(scores))[0].double()
        times = (scores.max() - scores) / params.temperature + noise
        sure, possible = (sorted(allowed(scores, params, slack)) for slack in (-1e-5, 1e-5))
        expect(
            ids[i] in possible,
            f"one of the {len(possible)} tokens that the filters leave in row {i}: {possible[:12]}",
            f"token {ids[i]}, {rank_of(scores, ids[i])} in likelihood",
        )
        best = min(sure, key=lambda token: float(times[token]))
        expect(
            times[ids[i]] <= times[best] + MARGIN * (1 + abs(float(times[best]))),
            f"token {best} in row {i}, the first in the race of minfer.sample.noise, at {times[best]:.4f}",
            f"token {ids[i]}, at {times[ids[i]]:.4f}",
        )


def check_small_edits(part: Any, case: Case) -> None:
    """Two tokens are equally likely, and the later one gets a little more: too little to be seen in half precision."""
    logits = torch.full((1, 64), -1.0, device=device_of(case), dtype=dtype_of(case))
    first, second = sorted(case["tokens"])
    logits[0, [first, second]] = case["value"]
    asked = [row(SamplingParams(temperature=0, logit_bias={second: case["bias"]}))]
    ids = draw(part, logits, asked)
    wanted = f"token {second}, at {case['value']} + {case['bias']} ahead of token {first} at {case['value']}"
    expect(ids == [second], wanted, f"token {ids[0]} (were the logits edited in {case['dtype']}, which rounds the edit away?)")


def check_alone(part: Any, case: Case) -> None:
    """The same alone, in another order, and when asked again."""
    logits, asked = build(case)
    together = draw(part, logits, asked)
    torch.rand(3)  # the global generator moves on, and must not matter
    expect(draw(part, logits, asked) == together, f"{together} when asked again: seed and position decide", "something else")
    for i in range(len(asked)):
        alone = draw(part, logits[i : i + 1], asked[i : i + 1])[0]
        expect(alone == together[i], f"token {together[i]} for row {i} alone, as among the others", alone)
    backwards = draw(part, logits.flip(0), asked[::-1])[::-1]
    expect(backwards == together, f"{together} whatever the order of the rows", backwards)


def check_distribution(part: Any, case: Case) -> None:
    """Chi-square of many draws, over the positions of one seed or over neighbouring seeds."""
    count, vocab = 4000, 24
    logits = torch.randn(1, vocab, generator=torch.Generator().manual_seed(case["seed"])).to(device_of(case)) * 1.5
    params = SamplingParams(temperature=case["temperature"])
    asked = [row(params, 123, 4 + i) if case["over"] == "positions" else row(params, i) for i in range(count)]
    draws = torch.tensor(draw(part, logits.expand(count, -1), asked))
    p = torch.softmax(logits[0].double().cpu() / case["temperature"], -1)
    off = chi_square(draws, p)
    seen = (torch.bincount(draws, minlength=vocab).double() / count - p).abs()
    token = int(seen.argmax())
    if off >= 5:
        share = float((draws == token).double().mean())
        raise Differs(
            f"draws over {case['over']} that follow softmax(logits / temperature): token {token} with probability {p[token]:.3f}",
            f"it was {share:.3f} of {count} draws; chi-square is {off:.0f} standard deviations off",
        )


def check_impossible(part: Any, case: Case) -> None:
    """Row 0 is of nothing but `value`; row 1 has two possible tokens; row 2 is ordinary and greedy."""
    logits = torch.randn(3, 64, generator=torch.Generator().manual_seed(case["seed"]))
    logits[0], logits[1] = float(case["value"]), -INF
    logits[1, [3, 4]] = case["largest"]
    params = SamplingParams(**case["params"])
    asked = [row(params, case["seed"]), row(params, case["seed"] + 1), row(SamplingParams(temperature=0))]
    ids = draw(part, logits.to(device_of(case), dtype_of(case)), asked)
    expect(ids[1] in (3, 4), "token 3 or 4 in row 1: all others are impossible", ids[1])
    best = int(logits[2].to(dtype_of(case)).argmax())
    expect(ids[2] == best, f"token {best} in the greedy row beside a broken one", ids[2])


def vary(case: Case, place: Place) -> dict[str, dict[Any, Case]]:
    return {
        "vocabulary": {size: {**case, "vocab": size} for size in (64, 1024, 1025, 1500)},
        "dtype": {dtype: {**case, "dtype": dtype} for dtype in place.dtypes},
        "ties": {rounded: {**case, "rounded": rounded} for rounded in (False, True)},
        "row alone": {i: {**case, "rows": [each]} for i, each in enumerate(case["rows"])},
    }


PROPERTIES = [
    Property(
        "largest",
        "Where all rows have temperature 0, each takes its largest logit, of equal ones the first.",
        lambda place: cases(place, [0], {}, ANY_SPREAD),
        check_greedy,
        60,
        vary,
    ),
    Property(
        "greedy",
        "Temperature 0 takes the largest logit, of equal ones the first, whatever the other rows do.",
        lambda place: cases(place, [0, 1.0], {}, ANY_SPREAD),
        check_greedy,
        80,
        vary,
    ),
    Property(
        "edits",
        "logit_bias, min_tokens and the penalties change the scores: repetition by prompt and output, the others by the output only.",
        lambda place: cases(place, [0], EDITS, ANY_SPREAD, few=True),
        check_greedy,
        250,
        vary,
    ),
    Property(
        "small-edits",
        "Edits count however small they are beside the logits, in any dtype.",
        small_edits,
        check_small_edits,
        30,
    ),
    Property(
        "race",
        "Seed and position decide: of the tokens that min_p, top_k and top_p leave, the first in the documented race is drawn.",
        lambda place: cases(place, [1.0, 0.5, 2.0, 0], {**FILTERS, "logit_bias": EDITS["logit_bias"]}, [1.0, 0.3, 3.0]),
        check_race,
        250,
        vary,
    ),
    Property(
        "filters",
        "Over many draws, min_p, top_k and top_p, in this order, leave the tokens that they must.",
        filtered,
        check_filtered,
        100,
    ),
    Property(
        "ties", "Of equally likely tokens top_k and top_p leave as many as they say, those with the lowest ids.", ties, check_ties, 40
    ),
    Property(
        "alone",
        "A row depends on its own logits, parameters, seed and position only.",
        lambda place: cases(place, [1.0, 0, 0.5, 1e-5, 5.0], {**FILTERS, **EDITS}, ANY_SPREAD),
        check_alone,
        200,
        vary,
    ),
    Property(
        "distribution",
        "Draws follow softmax(logits / temperature), over positions and over seeds.",
        lambda place: st.fixed_dictionaries(
            {
                "temperature": st.sampled_from([1.0, 0.5, 2.0]),
                "over": st.sampled_from(["positions", "seeds"]),
                "seed": st.integers(0, 9),
                **{name: st.just(value) for name, value in place.where.items()},
            }
        ),
        check_distribution,
        12,
    ),
    Property(
        "impossible",
        "A token of logit -inf is never taken while another is possible; a row of nothing but -inf, inf or NaN harms no other row.",
        impossible,
        check_impossible,
        100,
    ),
]
