from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from extrap.fitting import (
    RULES,
    compare_rules,
    estimate_noise,
    estimate_optima,
    fit_excess_curve,
    fit_optimum_law,
)
from extrap.fitting.spread import predict_optimum
from extrap.reading import read_runs

Table = Callable[..., pd.DataFrame]
RULE = {rule.key: rule for rule in RULES}


@pytest.mark.parametrize(
    ("key", "size", "expected"),
    [
        # Li et al. 2025, arXiv 2503.04715, Eq. 1 at 1B / 100B and 7B / 1.4T
        ("step_law_lr", {"params": 1e9, "tokens": 1e11}, 1.632e-3),
        ("step_law_lr", {"params": 7e9, "tokens": 1.4e12}, 9.17e-4),
        ("step_law_batch", {"tokens": 1e11}, 1.108e6),
        ("step_law_batch", {"tokens": 1.4e12}, 5.0e6),
        # Bi et al. 2024, arXiv 2401.02954, Eq. 1 at C = 1e20
        ("deepseek_lr", {"flops": 1e20}, 9.86e-4),
        ("deepseek_batch", {"flops": 1e20}, 1.017e6),
    ],
)
def test_published_rules_give_their_published_values(key, size, expected):
    assert RULE[key].value(size) == pytest.approx(expected, rel=0.002)


def test_a_rule_says_nothing_where_no_float_holds_its_value() -> None:
    """From e to the 300th power on, up or down."""
    rule = RULE["inverse_root_width"]
    for log, is_beyond in ((599, False), (601, True), (-599, False), (-601, True)):
        assert rule.is_beyond({"width": 8.0}, {"width": math.exp(log)}) is is_beyond


def test_compute_follows_from_parameters_and_tokens() -> None:
    rule, size = RULE["deepseek_lr"], {"n_params": 1e9, "n_tokens": 1e10}
    assert rule.value(size) == pytest.approx(rule.value({"flops": 6e19}))


def test_regret_is_what_the_excess_curve_gives_to_the_distance_from_ours(
    sweep_table: Table,
) -> None:
    runs = read_runs(sweep_table(), size="width", tune="lr")
    optima = estimate_optima(runs, noise=estimate_noise(runs), level=0.9)
    laws = {"lr": fit_optimum_law(optima, tuned="lr", columns=["width"])}
    excess_curve, size = fit_excess_curve(runs, optima), {"width": 1024.0}
    assert excess_curve is not None
    spread = predict_optimum(laws, size, excess_curve)
    table = compare_rules(spread, optima)
    assert [row.rule for row in table] == ["inverse_root_width", "constant", "inverse_width"]
    assert compare_rules(spread, []) == ()
    first = optima[0].tuned["lr"].value
    for row in table:
        kept = first / row.value
        exponent = {"constant": 0.0, "inverse_width": 1.0, "inverse_root_width": 0.5}[row.rule]
        assert kept == pytest.approx(64.0**exponent)
        # the truth falls as width^-0.4, so a rule of slope s is off by (s + 0.4) log2 64 octaves
        assert row.octaves == pytest.approx((0.4 - exponent) * np.log2(64), abs=0.25)
        known = excess_curve.excess([row.octaves], size)
        assert row.expected_regret == pytest.approx(known, rel=0.2, abs=0.001)
