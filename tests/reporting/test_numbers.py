"""How numbers are written."""

import math

import pytest

from extrap.records import Interval
from extrap.reporting import numbers
from extrap.reporting.numbers import NBSP


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1.74861, 0.01323, "1.749 ± 0.013"),
        (1.74861, 0.0996, "1.75 ± 0.10"),
        (0.0026061, 0.000368, "0.00261 ± 0.00037"),
        (-4.8188, 0.0368, "−4.819 ± 0.037"),
        (123456.0, 2345.0, "123500 ± 2300"),
        (2.6061e-5, 3.68e-6, "(2.61 ± 0.37)e−5"),
        (1.2346e8, 2.3e6, "(1.235 ± 0.023)e8"),
        (1.74861, None, "1.749"),
        (1.74861, 0.0, "1.749"),
        (None, 0.1, "unknown"),
        (float("nan"), None, "unknown"),
    ],
)
def test_two_digits_of_the_error_decide_how_a_value_is_written(value, error, text):
    assert numbers.format_value(value, error) == text


@pytest.mark.parametrize(
    ("lower", "upper", "text"),
    [
        (1.65232, 1.79541, "1.652 to 1.795"),
        (0.0017811, 0.0038131, "0.00178 to 0.00381"),
        (None, 1.9, "at most 1.900"),
        (1.9, None, "at least 1.900"),
        (None, None, "unknown"),
    ],
)
def test_an_interval_says_when_a_side_is_open(lower, upper, text):
    assert numbers.format_interval(Interval(lower, upper)) == text


@pytest.mark.parametrize(
    ("value", "interval", "text"),
    [
        (1.749, Interval(1.671, 1.83), "1.749 (1.671 to 1.830)"),
        (2.17, Interval(0.77, 5400.0), "2.2 (0 to 5400)"),
        (1.749, Interval(1.671, None), "1.749 (at least 1.671)"),
        (None, Interval(1.671, 1.83), "1.671 to 1.830"),
    ],
)
def test_a_value_keeps_two_digits_however_wide_its_interval(value, interval, text):
    assert numbers.format_estimate(value, interval) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1024.0, "1024"),
        (1.3e9, "1.3B"),
        (0.0026061, "0.00261"),
        (0.02, "0.02"),
        (2.6e-5, "2.6e−5"),
        (174992.4, "175000"),
        (1024.5, "1024"),
        (380.4, "380"),
        (None, "not known"),
    ],
)
def test_sizes_and_tuned_values_are_written_to_be_recognised(value, text):
    assert numbers.format_quantity(value) == text


@pytest.mark.parametrize(
    ("excess", "text"),
    [(0.0, "0"), (1e-5, "0"), (0.0012, "0.12"), (0.01, "1.0"), (0.0942, "9.9"), (0.2, "22")],
)
def test_costs_are_percents_of_two_digits(excess, text):
    assert numbers.format_cost(excess) == f"{text}{NBSP}%"
    if excess >= 0.0095:
        assert numbers.format_cost(math.log(2 - math.exp(excess))) == f"−{text}{NBSP}%"


def test_percents_carry_their_sign_and_few_digits():
    assert numbers.format_percent(0.0123) == f"+1.2{NBSP}%"
    assert numbers.format_percent(-0.234) == f"−23{NBSP}%"
    assert numbers.format_percent(0.234, signed=False) == f"23{NBSP}%"


def test_small_p_values_are_only_bounded():
    assert numbers.format_p_value(1e-9) == f"<{NBSP}0.001"
    assert numbers.format_p_value(0.0123) == "0.012"
    assert numbers.format_p_value(0.456) == "0.46"
    assert numbers.format_p_value(None) == "–"
