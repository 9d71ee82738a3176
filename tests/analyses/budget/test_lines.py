"""The line through optima, and the forecast of their losses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS, WLS

from extrap import DataError, forecast, read_runs
from extrap.analyses.budget.profiles import Optima
from extrap.records import Measure

LOG_FLOPS = np.log(1e18 * 4.0 ** np.arange(8))


def optima(scatter, se, *, is_known: bool = True, n: int = 8) -> Optima:
    at = LOG_FLOPS[:n]
    return Optima(
        log_flops=at,
        log_params=0.5 * at - 1 + np.asarray(scatter)[:n],
        log_params_se=np.broadcast_to(se, (n,)),
        is_known=is_known,
        loss=2 + 3 * np.exp(-0.1 * (at - at[0])),
        near_best=(0.1, 0.2),
        how="made up",
    )


SCATTER = np.array([0.3, -0.4, 0.2, 0.1, -0.3, 0.5, -0.2, 0.1])


def half(found: Measure) -> float:
    """Half the interval of a logarithm, which lies in the middle."""
    low, high = np.log(found.ci)
    assert np.log(found.value) == pytest.approx((low + high) / 2)
    return (high - low) / 2


@pytest.mark.parametrize("kind", ["known", "relative", "exceeded"])
def test_line_has_the_intervals_of_statsmodels(kind: str) -> None:
    """Known errors in their own unit; relative ones, and exceeded equal ones, by the residuals.

    Where equal errors explain less than the scatter, the variance that Paule and Mandel add makes
    their sum that of the residuals.
    """
    se = {"known": np.linspace(0.4, 0.8, 8), "relative": np.linspace(1, 3, 8), "exceeded": 0.01}
    found = optima(SCATTER, se[kind], is_known=kind != "relative").split(1e24, level=0.9)
    y = 0.5 * LOG_FLOPS - 1 + SCATTER
    design = np.column_stack([np.ones(8), LOG_FLOPS])
    model = OLS(y, design) if kind == "exceeded" else WLS(y, design, weights=se[kind] ** -2.0)
    fitted = model.fit(**({"cov_type": "fixed scale"} if kind == "known" else {}))
    t = stats.t.ppf(0.95, 6)
    row = np.array([1, np.log(1e24)])
    at, se_at = float(row @ fitted.params), float(np.sqrt(row @ fitted.cov_params() @ row))
    assert np.log(found.params.value) == pytest.approx(at, rel=1e-8)
    assert found.exponent.value == pytest.approx(fitted.params[1], rel=1e-8)
    sides = fitted.params[1] + t * fitted.bse[1] * np.array([-1, 1])
    assert found.exponent.ci == pytest.approx(tuple(sides), rel=1e-6)
    assert half(found.params) == pytest.approx(t * se_at, rel=1e-6)
    assert half(found.tokens) == pytest.approx(t * se_at, rel=1e-6)
    assert half(found.tokens_per_param) == pytest.approx(2 * t * se_at, rel=1e-6)
    assert found.tokens.value == pytest.approx(1e24 / 6 / found.params.value)
    assert found.tokens_per_param.value == pytest.approx(found.tokens.value / found.params.value)
    ends = np.log(found.near_best) - np.log(found.params.value)
    assert ends == pytest.approx([-0.1, 0.2])
    assert (found.n_points, found.how) == (8, "made up")


def test_loss_of_a_line_counts_a_share_of_its_change_beyond_the_optima() -> None:
    """15 % of the fall of ln L since the largest of them; no error of its own without noise."""
    for flops, is_beyond in ((1e24, True), (1e20, False)):
        loss = optima(np.zeros(8), 0.01).expected_loss(flops, level=0.95)
        at, last = (2 + 3 * (c / 1e18) ** -0.1 for c in (flops, 1e18 * 4.0**7))
        share = 1.959964 * 0.15 * np.log(last / at) * is_beyond
        assert loss.value == pytest.approx(at, rel=1e-5)
        assert half(loss) == pytest.approx(share, rel=1e-3, abs=1e-5)


def test_loss_of_a_line_is_the_forecast_of_the_least_losses_over_compute() -> None:
    found = optima(np.zeros(8), 0.01)
    found = replace(found, loss=found.loss * np.exp(0.002 * SCATTER))
    table = pd.DataFrame({"flops": np.exp(found.log_flops), "loss": found.loss})
    made = forecast(read_runs(table, size="flops", tune=()), level=0.9).at(flops=1e24)
    loss = found.expected_loss(1e24, level=0.9)
    assert (loss.value, *loss.ci) == pytest.approx((made.loss, *made.loss_ci), rel=1e-12)


def test_too_few_optima_are_refused() -> None:
    near = optima(np.zeros(3), 0.1, n=3)
    near = replace(near, log_flops=near.log_flops[0] + np.array([0, 0.3, 0.69]))
    for few, word in ((optima(np.zeros(2), 0.1, n=2), "got 2;"), (near, "got 3;")):
        with pytest.raises(DataError, match=word):
            few.split(1e24, level=0.95)
