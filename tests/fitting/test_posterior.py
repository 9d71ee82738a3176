import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extrap.fitting.posterior import fit_posterior

X = 2.0 ** np.arange(8)


def fitted(log_loss, *, se=0.002, **options):
    loss = np.exp(log_loss)
    errors = None if se is None else (se * loss).tolist()
    return fit_posterior("x", X[: len(loss)].tolist(), loss.tolist(), loss_se=errors, **options)


def floor(x):
    return np.log(1.2 + 1.5 * x**-0.4)


def broken(x):
    """Flat up to 8, then a power law with a floor."""
    return np.log(0.8 + np.maximum(x / 8, 1.0) ** -0.5)


def at(found, x):
    mean, variance = found.predict_log(np.array([x]))
    return float(mean[0]), math.sqrt(float(variance[0]))


@pytest.mark.parametrize("ratio", [1.0, 4.0, 16.0])
@pytest.mark.parametrize("law", [floor, lambda x: np.log(3 * x**-0.2)])
def test_noiseless_laws_are_found(law, ratio):
    mean, sd = at(fitted(law(X)), ratio * X[-1])
    assert abs(mean - float(law(np.array([ratio * X[-1]]))[0])) < max(sd, 0.002)
    assert sd < 0.02 * ratio**0.5


def test_a_law_that_holds_from_a_later_size_on_is_found():
    found, other = fitted(broken(X)), fitted(floor(X))
    assert found.later > 0.99
    assert other.later < 0.1
    mean, sd = at(found, 512.0)
    assert abs(mean - float(broken(np.array([512.0]))[0])) < 2 * sd
    assert sd > 2 * at(other, 512.0)[1]


def test_sizes_below_the_start_of_the_law_agree_with_what_was_measured():
    found = fitted(broken(X))
    for x, y in zip(X, broken(X), strict=True):
        mean, sd = at(found, float(x))
        assert abs(mean - y) < 0.005
        assert sd < 0.005
    between = 0.5 * (broken(X)[0] + broken(X)[1])
    assert abs(at(found, float(np.sqrt(X[0] * X[1])))[0] - between) < 0.005


@pytest.mark.parametrize("fix", [{"E": 1.2}, {"c": 0.4}])
def test_a_known_parameter_narrows_the_band(fix):
    free, pinned = (at(fitted(floor(X[:4]), fix=given), 128.0)[1] for given in ({}, fix))
    assert pinned < 0.7 * free


def test_errors_without_degrees_of_freedom_count_as_hardly_known():
    y = floor(X) + 0.01 * np.sin(np.arange(8))
    assert fitted(y, loss_se_dof=0) == fitted(y, loss_se_dof=1)


def test_three_sizes_leave_a_wide_band():
    few, many = (at(fitted(floor(X[:n])), 4 * X[n - 1])[1] for n in (3, 8))
    assert few > 4 * many
    assert few < 0.1


def test_unknown_noise_is_read_from_the_scatter():
    noise = np.random.default_rng(0).normal(size=len(X))
    quiet, loud = (fitted(floor(X) + sd * noise, se=None) for sd in (0.0, 0.05))
    assert quiet.scatter < 0.01 < loud.scatter
    assert at(quiet, 1024.0)[1] < at(loud, 1024.0)[1]


def test_the_scatter_follows_the_sweep():
    """The standard deviation of a loss is taken for 1 % where a sweep does not show it."""
    noise = np.random.default_rng(2).normal(size=len(X))
    found = [fitted(floor(X) + sd * noise, se=None).scatter for sd in (0.0003, 0.01, 0.05)]
    assert found[0] < 0.002
    assert 0.003 < found[1] < 0.012
    assert found[2] > 0.015


def test_points_of_small_weight_count_less():
    spoiled = floor(X)
    spoiled[3] += 0.05
    weights = np.where(np.arange(len(X)) == 3, 1e-4, 1.0).tolist()
    truth = at(fitted(floor(X), se=None), 1024.0)[0]
    plain, weighed = (at(fitted(spoiled, se=None, weights=w), 1024.0)[0] for w in (None, weights))
    assert abs(weighed - truth) < 0.3 * abs(plain - truth)


@settings(max_examples=8)
@given(seed=st.integers(0, 1000), size=st.floats(1e-9, 1e9), unit=st.floats(-20.0, 20.0))
def test_neither_units_nor_order_matter(seed, size, unit):
    rng = np.random.default_rng(seed)
    y = floor(X) + 0.003 * rng.normal(size=len(X))
    here, order = fitted(y), rng.permutation(len(X))
    loss = np.exp(y + unit)[order]
    there = fit_posterior(
        "x", (size * X[order]).tolist(), loss.tolist(), loss_se=(0.002 * loss).tolist()
    )
    (mean, sd), (shifted, same) = at(here, 1024.0), at(there, size * 1024.0)
    assert shifted - unit == pytest.approx(mean, abs=1e-6)
    assert same == pytest.approx(sd, rel=1e-3)


@pytest.mark.parametrize("law", [floor, broken])
def test_the_band_is_continuous_in_the_data(law):
    """No test keeps or drops a law: a loss that moves by a little moves the band by as little."""
    found = []
    for off in np.linspace(-0.02, 0.02, 81):
        y = law(X)
        y[4] += off
        found.append(at(fitted(y), 1024.0))
    steps = np.abs(np.diff(found, axis=0))
    assert steps.max() < 0.1 * np.ptp(found, axis=0).max() + 0.002
