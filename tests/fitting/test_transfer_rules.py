"""Published rules for tuned values, and what following them costs."""

import math
from dataclasses import replace

import numpy as np
import pytest

from extrap.fitting.transfer_rules import RULES, cost_of_rules, values_of_rules, without_repeats
from extrap.records import Estimate, Interval
from extrap.records.settings import Setting
from tests.checking.byhand import LARGE, by_hand, lr_at, optimum

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
    values = made.values_at(LARGE)
    said = values_of_rules(LARGE, made.optima, {})
    rules = cost_of_rules(values, said)
    assert [rule.rule for rule in rules] == ["inverse_root_width", "inverse_width", "constant"]
    spread = (0.26 / math.log(2)) ** 2
    octaves = {"inverse_root_width": 0.0, "inverse_width": -3.0, "constant": 3.0}
    for rule in rules:
        off = octaves[rule.rule]
        assert rule.value == pytest.approx(lr_at(1024) * 2**off)
        assert rule.octaves == pytest.approx(off, abs=0.01)
        assert rule.expected_regret == pytest.approx(0.02 * (off**2 + spread), rel=0.02)
    assert np.all(np.diff([rule.expected_regret for rule in rules]) >= 0)


def optimum_at(size, **tuned):
    estimates = {
        name: Estimate(value=v, se=None, ci=Interval(), pi=Interval()) for name, v in tuned.items()
    }
    return replace(optimum(16.0), size=size, tuned=estimates)


SMALL, TARGET = {"params": 1e7, "tokens": 1e9}, {"params": 1e9, "tokens": 1e11}


def said(size=TARGET, small=SMALL, settings=(), recommended=None, **tuned):
    rules = values_of_rules(size, [optimum_at(small, **tuned)], recommended or {}, settings)
    return {(rule, name): value for rule, name, value in rules}


def setting(role, column, amount, **powers):
    return Setting(role=role, column=column, amount=amount, powers=powers)


def test_rules_of_the_horizon_move_a_value_by_their_powers():
    """100 times the parameters and the tokens."""
    rules = said(lr=0.01)
    assert rules["inverse_root_tokens", "lr"] == pytest.approx(0.001)
    assert rules["bjorck_tokens", "lr"] == pytest.approx(0.01 * 100**-0.32)
    assert rules["bjorck", "lr"] == pytest.approx(0.01 * 100**-0.55)
    assert rules["step_law_tokens", "lr"] == pytest.approx(0.01 * 100**0.307)
    assert said(batch_size=64.0)["power_lines_batch", "batch_size"] == pytest.approx(
        64 * 100**0.383
    )


def test_a_constant_timescale_follows_what_else_moves():
    """λ ∝ B / (η D): 8 times the batch and a quarter of the rate over 100 times the tokens."""
    tuned = {"lr": 0.01, "weight_decay": 0.5, "batch_size": 64.0}
    advised = {"lr": 0.0025, "batch_size": 512.0, "weight_decay": 0.3}
    rules = said(recommended=advised, **tuned)
    assert rules["constant_timescale", "weight_decay"] == pytest.approx(0.5 * 8 * 4 / 100)
    assert rules["constant_timescale", "lr"] == pytest.approx(0.01 * 8 / (0.6 * 100))
    assert rules["fitted", "lr"] == 0.0025


def test_a_fixed_setting_moves_a_timescale_as_it_follows_the_size():
    """The batch grows as the root of the parameters: tenfold."""
    batch, decay = setting("batch", "batch_size", 1.0, params=0.5), setting("decay", "wd", 0.1)
    rule = "constant_timescale", "lr"
    assert said(settings=[batch, decay], lr=0.01)[rule] == pytest.approx(0.001)
    unknown = setting("batch", "batch_size", None)
    assert rule not in said(settings=[unknown, decay], lr=0.01)
    assert rule not in said(settings=[batch], lr=0.01)


def test_power_lines_lets_the_timescale_fall_with_tokens_per_parameter():
    size = {"params": 1e7, "tokens": 1e11}
    rule = said(size, weight_decay=0.5)["power_lines_decay", "weight_decay"]
    assert rule == pytest.approx(0.5 * 100**-1 * 100**0.527)


def test_tokens_that_follow_the_size_move_rules_too_and_constant_ones_none():
    size, small = {"params": 1e9}, {"params": 1e7}
    tied = setting("tokens", "tokens", 20.0, params=1.0)
    rules = said(size, small, [tied], lr=0.01)
    assert rules["inverse_root_tokens", "lr"] == pytest.approx(0.001)
    constant = setting("tokens", "tokens", 2e9)
    rules = said(size, small, [constant], lr=0.01)
    assert rules["inverse_root_tokens", "lr"] == pytest.approx(0.01)
    whole = values_of_rules(size, [optimum_at(small, lr=0.01)], {}, [constant])
    assert {rule.rule for rule in without_repeats(whole)} == {
        *("constant", "bjorck", "step_law_lr", "deepseek_lr")
    }
