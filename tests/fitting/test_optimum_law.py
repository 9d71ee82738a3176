from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS, WLS

from extrap.errors import DataError
from extrap.fitting import fit_optimum_law, predict_log, relative_sizes
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
