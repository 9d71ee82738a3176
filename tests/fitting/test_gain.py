"""The posterior of a gain, against integration by hand and simulated pairs."""

import itertools

import numpy as np
import pytest
from scipy import integrate, stats

from extrap.fitting import gain
from extrap.fitting.gain import Pairs, fit_gain

U = np.array([0.0, 2.0, 4.0, 6.0])


class fitted:
    """The law of gains, asked by doublings from the smallest size."""

    def __init__(self, u, gains, *, n_pairs=1, **more):
        sizes = 2.0 ** np.asarray(u, dtype=float).reshape(len(u), -1)
        columns = ("x", "y")[: sizes.shape[1]]
        n_pairs = [n_pairs] * len(u)
        self.columns = columns
        self.law = fit_gain(
            Pairs(columns=columns, sizes=sizes, gains=list(gains), n_pairs=n_pairs, **more)
        )

    def predict(self, *doublings):
        return self.law.predict(dict(zip(self.columns, 2.0 ** np.array(doublings), strict=True)))


@pytest.fixture
def _one_straight_shape(monkeypatch):
    monkeypatch.setattr(gain, "DECAY_RATES", (0.0,))
    monkeypatch.setattr(gain, "BEND_SDS", {0.0: 1.0})
    monkeypatch.setattr(gain, "SEED_VARIANCE_RATIO", 0.0)


@pytest.mark.usefixtures("_one_straight_shape")
def test_of_one_shape_and_a_known_scatter_it_is_the_line_of_least_squares(monkeypatch):
    """With priors so wide that they do not matter."""
    monkeypatch.setattr(gain, "SCATTER_GRID", np.array([0.001]))
    monkeypatch.setattr(gain, "PER_DOUBLING", {10.0: 1.0})
    monkeypatch.setattr(gain, "GAIN_SD", 10.0)
    seen = np.array([0.011, 0.012, 0.009, 0.010])
    found = fitted(U, seen).predict(9.0)
    line = stats.linregress(U, seen)
    assert found.mean == pytest.approx(line.intercept + 9 * line.slope, rel=1e-4)
    spread = ((U - U.mean()) ** 2).sum()
    sd = 0.001 * np.sqrt(1 / 4 + (9 - U.mean()) ** 2 / spread)
    ends = found.mean + sd * stats.norm.ppf([0.05, 0.95])
    assert tuple(found.interval(0.9)) == pytest.approx(ends, rel=1e-4)


@pytest.mark.usefixtures("_one_straight_shape")
def test_the_scatter_is_averaged_by_its_prior_and_the_pairs(monkeypatch):
    """One shape; the density of the gain at the largest size, integrated over the scatter."""
    monkeypatch.setattr(gain, "PER_DOUBLING", {1e-9: 1.0})
    monkeypatch.setattr(gain, "SCATTER_GRID", np.geomspace(0.0002, 0.1, 400))
    seen = np.array([0.010, 0.013, 0.008, 0.011])
    found = fitted(U, seen, n_pairs=2, squares=4 * 0.002**2, dof=4).predict(6.0)
    square = float(((seen - seen.mean()) ** 2).sum())
    prior, prior_dof = gain.SCATTER, gain.SCATTER_DOF

    def density(log_s):
        s = np.exp(log_s)  # flat prior of the gain, 4 means of two pairs, their squares
        power = -2 * square / (2 * s**2) - (prior_dof * prior**2 + 4 * 0.002**2) / (2 * s**2)
        return s ** -(prior_dof + 4 + 3) * np.exp(power)

    total = integrate.quad(density, -9, -2)[0]
    variance = integrate.quad(lambda v: density(v) * np.exp(2 * v) / 8, -9, -2)[0] / total
    own = found.weights @ (found.sds**2 + (found.means - found.mean) ** 2)
    assert found.mean == pytest.approx(seen.mean(), rel=1e-3)
    assert own == pytest.approx(variance, rel=0.02)


@pytest.mark.usefixtures("_one_straight_shape")
def test_a_slope_that_wanders_widens_by_the_cube_of_the_distance(monkeypatch):
    """Beyond the sizes the variance of an integrated Brownian motion is s² u³ / 3."""
    monkeypatch.setattr(gain, "SCATTER_GRID", np.array([0.001]))
    straight = fitted(U, 0.01 + 0 * U).predict(10.0)
    monkeypatch.setattr(gain, "BEND_SDS", {0.002: 1.0})
    monkeypatch.setattr(gain, "PER_DOUBLING", {1e-9: 1.0})
    monkeypatch.setattr(gain, "GAIN_SD", 1e-9)
    bent = fitted(U, 0.01 + 0 * U).predict(10.0)
    assert bent.sds == pytest.approx(0.002 * np.sqrt(4.0**3 / 3), rel=1e-4)
    assert straight.sds.max() < bent.sds.min()


def test_a_seed_common_to_all_sizes_is_not_averaged_away():
    many = np.arange(0.0, 24, 2)
    one, four = (fitted(many, 0 * many, n_pairs=n).predict(22.0) for n in (1, 4))
    ends = [each.interval(0.9).upper for each in (one, four)]
    assert ends[0] == pytest.approx(2 * ends[1], rel=0.3)


def test_a_gain_that_shrinks_is_not_forecast_to_turn():
    """1 % that halves every four doublings: a line through the last sizes would say it hurts."""
    seen = 0.01 * 2.0 ** (-0.25 * U)
    found, line = fitted(U, seen).predict(14.0), stats.linregress(U, seen)
    assert 0.01 * 2.0 ** (-0.25 * 14) in found.interval(0.9)
    assert line.intercept + 14 * line.slope < -0.004 < found.quantile(0.25)


@pytest.mark.parametrize("beyond", [3.3, 8.2])
def test_intervals_hold_over_gains_that_stay_shrink_or_go(beyond):
    rng, held = np.random.default_rng(1), []
    for i in range(300):
        u = 2.0 * np.arange(int(rng.integers(3, 7)))
        size, rate = rng.uniform(0, 0.03), (0.0, 0.08, 0.2)[i % 3]
        noise = np.exp(rng.uniform(np.log(0.0005), np.log(0.01)))
        seen = size * 2.0 ** (-rate * u) + noise * np.sqrt(2) * rng.normal(size=len(u))
        found = fitted(u, seen).predict(u[-1] + beyond)
        held.append(size * 2.0 ** (-rate * (u[-1] + beyond)) in found.interval(0.9))
    assert 0.82 <= np.mean(held) <= 0.98


GRID = np.array([*itertools.product((0.0, 1.5, 3.0), (0.0, 2.0))])


@pytest.mark.usefixtures("_one_straight_shape")
def test_over_two_columns_it_is_the_plane_of_least_squares(monkeypatch):
    """With priors so wide that they do not matter."""
    monkeypatch.setattr(gain, "SCATTER_GRID", np.array([0.001]))
    monkeypatch.setattr(gain, "PER_DOUBLING", {10.0: 1.0})
    monkeypatch.setattr(gain, "GAIN_SD", 10.0)
    seen = 0.01 + GRID @ [0.001, -0.0005] + 0.001 * np.random.default_rng(2).normal(size=6)
    found = fitted(GRID, seen).predict(5.0, 7.0)
    design, goal = np.column_stack([np.ones(6), GRID]), np.array([1.0, 5.0, 7.0])
    inverse = np.linalg.inv(design.T @ design)
    mean, sd = goal @ inverse @ design.T @ seen, 0.001 * np.sqrt(goal @ inverse @ goal)
    ends = mean + sd * stats.norm.ppf([0.05, 0.95])
    assert tuple(found.interval(0.9)) == pytest.approx(ends, rel=1e-3)


def test_sizes_that_grow_in_both_columns_have_the_prior_of_one():
    """A ladder with a slight bend in its second column is nearly a ladder of the first."""
    seen, bent = [0.012, 0.010, 0.0095, 0.008], np.array([0, 2.01, 3.99, 6.0])
    one = fitted(U, seen).predict(9.0)
    both = fitted(np.column_stack([U, bent]), seen).predict(9.0, 9.0)
    assert both.mean == pytest.approx(one.mean, rel=0.02)
    assert both.interval(0.9) == pytest.approx(one.interval(0.9), rel=0.05)


@pytest.mark.usefixtures("_one_straight_shape")
def test_beyond_in_one_column_widens_by_what_that_column_wanders(monkeypatch):
    monkeypatch.setattr(gain, "SCATTER_GRID", np.array([0.001]))
    monkeypatch.setattr(gain, "BEND_SDS", {0.002: 1.0})
    monkeypatch.setattr(gain, "PER_DOUBLING", {1e-9: 1.0})
    monkeypatch.setattr(gain, "GAIN_SD", 1e-9)
    law = fitted(GRID, 0.01 + 0 * GRID[:, 0])
    for goal, cubes in (((3.0, 6.0), 4.0**3), ((5.0, 6.0), 2.0**3 + 4.0**3)):
        assert law.predict(*goal).sds == pytest.approx(0.002 * np.sqrt(cubes / 6), rel=1e-4)


@pytest.mark.usefixtures("_one_straight_shape")
@pytest.mark.parametrize("u", [U[:, None], GRID])
def test_measured_gains_wander_as_integrated_brownian_motions(monkeypatch, u):
    """Of a gain without a slope: its mean at the largest size, from covariances by quadrature."""
    monkeypatch.setattr(gain, "SCATTER_GRID", np.array([0.001]))
    monkeypatch.setattr(gain, "BEND_SDS", {0.002: 1.0})
    monkeypatch.setattr(gain, "PER_DOUBLING", {1e-9: 1.0})
    seen = 0.01 * np.sin(np.arange(len(u)))

    def covariance(s, t):
        return integrate.quad(lambda x: (s - x) * (t - x), 0, min(s, t))[0]

    off, variance = u.max(axis=0) - u, 0.002**2 / u.shape[1]
    wander = [[sum(map(covariance, a, b)) for b in off] for a in off]
    errors = 0.001**2 * np.eye(len(u)) + variance * np.array(wander)
    prior, ones = gain.GAIN_SD**2, np.ones(len(u))
    expected = prior * ones @ np.linalg.solve(errors + prior * np.outer(ones, ones), seen)
    assert fitted(u, seen).predict(*u.max(axis=0)).mean == pytest.approx(expected, rel=1e-6)


def test_intervals_over_two_columns_hold():
    rng, held = np.random.default_rng(4), []
    for _ in range(200):
        level, slopes = rng.uniform(0, 0.03), rng.normal(0, 0.003, size=2)
        noise = np.exp(rng.uniform(np.log(0.0005), np.log(0.01)))
        seen = level + GRID @ slopes + noise * np.sqrt(2) * rng.normal(size=6)
        goal = np.array([3.0, 2.0]) + rng.choice([0.0, 2.0], size=2)
        held.append(level + goal @ slopes in fitted(GRID, seen).predict(*goal).interval(0.9))
    assert 0.82 <= np.mean(held) <= 0.98


def test_a_large_gain_may_bend_and_a_usual_one_need_not(monkeypatch):
    """12 % that goes by 1.5 % a doubling; 2 % that goes by .25 %."""
    widths = []
    for sd in (0.0, gain.LARGE_BEND_SD):
        monkeypatch.setattr(gain, "LARGE_BEND_SD", sd)
        ends = [fitted(U, t * (0.02 - 0.0025 * U)).predict(14.0).interval(0.9) for t in (1, 6)]
        widths.append([upper - lower for lower, upper in ends])
    assert widths[1][0] == widths[0][0]
    assert widths[1][1] > 1.05 * widths[0][1]
