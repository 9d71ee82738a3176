"""Published rules for tuned values, and what following them costs."""

import math

import numpy as np
import pytest

from extrap.fitting.transfer_rules import RULES, compare_rules
from tests.checking.byhand import LARGE, by_hand, lr_at

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


def test_a_rule_says_nothing_where_no_float_holds_its_value():
    """From e to the 300th power on, up or down."""
    rule = RULE["inverse_root_width"]
    for log, is_beyond in ((599, False), (601, True), (-599, False), (-601, True)):
        assert rule.is_beyond({"width": 8.0}, {"width": math.exp(log)}) is is_beyond


def test_compute_follows_from_parameters_and_tokens():
    rule, size = RULE["deepseek_lr"], {"n_params": 1e9, "n_tokens": 1e10}
    assert rule.value(size) == pytest.approx(rule.value({"flops": 6e19}))


def test_a_rule_costs_what_its_distance_does():
    """From width 16 to 1024 the best rate falls by three octaves, as the inverse root does."""
    made = by_hand()
    rules = compare_rules(made.values_at(LARGE), made.optima)
    assert [rule.rule for rule in rules] == ["inverse_root_width", "inverse_width", "constant"]
    spread = (0.26 / math.log(2)) ** 2
    octaves = {"inverse_root_width": 0.0, "inverse_width": -3.0, "constant": 3.0}
    for rule in rules:
        off = octaves[rule.rule]
        assert rule.value == pytest.approx(lr_at(1024) * 2**off)
        assert rule.octaves == pytest.approx(off, abs=0.01)
        assert rule.expected_regret == pytest.approx(0.02 * (off**2 + spread), rel=0.02)
    assert np.all(np.diff([rule.expected_regret for rule in rules]) >= 0)
