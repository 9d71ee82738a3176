from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS, WLS

from extrap.errors import DataError
from extrap.fitting import check_curvature, fit_optimum_law, predict_log, relative_sizes
from extrap.records import Estimate, Fit, Interval, Optimum

WIDTHS = np.array([16.0, 32.0, 64.0, 128.0, 256.0, 512.0])
OPEN = Interval(None, None)


def optimum(value: float | None, log_se: float = 0.1, **size: float) -> Optimum:
    se = None if value is None else value * log_se
    estimate = Estimate(value=value, se=se, ci=OPEN, pi=OPEN)
    return Optimum(
        size=size,
        tuned={"lr": estimate},
        loss=2.0,
        loss_se=0.1,
        paired_loss_se=0.1,
        best_loss=2.0,
        n_runs=3,
        n_diverged=0,
        bracketed=True,
        edge=None,
    )


def optima(log_se: np.ndarray, seed: int = 0) -> list[Optimum]:
    noise = log_se * np.random.default_rng(seed).normal(size=len(WIDTHS))
    lr = 0.01 * (WIDTHS / 16) ** -0.4 * np.exp(noise)
    return [optimum(v, s, width=w) for v, s, w in zip(lr, log_se, WIDTHS, strict=True)]


def law_of(points: list[Optimum], **fix: float) -> Fit:
    return fit_optimum_law(points, tuned="lr", columns=["width"], fix=fix)


UNEQUAL = np.array([0.05, 0.1, 0.08, 0.2, 0.12, 0.1])


@pytest.mark.parametrize("seed", range(4))
def test_law_is_weighted_least_squares_widened_by_the_jackknife(seed: int) -> None:
    """Weights of mean 1: an interval of a new optimum, as well measured as a typical one."""
    points = optima(UNEQUAL, seed)
    law, y = law_of(points), np.log([o.tuned["lr"].value for o in points])
    design = np.column_stack([np.ones(6), np.log(WIDTHS / law.reference[0])])
    weights = UNEQUAL**-2.0 / np.mean(UNEQUAL**-2.0)
    theirs = WLS(y, design, weights=weights).fit()
    assert law.values == pytest.approx(theirs.params)
    assert law.scatter == pytest.approx(np.sqrt(theirs.scale))
    assert law.chi2 == pytest.approx(np.sum((theirs.resid / UNEQUAL) ** 2))
    assert (law.dof, law.scale_dof, law.n_points) == (4, 4, 6)
    assert law.reference == pytest.approx([np.exp(np.log(WIDTHS).mean())])
    assert law.fitted_range == ((16.0, 512.0),)
    # slopes without one size each, from the leverages that statsmodels knows
    root = np.sqrt(weights)
    left_out = OLS(y * root, design * root[:, None]).fit().get_influence().dfbeta[:, 1]
    jackknife = 5 / 6 * np.sum((left_out - left_out.mean()) ** 2)
    widened = max(1.0, jackknife / theirs.cov_params()[1, 1])
    assert (widened > 1) == (seed != 1)
    assert np.array(law.covariance) == pytest.approx(widened * theirs.cov_params())
    prediction = theirs.get_prediction([[1.0, np.log(4096.0 / law.reference[0])]])
    mean, se = predict_log(law, relative_sizes(law, {"width": 4096.0}))
    assert mean == pytest.approx(prediction.predicted_mean)
    assert np.hypot(se / np.sqrt(widened), law.scatter) == pytest.approx(prediction.se_obs)


def test_absolute_scale_of_the_standard_errors_does_not_matter() -> None:
    """The trap: statsmodels' own interval for a new observation depends on it."""
    small, large = (
        optima(UNEQUAL),
        [
            replace(o, tuned={"lr": replace(o.tuned["lr"], se=100 * o.tuned["lr"].se)})
            for o in optima(UNEQUAL)
        ],
    )
    one, other = law_of(small), law_of(large)
    assert other.scatter == pytest.approx(one.scatter)
    assert np.array(other.covariance) == pytest.approx(np.array(one.covariance))
    assert other.chi2 == pytest.approx(one.chi2 / 1e4)
    bends = [check_curvature(points, tuned="lr", columns=["width"]) for points in (small, large)]
    assert bends[1].se == pytest.approx(bends[0].se)
    assert bends[1].p_value == pytest.approx(bends[0].p_value)


def test_exponents_of_two_sizes_are_recovered() -> None:
    grid = [(n, d) for n in (1e8, 3e8, 1e9) for d in (1e9, 1e10, 1e11)]
    points = [optimum(1.79 * n**-0.713 * d**0.307, params=n, tokens=d) for n, d in grid]
    law = fit_optimum_law(points, tuned="lr", columns=["params", "tokens"])
    assert law.parameters["b1"] == pytest.approx(-0.713)
    assert law.parameters["b2"] == pytest.approx(0.307)


def test_jackknife_is_left_out_where_it_cannot_be_formed() -> None:
    """Three sizes leave an exact fit; of two sizes one optimum carries the slope alone."""
    three = optima(UNEQUAL)[:3]
    one_off = [optimum(v, 0.1, width=w) for v, w in ((1, 8), (2, 8), (1.5, 8), (1, 8), (3, 64))]
    for points in (three, one_off):
        y, x = (np.log([f(o) for o in points]) for f in (lambda o: o.tuned["lr"].value, width_of))
        weights = [(o.tuned["lr"].value / o.tuned["lr"].se) ** 2 for o in points]
        theirs = WLS(y, np.column_stack([np.ones(len(x)), x - x.mean()]), weights=weights).fit()
        law = law_of(points)
        assert np.array(law.covariance) == pytest.approx(theirs.cov_params())
    level = law_of(optima(UNEQUAL), b=-0.4)  # no slope is free
    assert level.covariance[0][0] == pytest.approx(level.scatter**2 / 6)


def test_optima_without_a_point_estimate_are_left_out() -> None:
    points = optima(np.full(6, 0.1))
    more = [*points, optimum(None, width=1024.0)]
    assert law_of(more) == law_of(points)


def test_too_few_and_inseparable_sizes_are_refused() -> None:
    points = optima(np.full(6, 0.1))
    with pytest.raises(DataError, match=r"at least 3 .* got 2"):
        law_of(points[:2])
    assert law_of(points[:2], b=-0.4).dof == 1
    tied = [optimum(0.1 / n, params=n, tokens=20 * n) for n in (1.0, 2.0, 4.0, 8.0, 16.0)]
    with pytest.raises(DataError, match="params, tokens"):
        fit_optimum_law(tied, tuned="lr", columns=["params", "tokens"])


def bent(curvature: float, seed: int, n: int = 8, noise: float = 0.05) -> list[Optimum]:
    widths = 16.0 * 2.0 ** np.arange(n)
    log_w = np.log(widths) - np.log(widths).mean()
    rng = np.random.default_rng(seed)
    log_lr = -4 - 0.5 * log_w + 0.5 * curvature * log_w**2 + noise * rng.normal(size=n)
    return [optimum(v, noise, width=w) for v, w in zip(np.exp(log_lr), widths, strict=True)]


def test_pinned_slope_is_kept_and_certain() -> None:
    points = optima(np.full(6, 0.1))
    law = law_of(points, b=-0.5)
    assert law.parameters["b"] == -0.5
    assert law.covariance[1] == (0.0, 0.0)
    assert law.fixed == {"b": -0.5}
    assert law.dof == 5
    y = np.log([o.tuned["lr"].value for o in points]) + 0.5 * np.log(WIDTHS / law.reference[0])
    assert law.parameters["a"] == pytest.approx(y.mean())
    assert law.scatter == pytest.approx(y.std(ddof=1))


def test_pin_makes_sizes_that_move_together_fittable() -> None:
    tied = [optimum(0.1 * n**-0.3, params=n, tokens=20 * n) for n in 4.0 ** np.arange(1, 6)]
    law = fit_optimum_law(tied, tuned="lr", columns=["params", "tokens"], fix={"b2": 0.3})
    assert law.parameters["b1"] == pytest.approx(-0.6)
    assert "columns-collinear" in law.flags


@pytest.mark.parametrize("pin", [{"c": -0.5}, {"a": 1.0}, {"b": np.inf}])
def test_only_slopes_can_be_pinned(pin: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="pin"):
        law_of(optima(np.full(6, 0.1)), **pin)


def width_of(point: Optimum) -> float:
    return point.size["width"]


def test_law_that_bends_has_a_flag() -> None:
    assert law_of(bent(0.2, seed=0)).flags == ("optimum-law-bends",)
    assert law_of(bent(0.0, seed=0)).flags == ()


@pytest.mark.parametrize("fix", [{}, {"b": -0.6}])
def test_curvature_test_is_the_t_test_of_statsmodels(fix: dict[str, float]) -> None:
    """Its power: the noncentral t distribution rejects in 80 % at the detectable curvature."""
    points = [
        replace(o, tuned={"lr": replace(o.tuned["lr"], se=o.tuned["lr"].value * se)})
        for o, se in zip(
            bent(0.05, seed=1), [0.05, 0.1, 0.08, 0.2, 0.12, 0.1, 0.1, 0.1], strict=True
        )
    ]
    x = np.log([width_of(o) for o in points])
    x = x - x.mean()
    y = np.log([o.tuned["lr"].value for o in points]) - sum(fix.values()) * x
    design = np.column_stack([np.ones(8), x, x**2 / 2])[:, [0, 2] if fix else [0, 1, 2]]
    weights = [(o.tuned["lr"].value / o.tuned["lr"].se) ** 2 for o in points]
    theirs = WLS(y, design, weights=weights).fit()
    ours = check_curvature(points, tuned="lr", columns=["width"], fix=fix)
    assert ours is not None
    assert (ours.curvature, ours.se) == pytest.approx((theirs.params[-1], theirs.bse[-1]))
    assert ours.p_value == pytest.approx(theirs.pvalues[-1])
    assert ours.bends is bool(theirs.pvalues[-1] < 0.05)
    assert ours.dof == theirs.df_resid
    critical = stats.t.isf(0.025, ours.dof)
    assert stats.nct.sf(critical, ours.dof, ours.detectable / ours.se) == pytest.approx(0.8)
    # the parabola leaves the line through it, as far beyond the sizes as they range
    straight = WLS(x**2 / 2, design[:, :-1], weights=weights).fit()
    far = 2 * x[-1] - x[0]
    off = abs(far**2 / 2 - straight.predict([[1.0, far][: design.shape[1] - 1]])[0])
    assert np.log(ours.bend) == pytest.approx(ours.detectable * off)


def test_curvature_needs_two_sizes_to_spare_and_three_different_ones() -> None:
    assert check_curvature(bent(0.1, seed=0, n=3), tuned="lr", columns=["width"]) is None
    two = [optimum(0.1, width=w) for w in (8.0, 8.0, 8.0, 64.0, 64.0)]
    assert check_curvature(two, tuned="lr", columns=["width"]) is None
