"""Cases of the slot `sample`: rows with parameters, seeds and histories, and the logits that they sample from.

From: hypothesis. To: `minfer/testing/suites/sample.py`.
"""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from minfer.params import SamplingParams
from minfer.testing.properties import Case, Place, device_of, dtype_of
from minfer.testing.sampling import INF, Row, row

NUM_PROMPT = 4  # of each row's history
FILTERS = {"top_k": [3, 2, 8, 1, 64, 10**9], "top_p": [0.9, 0.3, 1e-9], "min_p": [0.1, 1.0]}
ANY_SPREAD = [3.0, 0.3, 30.0]
EDITS = {
    "repetition_penalty": [1.3, 0.5],
    "presence_penalty": [1.5, -0.5],
    "frequency_penalty": [0.7, -0.5],
    "min_tokens": [3],
    "logit_bias": [{"1": 4.0, "2": 5.0, "3": 5.0}, {"5": -100.0, "9999": 1.0}],
}


def rows(temperatures: list[float], options: dict[str, list], highest: int) -> st.SearchStrategy[list[Case]]:
    """Up to five rows to sample, with histories of tokens up to `highest`. params are those that are not SamplingParams' defaults."""
    params = st.fixed_dictionaries(
        {"temperature": st.sampled_from(temperatures)}, optional={name: st.sampled_from(values) for name, values in options.items()}
    )
    one = st.fixed_dictionaries(
        {
            "params": params,
            "seed": st.integers(-(2**63), 2**63 - 1),
            "history": st.lists(st.integers(0, highest), min_size=NUM_PROMPT, max_size=12),
            "stop_ids": st.sampled_from([[], [0, 7], [9999]]),
        }
    )
    return st.lists(one, min_size=1, max_size=5)


def cases(
    place: Place, temperatures: list[float], options: dict[str, list], spreads: list[float], few: bool = False
) -> st.SearchStrategy[Case]:
    """few: mostly of eight tokens, so that nearly every edit decides."""
    return st.fixed_dictionaries(
        {
            "rows": rows(temperatures, options, 7 if few else 63),
            "vocab": st.sampled_from([8, 8, 64] if few else [64, 1500]),
            "dtype": st.sampled_from(place.dtypes),
            "spread": st.sampled_from(spreads),  # standard deviation of the logits
            "mean": st.sampled_from([0.0, -10.0]),
            "rounded": st.booleans(),  # to whole numbers: many ties
            "banned": st.sampled_from([0, 2]),  # every second token is impossible (-inf)
            "seed": st.integers(0, 99),
            **{name: st.just(value) for name, value in place.where.items()},
        }
    )


def build(case: Case) -> tuple[torch.Tensor, list[Row]]:
    """Logits [S, vocab], and the rows as `sampling_tensors` takes them."""
    logits = torch.randn(len(case["rows"]), case["vocab"], generator=torch.Generator().manual_seed(case["seed"]))
    logits = logits * case["spread"] + case["mean"]
    if case["rounded"]:
        logits = logits.round()
    if case["banned"]:
        logits[:, :: case["banned"]] = -INF
    return logits.to(device_of(case), dtype_of(case)), [
        row(SamplingParams(**each["params"]), each["seed"], len(each["history"]), each["history"], NUM_PROMPT, tuple(each["stop_ids"]))
        for each in case["rows"]
    ]


def filtered(place: Place) -> st.SearchStrategy[Case]:
    """Parameters with filters, and logits to draw from many times."""
    params = st.fixed_dictionaries(
        {"temperature": st.sampled_from([1.0, 0.5, 2.0])},
        optional={
            "top_k": st.sampled_from([3, 8, 2, 20]),
            "top_p": st.sampled_from([0.9, 0.5, 0.3]),
            "min_p": st.sampled_from([0.1, 0.3]),
        },
    )
    return st.fixed_dictionaries(
        {
            "params": params,
            "vocab": st.sampled_from([64, 1500]),
            "dtype": st.sampled_from(place.dtypes),
            "spread": st.sampled_from([1.0, 2.0, 0.3]),
            "seed": st.integers(0, 99),
            **{name: st.just(value) for name, value in place.where.items()},
        }
    )


def ties(place: Place) -> st.SearchStrategy[Case]:
    """Equally likely tokens, and a filter that leaves `kept` of them; all other tokens are impossible."""
    return st.fixed_dictionaries(
        {
            "tokens": st.sampled_from([4, 2, 8, 16]).flatmap(
                lambda count: st.lists(st.integers(0, 63), min_size=count, max_size=count, unique=True).map(sorted)
            ),
            "kept": st.integers(1, 15),  # at most all but one
            "by": st.sampled_from(["top_k", "top_p"]),
            "value": st.sampled_from([0.0, 20.0, -20.0]),
            "dtype": st.sampled_from(place.dtypes),
            "seed": st.integers(0, 99),
            **{name: st.just(value) for name, value in place.where.items()},
        }
    )


def small_edits(place: Place) -> st.SearchStrategy[Case]:
    return st.fixed_dictionaries(
        {
            "tokens": st.lists(st.integers(0, 63), min_size=2, max_size=2, unique=True),
            "value": st.sampled_from([64.0, 96.0, 20.0]),
            "bias": st.sampled_from([0.005, 0.001]),
            "dtype": st.sampled_from(place.dtypes),
            **{name: st.just(value) for name, value in place.where.items()},
        }
    )


def impossible(place: Place) -> st.SearchStrategy[Case]:
    params = [{"temperature": 0}, {}, {"temperature": 1e-5}, {"temperature": 1e30}, {"top_k": 5}, {"top_p": 0.5}, {"min_p": 0.5}]
    return st.fixed_dictionaries(
        {
            "params": st.sampled_from(params),
            "value": st.sampled_from(["-inf", "inf", "nan"]),
            "largest": st.sampled_from([10.0, 1e4, -1e4]),
            "dtype": st.sampled_from(place.dtypes),
            "seed": st.integers(0, 99),
            **{name: st.just(value) for name, value in place.where.items()},
        }
    )
