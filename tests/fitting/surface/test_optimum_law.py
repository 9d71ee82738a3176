"""The law of an optimum over size: written out of draws, pinned, and bent."""

import math

import numpy as np
import pandas as pd
import pytest

import extrap
from benchmarks.sweeps import make_table, simulate, true_lr
from extrap.fitting.surface.fitted_sizes import fit_sweep
from extrap.fitting.surface.optimum_law import (
    LAW_BENDS,
    check_curvature,
    law_of_optimum,
    slope_draws,
)
from extrap.forecasting.documents import load_forecast, save_forecast
from tests.checking.byhand import of_rate

WIDTHS = 16.0 * 2.0 ** np.arange(6)


def fitted(table, *, size=("width",), pinned=None):
    runs = extrap.read_runs(table, size=list(size), tune="lr").in_order()
    pins = None if pinned is None else {"lr": pinned}
    return fit_sweep(runs, level=0.9, pinned=pins).draws


def law_of(draws, *, size=("width",), **fixed):
    return law_of_optimum(draws, 0, size, fixed=fixed)


def sweep_of(bend, *, seed=0, noise=0.003):
    """The best rate at six widths, with a second derivative of its logarithm in log width."""
    middle = np.log(WIDTHS).mean()

    def best(width):
        x = np.log(width) - middle
        return np.exp(-4 - 0.4 * x + bend / 2 * x**2)

    axes = {"width": WIDTHS, "lr": 2.0 ** np.arange(-12, -2), "seed": range(2)}
    options = {"optimum": best, "noise": noise, "rng": seed}
    return simulate(lambda width: 1 + 8 / width, **options, **axes), best


@pytest.fixture(scope="module")
def table():
    return make_table(noise=0.004, seed=1)


def test_law_has_the_true_exponent_within_its_error(table):
    """The made-up best rate falls as width^-.4 through .01 at 16."""
    law = law_of(fitted(table))
    se = np.sqrt(np.diag(law.covariance))
    truth = (math.log(true_lr(law.reference[0])), -0.4, 0.0)
    assert law.names == ("a", "b", "bend")
    assert np.abs((np.array(law.values) - truth) / se).max() < 3
    assert 0 < se[1] < 0.05
    assert law.reference == pytest.approx([np.exp(np.log(table["width"].unique()).mean())])
    assert (law.fitted_range, law.n_points) == (((16.0, 192.0),), 5)
    assert law.flags == ()


def test_exponents_of_two_sizes_are_recovered():
    """Step Law: −.713 and .307 of parameters and tokens."""
    rates = 2.0 ** np.arange(-13, -5)
    axes = {"params": (1e8, 3e8, 1e9), "tokens": (1e9, 1e10, 1e11), "lr": rates}

    table = simulate(
        lambda params, tokens: 1.5 + 400 / params**0.34,
        optimum=lambda params, tokens: 1.79 * params**-0.713 * tokens**0.307,
        noise=0.002,
        **axes,
    )
    draws = fitted(table, size=("params", "tokens"))
    law = law_of(draws, size=("params", "tokens"))
    assert law.parameters["b1"] == pytest.approx(-0.713, abs=0.05)
    assert law.parameters["b2"] == pytest.approx(0.307, abs=0.03)


def test_law_and_curvature_are_least_squares_through_each_draw():
    """Known draws: the mean of the fits of a parabola, and twice the smaller tail."""
    draws, rng = of_rate(), np.random.default_rng(0)
    noise = 0.1 * rng.normal(size=(2048, 5))
    draws.theta[:, draws.places.optimum[:, 0]] += noise
    x = draws.log_sizes[:, 0] * math.log(2)
    x = x - x.mean()
    logs = math.log(2) * draws.theta[:, draws.places.optimum[:, 0]]
    fits = np.polyfit(x, logs.T, 2)
    law, test = law_of(draws), check_curvature(draws, 0)
    assert law.values == pytest.approx(fits.mean(axis=1)[::-1])
    assert slope_draws(draws, 0)[:, 0] == pytest.approx(fits[1])
    assert np.array(law.covariance) == pytest.approx(np.cov(fits)[::-1, ::-1])
    assert test.curvature == pytest.approx(2 * fits[0].mean())
    assert test.se == pytest.approx(2 * fits[0].std())
    share = np.mean(fits[0] > 0)
    assert test.p_value == pytest.approx(2 * min(share, 1 - share))
    assert test.bends == (test.p_value < 0.05)


@pytest.mark.parametrize("bend", [0.0, 0.15, -0.15])
def test_a_bend_is_seen_and_followed(bend):
    """At eight times the largest size a straight law misses a bent one by an octave or more."""
    flagged, target = 0, 8 * WIDTHS[-1]
    for seed in range(3):
        table, best = sweep_of(bend, seed=seed)
        draws = fitted(table)
        law, test = law_of(draws), check_curvature(draws, 0)
        flagged += law.flags == (LAW_BENDS,)
        assert (law.flags == (LAW_BENDS,)) == test.bends
        assert test.curvature == pytest.approx(bend, abs=4 * test.se)
        low, high = np.quantile(draws.at(np.log2([target])).optimum[:, 0], [0.05, 0.95])
        assert low < math.log2(best(target)) < high
    assert flagged == (3 if bend else 0)


def test_curvature_needs_four_sizes():
    assert check_curvature(fitted(make_table(widths=(16, 32, 64))), 0) is None
    assert check_curvature(fitted(make_table(widths=(16, 32, 64, 128))), 0) is not None


def test_a_pinned_slope_is_kept_exactly_and_narrows_what_lies_far_above(table):
    free, pinned = fitted(table), fitted(table, pinned={"width": -0.4})
    law = law_of(pinned, b=-0.4)
    assert (law.parameters["b"], law.fixed) == (-0.4, {"b": -0.4})
    assert law.covariance[1] == (0.0, 0.0, 0.0)
    assert [row[1] for row in law.covariance] == [0.0] * 3
    far = np.log2([192.0 * 64])
    here, there = (draws.at(far).law[:, 0] for draws in (free, pinned))
    assert np.median(there) == pytest.approx(math.log2(true_lr(192 * 64)), abs=0.1)
    assert there.std() < 0.8 * here.std()


def test_a_pin_moves_the_law_by_its_slope_alone():
    """Rates that are turned by a slope, and the same slope pinned, are the same sweep."""
    plain = make_table(noise=0.004, seed=1)
    turned = plain.assign(lr=plain["lr"] * (plain["width"] / 192) ** -1.5)
    one, other = fitted(plain, pinned={"width": 0.0}), fitted(turned, pinned={"width": -1.5})
    for ratio in (1.0, 4.0, 64.0):
        size = np.log2([192 * ratio])
        moved = other.at(size).optimum[:, 0] - one.at(size).optimum[:, 0]
        assert moved == pytest.approx(-1.5 * math.log2(ratio), abs=0.02)


def test_forecasts_pin_slopes_of_sizes_that_move_together():
    widths = 4.0 ** np.arange(2, 7)
    table = make_table(widths=widths, noise=0.003).assign(depth=lambda t: t["width"] / 4)
    made = extrap.forecast(
        table, size=["width", "depth"], tune="lr", fix={"lr.b2": 0.1, "c2": 0.1}
    )
    law = made.tuned_laws["lr"]
    assert law.parameters["b2"] == 0.1
    assert law.parameters["b1"] == pytest.approx(-0.5, abs=0.05)
    assert any(flag.startswith("columns-collinear") for flag in made.flags)


def test_saved_draws_say_what_they_said(tmp_path, table):
    hot = table.assign(loss=table["loss"].where(table["lr"] < 0.02, math.inf))
    made = extrap.forecast(hot, size="width", tune="lr")
    save_forecast(made, tmp_path / "sealed.json")
    loaded = load_forecast(tmp_path / "sealed.json")
    for name in ("theta", "log_sizes", "centre"):
        assert (getattr(loaded.surface, name) == getattr(made.surface, name)).all()
    assert (loaded.surface.parts, loaded.surface.main) == (made.surface.parts, 0)
    for size in ({"width": 64.0}, {"width": 768.0}):
        one, other = (each.surface.at(np.log2([*size.values()])) for each in (made, loaded))
        for part in ("optimum", "law", "asymmetry", "log_curvature", "steepness", "threshold"):
            assert (getattr(one, part) == getattr(other, part)).all(), part
        assert made.point(size) == loaded.point(size)


@pytest.mark.parametrize("side", [1, -1])
def test_runs_diverge_the_more_the_farther_beyond_a_cliff(side):
    """An octave above the best rate, or below, if rates are counted downwards."""
    hot = make_table(noise=0.004, seed=1, cliff=1)
    draws = fitted(hot.assign(lr=hot["lr"] ** side))
    for width in (16.0, 192.0, 768.0):
        place = draws.at(np.log2([width]))
        tries = side * (math.log2(true_lr(width)) + np.linspace(-6, 6, 49))
        chances = place.chances(tries[:, None])
        assert (np.diff(chances, axis=1) >= 0).all()
        mean = chances.mean(axis=0)
        assert mean[20] < 0.05  # at an octave below the best
        assert mean[36] > 0.9  # at two octaves beyond the cliff
        costs = place.costs(tries[:, None]).mean(axis=0)
        assert (np.diff(costs[30:]) >= 0).all()


def test_pruned_runs_say_nothing_of_divergence(table):
    hot = table.assign(loss=table["loss"].where(table["lr"] < 0.02, math.inf))
    hot["status"] = np.where(np.isfinite(hot["loss"]), "complete", "diverged")
    pruned = hot.assign(status="pruned", lr=hot["lr"] / 100, loss=np.nan)
    plain, both = fitted(hot), fitted(pd.concat([hot, pruned], ignore_index=True))
    tries = np.log2([[0.005], [0.02], [0.05]])
    chances = [d.at(np.log2([384.0])).chances(tries).mean(axis=0) for d in (plain, both)]
    assert chances[1] == pytest.approx(chances[0], abs=0.01)
