from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap.errors import DataError
from extrap.fitting import (
    ExcessCurve,
    TransferQuality,
    estimate_noise,
    estimate_optima,
    fit_excess_curve,
    fit_optimum_law,
    transfer_quality,
)
from extrap.fitting.spread import predict_optimum
from extrap.reading import read_runs
from extrap.records import Fit, Optimum

Table = Callable[..., pd.DataFrame]
SIZE = {"width": 1024.0}


@pytest.fixture(scope="module")
def parts(sweep_table: Table) -> tuple[dict[str, Fit], tuple[Optimum, ...], ExcessCurve]:
    runs = read_runs(sweep_table(), size="width", tune="lr")
    optima = estimate_optima(runs, noise=estimate_noise(runs), level=0.9)
    excess_curve = fit_excess_curve(runs, optima)
    assert excess_curve is not None
    return {"lr": fit_optimum_law(optima, tuned="lr", columns=["width"])}, optima, excess_curve


def quality(parts, **choices) -> TransferQuality:
    laws, optima, excess_curve = parts
    (found,) = transfer_quality(
        laws, optima, SIZE, excess_curve=excess_curve, **{"level": 0.9, **choices}
    )
    return found


def test_kept_rate_is_as_far_off_as_the_truth_says(parts) -> None:
    """It falls as width^-0.4: 1024 / 192 and 1024 / 16 in octaves, times .4."""
    for from_largest, width in ((True, 192.0), (False, 16.0)):
        found = quality(parts, from_largest=from_largest)
        assert found.kept_from == {"width": width}
        assert found.octaves == pytest.approx(0.4 * np.log2(1024 / width), abs=0.2)
        rise = 0.5
        truth = 0.03 * (np.expm1(rise * found.octaves) - rise * found.octaves) / rise**2
        assert found.penalty == pytest.approx(truth, rel=0.25)
        assert found.penalty in found.penalty_pi


def test_tolerated_range_costs_one_percent_at_both_ends(parts) -> None:
    found, excess_curve = quality(parts), parts[2]
    u = np.linspace(-3, 3, 60001)
    cheap = u[excess_curve.excesses(u[:, None], SIZE) <= 0.01]
    assert found.robustness == pytest.approx(cheap[-1] - cheap[0], abs=1e-3)
    assert found.robustness in found.robustness_pi


def test_interval_holds_the_mean_of_a_skewed_cost(parts) -> None:
    """Of three optima that scatter, the law has heavy tails: far values are rare and dear."""
    laws, optima, excess_curve = parts
    wide = {"lr": replace(laws["lr"], covariance=100 * np.array(laws["lr"].covariance), dof=1)}
    found = quality((wide, optima, excess_curve), from_largest=True, level=0.3)
    assert found.penalty == found.penalty_pi[1]


@pytest.mark.parametrize("relative_sd", [None, 0.5])
def test_penalty_is_the_mean_excess_and_its_quantiles(parts, relative_sd) -> None:
    """Over Student's t of the optimum, integrated; runs scatter about it as a lognormal."""
    laws, optima, excess_curve = parts
    found = quality((laws, optima, replace(excess_curve, relative_sd=relative_sd)), level=0.8)
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


def test_fit_error_is_the_scatter_with_its_chi_square_interval(parts) -> None:
    found, law = quality(parts), parts[0]["lr"]
    assert found.fit_error == pytest.approx(law.scatter / np.log(2))
    for bound, p in zip(found.fit_error_ci, (0.95, 0.05), strict=True):
        expected = law.dof * found.fit_error**2 / bound**2
        assert expected == pytest.approx(stats.chi2.ppf(p, law.dof))


def test_steepening_is_the_trend_of_the_excess_curve(parts) -> None:
    laws, optima, excess_curve = parts
    assert quality((laws, optima, replace(excess_curve, trend=(0.3,)))).steepening == 0.3


def test_without_a_bracketed_size_there_is_nothing_to_keep(parts) -> None:
    laws, optima, excess_curve = parts
    lost = [replace(o, tuned={"lr": replace(o.tuned["lr"], value=None)}) for o in optima]
    with pytest.raises(DataError, match="of lr needs a size"):
        quality((laws, lost, excess_curve))
