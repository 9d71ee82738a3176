"""Tuned columns that do not matter, and optima beyond the values: what a forecast says of them."""

import re

import numpy as np
import pytest

import extrap
from tests.fitting.planted import LR, WEIGHT_DECAY, draw, draw_edge, no_cost

TUNED = ("lr", "weight_decay")
FLAG = re.compile(r"flat-weight_decay: any from (\S+) to (\S+) does as well, within (\S+) %")


def forecast(table, tune=TUNED):
    return extrap.forecast(table, size="width", tune=tune)


def flat_part(made):
    """log10 of the ends of the range that is called flat, and what its worst value costs."""
    (found,) = [match for match in map(FLAG.fullmatch, made.flags) if match]
    low, high, percent = (float(text.replace("−", "-")) for text in found.groups())
    return np.log10([low, high]), percent


def best_rate(place):
    """Over log2 of the size above the smallest one."""
    return 2.0 ** (-7.5 - 0.3 * place)


def drawn(cost, seed=0, *, noise=0.01, n_samples=0):
    rng = np.random.default_rng(seed)
    options = {"decay_cost": cost, "noise": (noise, noise), "n_samples": n_samples}
    return draw(rng, lr_optimum=lambda place: np.log2(best_rate(place)), **options)


@pytest.mark.parametrize("n_samples", [0, 40])
def test_a_column_that_does_nothing_is_flat_from_end_to_end(n_samples):
    """Over a grid, or at 40 random values for each size."""
    table = drawn(no_cost, n_samples=n_samples, noise=0.003)
    made = forecast(table)
    ends, percent = flat_part(made)
    whole = np.log10([table["weight_decay"].min(), table["weight_decay"].max()])
    assert np.ptp(ends) > 0.6 * np.ptp(whole)
    assert whole[0] - 0.01 <= ends[0] < ends[1] <= whole[1] + 0.01
    assert percent <= 0.3
    point = made.at(512)
    assert not point.refusals
    rate = point.tuned["lr"]
    assert rate.pi.lower < best_rate(5.0) < rate.pi.upper
    assert rate.value == pytest.approx(best_rate(5.0), rel=0.35)


@pytest.mark.parametrize("side", [1, -1])
def test_a_plateau_ends_where_values_cost_something(side):
    """1 % per squared octave from the fourth of five decades on, or from the second downwards."""
    edge = np.log2(WEIGHT_DECAY[3 if side > 0 else 1])
    table = drawn(lambda octaves, _: 0.01 * np.maximum(side * (octaves - edge), 0.0) ** 2)
    ends, _ = flat_part(forecast(table))
    costly = side * (ends - edge / np.log2(10))
    assert costly.max() < 0.35  # a decade beyond costs 11 %
    assert np.ptp(ends) > 1.0


def test_a_column_that_matters_is_not_flat():
    """Of 1 % per squared octave .3 % are half an octave either way."""
    table = drawn(lambda octaves, _: 0.01 * (octaves + 10) ** 2)
    made = forecast(table)
    assert not [flag for flag in made.flags if flag.startswith("flat-")]
    best = made.at(512).tuned["weight_decay"]
    assert best.pi.lower < 2.0**-10 < best.pi.upper


def test_what_noise_may_hide_is_not_called_flat():
    """One learning rate, three seeds and 30 % noise."""
    table = drawn(no_cost, noise=0.3)
    table = table[table["lr"] == LR[3]].drop(columns="lr")
    assert not [flag for flag in forecast(table, "weight_decay").flags if flag.startswith("flat-")]


def test_a_single_flat_column_is_given_at_every_size():
    table = drawn(no_cost, noise=0.003)
    table = table[table["lr"] == LR[3]].drop(columns="lr")
    made = forecast(table, "weight_decay")
    flat_part(made)
    for width in (512, 2048):
        point = made.at(width)
        assert not point.refusals
        assert point.recommendation.expected_cost < 0.003


def test_values_that_diverge_are_not_flat():
    table = drawn(no_cost)
    table["loss"] = table["loss"].where(table["weight_decay"] < 0.01, np.inf)
    made = forecast(table)
    flags = [flag for flag in made.flags if flag.startswith("flat-")]
    assert not flags or flat_part(made)[0][1] < -1.5
    advised = made.values_at({"width": 512.0}).recommendation
    assert advised.tuned["weight_decay"] < 0.01
    assert advised.chance_of_divergence < 0.05


def test_an_optimum_beyond_the_values_of_some_sizes_has_a_flag():
    flags = forecast(draw_edge(np.random.default_rng([1, 0]))).flags
    assert [flag for flag in flags if flag.startswith("optimum-not-bracketed-everywhere: at ")]
    plain = forecast(draw(np.random.default_rng([2, 0]), noise=(0.003, 0.003))).flags
    assert not [flag for flag in plain if flag.startswith("optimum-not-bracketed")]
