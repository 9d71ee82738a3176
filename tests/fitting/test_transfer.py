from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap.errors import DataError
from extrap.fitting import (
    TransferQuality,
    Valley,
    estimate_noise,
    estimate_optima,
    fit_optimum_law,
    fit_valley,
    transfer_quality,
)
from extrap.reading import read_runs
from extrap.records import Fit, Optimum

Table = Callable[..., pd.DataFrame]
SIZE = {"width": 1024.0}


@pytest.fixture(scope="module")
def parts(sweep_table: Table) -> tuple[dict[str, Fit], tuple[Optimum, ...], Valley]:
    runs = read_runs(sweep_table(), size="width", tune="lr")
    optima = estimate_optima(runs, noise=estimate_noise(runs), level=0.9)
    valley = fit_valley(runs, optima)
    assert valley is not None
    return {"lr": fit_optimum_law(optima, tuned="lr", columns=["width"])}, optima, valley


def quality(parts, **choices) -> TransferQuality:
    laws, optima, valley = parts
    (found,) = transfer_quality(laws, optima, SIZE, valley=valley, **{"level": 0.9, **choices})
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
    found, valley = quality(parts), parts[2]
    u = np.linspace(-3, 3, 60001)
    cheap = u[valley.excesses(u[:, None], SIZE) <= 0.01]
    assert found.robustness == pytest.approx(cheap[-1] - cheap[0], abs=1e-3)
    assert found.robustness in found.robustness_pi


def test_fit_error_is_the_scatter_with_its_chi_square_interval(parts) -> None:
    found, law = quality(parts), parts[0]["lr"]
    assert found.fit_error == pytest.approx(law.scatter / np.log(2))
    for bound, p in zip(found.fit_error_ci, (0.95, 0.05), strict=True):
        expected = law.dof * found.fit_error**2 / bound**2
        assert expected == pytest.approx(stats.chi2.ppf(p, law.dof))


def test_intervals_widen_with_the_level_and_with_what_is_unknown(parts) -> None:
    laws, optima, valley = parts
    narrow, wide = quality(parts, level=0.5), quality(parts, level=0.99)
    assert wide.penalty_pi.lower < narrow.penalty_pi.lower
    assert wide.penalty_pi.upper > narrow.penalty_pi.upper
    vague = {"lr": replace(laws["lr"], scatter=3 * laws["lr"].scatter)}
    unsure = quality((vague, optima, valley), level=0.5)
    assert np.subtract(*unsure.penalty_pi) < 1.5 * np.subtract(*narrow.penalty_pi)
    sure = quality((laws, optima, replace(valley, relative_sd=None)))
    assert sure.robustness_pi == pytest.approx((sure.robustness, sure.robustness))


def test_where_the_optimum_does_not_move_keeping_it_costs_little(parts) -> None:
    laws, optima, valley = parts
    still = {"lr": replace(laws["lr"], values=(np.log(optima[-1].tuned["lr"].value), 0.0))}
    found = quality((still, optima, valley))
    assert found.octaves == pytest.approx(0.0, abs=1e-9)
    assert found.penalty < 0.01 * quality(parts).penalty


def test_steepening_is_the_trend_of_the_valley(parts) -> None:
    laws, optima, valley = parts
    assert quality((laws, optima, replace(valley, trend=(0.3,)))).steepening == 0.3


def test_without_a_bracketed_size_there_is_nothing_to_keep(parts) -> None:
    laws, optima, valley = parts
    lost = [replace(o, tuned={"lr": replace(o.tuned["lr"], value=None)}) for o in optima]
    with pytest.raises(DataError, match="needs a size whose optimum is bracketed"):
        quality((laws, lost, valley))
