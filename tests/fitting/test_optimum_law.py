from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS, WLS

from extrap.errors import DataError
from extrap.fitting import check_curvature, fit_optimum_law, predict_log, relative_sizes
from extrap.records import Estimate, Interval, Optimum

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


def half_width(points: list[Optimum], width: float, level: float = 0.95) -> float:
    law = fit_optimum_law(points, tuned="lr", columns=["width"])
    se = predict_log(law, relative_sizes(law, {"width": width}))[1][0]
    return float(stats.t.ppf(0.5 + level / 2, law.dof) * np.hypot(se, law.scatter))


@pytest.mark.parametrize("seed", range(6))
def test_equal_weights_give_the_prediction_interval_of_statsmodels(seed: int) -> None:
    points = optima(np.full(6, 0.1), seed)
    y = np.log([o.tuned["lr"].value for o in points])
    design = np.column_stack([np.ones(6), np.log(WIDTHS)])
    frame = OLS(y, design).fit().get_prediction([[1.0, np.log(4096.0)]]).summary_frame(0.05)
    theirs = float(frame["obs_ci_upper"].iloc[0] - frame["mean"].iloc[0])
    ours = half_width(points, 4096.0)
    assert ours >= theirs - 1e-9  # the jackknife may only widen
    law = fit_optimum_law(points, tuned="lr", columns=["width"])
    mean = predict_log(law, relative_sizes(law, {"width": 4096.0}))[0][0]
    assert mean == pytest.approx(frame["mean"].iloc[0])
    if seed in (1, 2, 4):
        assert ours == pytest.approx(theirs, rel=1e-9)  # here it does not


def test_absolute_scale_of_the_standard_errors_does_not_matter() -> None:
    """The trap: statsmodels' own interval for a new observation depends on it."""
    log_se = np.array([0.05, 0.1, 0.1, 0.2, 0.2, 0.1])
    points = optima(log_se)
    blown_up = [
        replace(o, tuned={"lr": replace(o.tuned["lr"], se=100 * o.tuned["lr"].se)}) for o in points
    ]
    assert half_width(blown_up, 4096.0) == pytest.approx(half_width(points, 4096.0))

    y = np.log([o.tuned["lr"].value for o in points])
    design = np.column_stack([np.ones(6), np.log(WIDTHS)])

    def naive(weights: np.ndarray) -> float:
        prediction = WLS(y, design, weights=weights).fit().get_prediction(design[-1:])
        return float(prediction.se_obs[0])

    assert naive(log_se**-2) != pytest.approx(naive((100 * log_se) ** -2), rel=0.5)


def test_exponents_of_two_sizes_are_recovered() -> None:
    grid = [(n, d) for n in (1e8, 3e8, 1e9) for d in (1e9, 1e10, 1e11)]
    points = [optimum(1.79 * n**-0.713 * d**0.307, params=n, tokens=d) for n, d in grid]
    law = fit_optimum_law(points, tuned="lr", columns=["params", "tokens"])
    assert law.parameters["b1"] == pytest.approx(-0.713)
    assert law.parameters["b2"] == pytest.approx(0.307)


def test_jackknife_widens_where_one_size_carries_the_slope() -> None:
    calm = optima(np.full(6, 0.1), seed=1)
    lr = [0.01, 0.01, 0.01, 0.01, 0.01, 0.001]
    one_off = [optimum(v, 0.1, width=w) for v, w in zip(lr, WIDTHS, strict=True)]
    for points, widens in ((calm, False), (one_off, True)):
        law = fit_optimum_law(points, tuned="lr", columns=["width"])
        y = np.log([o.tuned["lr"].value for o in points])
        z = np.log(WIDTHS / law.reference[0])
        plain = OLS(y, np.column_stack([np.ones(6), z])).fit().cov_params()[1][1]
        assert (law.covariance[1][1] > 1.01 * plain) == widens


def test_optima_without_a_point_estimate_are_left_out() -> None:
    points = optima(np.full(6, 0.1))
    more = [*points, optimum(None, width=1024.0)]
    ours = fit_optimum_law(more, tuned="lr", columns=["width"])
    assert ours == fit_optimum_law(points, tuned="lr", columns=["width"])
    assert ours.fitted_range == ((16.0, 512.0),)


def test_too_few_and_inseparable_sizes_are_refused() -> None:
    points = optima(np.full(6, 0.1))
    with pytest.raises(
        DataError, match="needs at least 3 sizes whose optimum is bracketed, got 2"
    ):
        fit_optimum_law(points[:2], tuned="lr", columns=["width"])
    tied = [optimum(0.1 / n, params=n, tokens=20 * n) for n in (1.0, 2.0, 4.0, 8.0, 16.0)]
    with pytest.raises(DataError, match="params, tokens move together"):
        fit_optimum_law(tied, tuned="lr", columns=["params", "tokens"])


def bent(curvature: float, seed: int, n: int = 8, noise: float = 0.05) -> list[Optimum]:
    widths = 16.0 * 2.0 ** np.arange(n)
    log_w = np.log(widths) - np.log(widths).mean()
    rng = np.random.default_rng(seed)
    log_lr = -4 - 0.5 * log_w + 0.5 * curvature * log_w**2 + noise * rng.normal(size=n)
    return [optimum(v, noise, width=w) for v, w in zip(np.exp(log_lr), widths, strict=True)]


def test_pinned_slope_is_kept_and_certain() -> None:
    points = optima(np.full(6, 0.1))
    law = fit_optimum_law(points, tuned="lr", columns=["width"], fix={"b": -0.5})
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
        fit_optimum_law(optima(np.full(6, 0.1)), tuned="lr", columns=["width"], fix=pin)


def test_law_that_bends_says_so() -> None:
    law = fit_optimum_law(bent(0.2, seed=0), tuned="lr", columns=["width"])
    assert "optimum-law-bends" in law.flags
    found = check_curvature(bent(0.2, seed=0), tuned="lr", columns=["width"])
    assert found is not None
    assert found.bends
    assert abs(found.curvature - 0.2) < 3 * found.se
    straight = fit_optimum_law(bent(0.0, seed=0), tuned="lr", columns=["width"])
    assert straight.flags == ()


def test_curvature_test_is_that_of_least_squares() -> None:
    points = bent(0.05, seed=1)
    y = np.log([o.tuned["lr"].value for o in points])
    x = np.log([o.size["width"] for o in points])
    theirs = OLS(y, np.column_stack([np.ones(8), x, x**2 / 2])).fit()
    ours = check_curvature(points, tuned="lr", columns=["width"])
    assert ours is not None
    assert ours.curvature == pytest.approx(theirs.params[2])
    assert ours.p_value == pytest.approx(theirs.pvalues[2])
    assert ours.dof == 5


def test_detectable_curvature_is_found_in_four_of_five_repeats() -> None:
    """500 repeats: standard error 1.8 points of power, 1 point of false alarm."""
    x = np.log(16.0 * 2.0 ** np.arange(8))
    design = np.column_stack([np.ones(8), x, (x - x.mean()) ** 2 / 2])
    se = 0.05 * np.sqrt(np.linalg.inv(design.T @ design)[2, 2])
    ratios = [
        found.detectable / found.se
        for seed in range(3)
        if (found := check_curvature(bent(0.0, seed), tuned="lr", columns=["width"]))
    ]
    assert ratios == pytest.approx([ratios[0]] * 3)
    for curvature, share in ((ratios[0] * se, 0.8), (0.0, 0.05)):
        tests = [
            check_curvature(bent(curvature, seed), tuned="lr", columns=["width"])
            for seed in range(500)
        ]
        assert np.mean([t.bends for t in tests if t]) == pytest.approx(share, abs=0.05)


def test_missed_bend_is_that_of_the_detectable_curvature() -> None:
    """Equally weighted sizes: by so much a parabola leaves the line fitted to it."""
    points = bent(0.0, seed=0, n=4)
    found = check_curvature(points, tuned="lr", columns=["width"])
    assert found is not None
    x = np.log([o.size["width"] for o in points])
    line = np.polyfit(x, x**2 / 2, 1)
    far = 2 * x[-1] - x[0]
    assert np.log(found.bend) == pytest.approx(
        found.detectable * (far**2 / 2 - np.polyval(line, far))
    )


def test_absolute_scale_of_the_standard_errors_does_not_matter_to_the_curvature() -> None:
    small, large = (
        check_curvature(
            [
                replace(o, tuned={"lr": replace(o.tuned["lr"], se=factor * o.tuned["lr"].se)})
                for o in bent(0.05, seed=2)
            ],
            tuned="lr",
            columns=["width"],
        )
        for factor in (1, 100)
    )
    assert large.se == pytest.approx(small.se)
    assert large.p_value == pytest.approx(small.p_value)


def test_curvature_needs_two_sizes_to_spare_and_three_different_ones() -> None:
    assert check_curvature(bent(0.1, seed=0, n=3), tuned="lr", columns=["width"]) is None
    two = [optimum(0.1, width=w) for w in (8.0, 8.0, 8.0, 64.0, 64.0)]
    assert check_curvature(two, tuned="lr", columns=["width"]) is None
