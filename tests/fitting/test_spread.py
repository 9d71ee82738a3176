from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap.fitting import (
    ExcessCurve,
    estimate_noise,
    estimate_optima,
    fit_excess_curve,
    fit_optimum_law,
    keep_values,
)
from extrap.fitting.spread import predict_optimum
from extrap.reading import read_runs
from extrap.records import Fit, KeptValue, Optimum

Table = Callable[..., pd.DataFrame]
SIZE = {"width": 1024.0}


@pytest.fixture(scope="module")
def parts(sweep_table: Table) -> tuple[dict[str, Fit], tuple[Optimum, ...], ExcessCurve]:
    runs = read_runs(sweep_table(), size="width", tune="lr")
    optima = estimate_optima(runs, noise=estimate_noise(runs), level=0.9)
    excess_curve = fit_excess_curve(runs, optima)
    assert excess_curve is not None
    return {"lr": fit_optimum_law(optima, tuned="lr", columns=["width"])}, optima, excess_curve


def kept_value(parts, **choices) -> KeptValue:
    laws, optima, excess_curve = parts
    spread = predict_optimum(laws, SIZE, excess_curve)
    (found,) = keep_values(spread, optima, **{"level": 0.9, **choices})
    return found


def test_kept_rate_is_as_far_off_as_the_truth_says(parts) -> None:
    """It falls as width^-0.4: 1024 / 192 and 1024 / 16 in octaves, times .4."""
    for from_largest, width in ((True, 192.0), (False, 16.0)):
        found = kept_value(parts, from_largest=from_largest)
        assert found.kept_from == {"width": width}
        assert found.octaves == pytest.approx(0.4 * np.log2(1024 / width), abs=0.2)
        rise = 0.5
        truth = 0.03 * (np.expm1(rise * found.octaves) - rise * found.octaves) / rise**2
        assert found.penalty == pytest.approx(truth, rel=0.25)
        assert found.penalty in found.penalty_pi


def test_interval_holds_the_mean_of_a_skewed_cost(parts) -> None:
    """Of three optima that scatter, the law has heavy tails: far values are rare and dear."""
    laws, optima, excess_curve = parts
    wide = {"lr": replace(laws["lr"], covariance=100 * np.array(laws["lr"].covariance), dof=1)}
    found = kept_value((wide, optima, excess_curve), from_largest=True, level=0.3)
    assert found.penalty == found.penalty_pi[1]


@pytest.mark.parametrize("relative_sd", [None, 0.5])
def test_penalty_is_the_mean_excess_and_its_quantiles(parts, relative_sd) -> None:
    """Over Student's t of the optimum, integrated; runs scatter about it as a lognormal."""
    laws, optima, excess_curve = parts
    found = kept_value((laws, optima, replace(excess_curve, relative_sd=relative_sd)), level=0.8)
    spread = predict_optimum(laws, SIZE)
    assert found.octaves == pytest.approx(np.log2(found.kept) - spread.centre[0])
    t = stats.t(spread.dof[0], 0.0, spread.sd[0])
    p = (np.arange(100_000) + 0.5) / 100_000
    costs = excess_curve.excesses((found.octaves - t.ppf(p))[:, None], SIZE)
    log_sd = np.sqrt(np.log(1 + (relative_sd or 0) ** 2))
    factors = np.random.default_rng(0).lognormal(-(log_sd**2) / 2, log_sd, len(p))
    costs = costs * factors
    assert found.penalty == pytest.approx(costs.mean(), rel=0.01 if relative_sd else 1e-3)
    assert found.penalty_pi == pytest.approx(np.quantile(costs, [0.1, 0.9]), rel=0.03)


def test_without_a_bracketed_size_there_is_nothing_to_keep(parts) -> None:
    laws, optima, excess_curve = parts
    lost = [replace(o, tuned={"lr": replace(o.tuned["lr"], value=None)}) for o in optima]
    assert keep_values(predict_optimum(laws, SIZE, excess_curve), lost, level=0.9) == ()
