"""Settings that have one value at each size."""

import math

import pytest

from extrap.records.settings import Setting, horizon_of


def setting(role="tokens", amount=20.0, **powers):
    return Setting(role=role, column="tokens", amount=amount, powers=powers)


def test_a_setting_is_its_amount_times_powers_of_the_size():
    assert setting(amount=2e9).value({"width": 64.0}) == 2e9
    assert setting(params=1.0).value({"params": 1e8}) == pytest.approx(2e9)
    assert setting(amount=None).value({"params": 1e8}) is None


@pytest.mark.parametrize(("times", "is_same"), [(1.09, True), (1 / 1.09, True), (1.11, False)])
def test_amounts_within_a_tenth_are_one(times, is_same):
    assert setting(params=1.0).is_at({"params": 1e8}, times * 2e9) is is_same


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_what_is_no_amount_is_not_that_of_the_sweep(value):
    assert not setting(amount=2e9).is_at({}, value)


def test_tokens_say_how_long_a_run_trains_before_steps_do():
    steps, tokens = setting("steps"), setting("tokens")
    assert horizon_of([setting("batch"), steps, tokens]) is tokens
    assert horizon_of([setting("batch"), steps]) is steps
    assert horizon_of([setting("batch")]) is None
