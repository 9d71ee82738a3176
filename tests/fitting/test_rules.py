from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from extrap.fitting import (
    RULES,
    compare_rules,
    estimate_noise,
    estimate_optima,
    fit_optimum_law,
    fit_valley,
)
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
def test_published_rules_give_their_published_values(
    key: str, size: dict[str, float], expected: float
) -> None:
    assert RULE[key].value(size) == pytest.approx(expected, rel=0.002)


def test_compute_follows_from_parameters_and_tokens() -> None:
    rule, size = RULE["deepseek_lr"], {"n_params": 1e9, "n_tokens": 1e10}
    assert rule.value(size) == pytest.approx(rule.value({"flops": 6e19}))


@pytest.mark.parametrize(
    ("key", "expected"),
    [("constant", 0.01), ("inverse_width", 0.01 / 16), ("inverse_root_width", 0.01 / 4)],
)
def test_anchored_rules_start_at_the_anchor(key: str, expected: float) -> None:
    value = RULE[key].value({"width": 1024.0}, anchor={"width": 64.0}, anchor_value=0.01)
    assert value == pytest.approx(expected)


def test_rules_apply_to_the_columns_they_speak_of() -> None:
    applying = {
        columns: {rule.key for rule in RULES if rule.applies(columns, tuned)}
        for columns, tuned in (
            (("width",), "lr"),
            (("params", "tokens"), "batch_size_tokens"),
            (("depth",), "momentum"),
        )
    }
    assert applying == {
        ("width",): {"constant", "inverse_width", "inverse_root_width"},
        ("params", "tokens"): {"constant", "step_law_batch", "deepseek_batch"},
        ("depth",): {"constant"},
    }


def test_rule_without_its_size_or_its_anchor_is_refused() -> None:
    with pytest.raises(ValueError, match=r"needs a size column for N \(params"):
        RULE["step_law_lr"].value({"width": 64.0, "tokens": 1e9})
    with pytest.raises(ValueError, match="inverse_width needs a size and a value to start from"):
        RULE["inverse_width"].value({"width": 64.0})


def test_regret_is_what_the_valley_gives_to_the_distance_from_ours(sweep_table: Table) -> None:
    runs = read_runs(sweep_table(), size="width", tune="lr")
    optima = estimate_optima(runs, noise=estimate_noise(runs), level=0.9)
    laws, valley = {"lr": fit_optimum_law(optima, tuned="lr", columns=["width"])}, None
    valley = fit_valley(runs, optima)
    assert valley is not None
    size = {"width": 1024.0}
    table = compare_rules(laws, optima, size, valley=valley)
    assert [row.rule for row in table] == ["inverse_root_width", "constant", "inverse_width"]
    first = optima[0].tuned["lr"].value
    for row in table:
        kept = first / row.value
        exponent = {"constant": 0.0, "inverse_width": 1.0, "inverse_root_width": 0.5}[row.rule]
        assert kept == pytest.approx(64.0**exponent)
        assert row.excess == pytest.approx(valley.excess([row.octaves], size))
        # the truth falls as width^-0.4, so a rule of slope s is off by (s + 0.4) log2 64 octaves
        assert row.octaves == pytest.approx((0.4 - exponent) * np.log2(64), abs=0.25)
        assert row.expected_regret == pytest.approx(row.excess, rel=0.2, abs=0.001)


def test_our_own_value_has_no_regret(sweep_table: Table) -> None:
    runs = read_runs(sweep_table(), size="width", tune="lr")
    optima = estimate_optima(runs, noise=estimate_noise(runs), level=0.9)
    law = fit_optimum_law(optima, tuned="lr", columns=["width"], fix={"b": 0.0})
    valley = fit_valley(runs, optima)
    assert valley is not None
    anchored = [o for o in optima if o.size["width"] == 16.0]
    ours = np.exp(law.parameters["a"])
    table = compare_rules(
        {"lr": law}, anchored, {"width": 64.0}, valley=valley, rules=[RULE["constant"]]
    )
    assert table[0].octaves == pytest.approx(np.log2(anchored[0].tuned["lr"].value / ours))
    assert table[0].expected_regret > 0
