"""The posterior of a gain, against integration by hand and simulated pairs."""

import numpy as np
import pytest
from scipy import integrate, stats

from extrap.analyses.comparison import gain
from extrap.analyses.comparison.gain import fit_gain

U = np.array([-6.0, -4.0, -2.0, 0.0])


def test_of_one_shape_and_a_known_scatter_it_is_the_line_of_least_squares(monkeypatch):
    """With priors so wide that they do not matter."""
    monkeypatch.setattr(gain, "RATES", (0.0,))
    monkeypatch.setattr(gain, "SCATTERS", np.array([0.001]))
    monkeypatch.setattr(gain, "PER_DOUBLING", 10.0)
    monkeypatch.setattr(gain, "ANY", 10.0)
    seen = np.array([0.011, 0.012, 0.009, 0.010])
    found = fit_gain(U, seen, [1, 1, 1, 1]).at(3.0)
    line = stats.linregress(U, seen)
    assert found.mean == pytest.approx(line.intercept + 3 * line.slope, rel=1e-4)
    spread = ((U - U.mean()) ** 2).sum()
    sd = 0.001 * np.sqrt(1 / 4 + (3 - U.mean()) ** 2 / spread)
    ends = found.mean + sd * stats.norm.ppf([0.05, 0.95])
    assert tuple(found.interval(0.9)) == pytest.approx(ends, rel=1e-4)


def test_the_scatter_is_averaged_by_its_prior_and_the_pairs(monkeypatch):
    """One shape; the density of the gain at the largest size, integrated over the scatter."""
    monkeypatch.setattr(gain, "RATES", (0.0,))
    monkeypatch.setattr(gain, "PER_DOUBLING", 1e-9)
    monkeypatch.setattr(gain, "SCATTERS", np.geomspace(0.0002, 0.1, 400))
    seen = np.array([0.010, 0.013, 0.008, 0.011])
    found = fit_gain(U, seen, [2, 2, 2, 2], squares=4 * 0.002**2, dof=4).at(0.0)
    square = float(((seen - seen.mean()) ** 2).sum())

    def density(log_s):
        s = np.exp(log_s)  # flat prior of the gain, 4 means of two pairs, 4 + 3 squares
        power = -2 * square / (2 * s**2) - (3 * 0.002**2 + 4 * 0.002**2) / (2 * s**2)
        return s ** -(3 + 4 + 3) * np.exp(power)

    total = integrate.quad(density, -9, -2)[0]
    variance = integrate.quad(lambda v: density(v) * np.exp(2 * v) / 8, -9, -2)[0] / total
    own = found.weights @ (found.sds**2 + (found.means - found.mean) ** 2)
    assert found.mean == pytest.approx(seen.mean(), rel=1e-3)
    assert own == pytest.approx(variance, rel=0.02)


def test_a_gain_that_shrinks_is_not_forecast_to_turn():
    """1 % that halves every two doublings: a line through the last sizes would say it hurts."""
    seen = 0.01 * 2.0 ** (-0.25 * (U - U[0]))
    law = fit_gain(U, seen, [1, 1, 1, 1])
    truth = 0.01 * 2.0 ** (-0.25 * (8 - U[0]))
    found = law.at(8.0)
    assert truth in found.interval(0.9)
    assert found.chance_below(0.0) < 0.95


@pytest.mark.parametrize("doublings", [3.3, 8.2])
def test_intervals_hold_over_gains_that_stay_shrink_or_go(doublings):
    rng, held = np.random.default_rng(1), []
    for i in range(300):
        n = int(rng.integers(3, 7))
        u = 2.0 * np.arange(1 - n, 1)
        size, rate = rng.uniform(0, 0.03), (0.0, 0.08, 0.2)[i % 3]
        noise = np.exp(rng.uniform(np.log(0.0005), np.log(0.01)))
        seen = size * 2.0 ** (-rate * (u - u[0])) + noise * np.sqrt(2) * rng.normal(size=n)
        found = fit_gain(u, seen, [1] * n).at(doublings)
        held.append(size * 2.0 ** (-rate * (doublings - u[0])) in found.interval(0.9))
    assert 0.82 <= np.mean(held) <= 0.97
