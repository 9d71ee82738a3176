"""Two sweeps side by side: differences of exponents and of losses, with their intervals."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap.comparing import compare_losses, compare_slopes
from extrap.forecasting import forecast
from extrap.reading import read_runs

Table = Callable[..., pd.DataFrame]
TARGET = {"width": 1024.0}


def made_of(table, **options):
    return forecast(read_runs(table, size="width", tune="lr"), **options)


@pytest.fixture(scope="module")
def falling(sweep_table):
    """The best rate falls as width^-0.4."""
    return made_of(sweep_table())


@pytest.fixture(scope="module")
def still(sweep_table):
    """The best rate stays put: every rate of the other sweep times width^0.4."""
    table = sweep_table(seed=1)
    return made_of(table.assign(lr=table["lr"] * (table["width"] / 16) ** 0.4))


def test_slopes_have_their_intervals_and_their_difference_is_antisymmetric(still, falling):
    (found,), (back,) = compare_slopes(still, falling), compare_slopes(falling, still)
    assert (found.tuned, found.column) == ("lr", "width")
    assert found.difference.value == found.slope.value - found.baseline.value
    assert found.difference.value == pytest.approx(0.4, abs=0.1)
    for slope, made in ((found.slope, still), (found.baseline, falling)):
        fit = made.tuned_laws["lr"]
        half = stats.t.ppf(0.975, fit.dof) * math.sqrt(fit.covariance[1][1])
        assert tuple(slope.ci) == pytest.approx((fit.values[1] - half, fit.values[1] + half))
    ends = [-side for side in reversed(back.difference.ci)]
    assert tuple(found.difference.ci) == pytest.approx(ends)
    (lacks,) = compare_slopes(falling, replace(falling, tuned_laws={"lr": None}))
    assert (lacks.slope is None, lacks.baseline, lacks.difference) == (False, None, None)


def with_law(made, slope, se, dof):
    fit = made.tuned_laws["lr"]
    known = replace(
        fit, values=(fit.values[0], slope), covariance=((0.0, 0.0), (0.0, se**2)), dof=dof
    )
    return replace(made, tuned_laws={"lr": known})


def test_difference_of_slopes_is_welchs(falling):
    """SciPy's t-test of two samples whose means have these standard errors."""
    samples = [np.array([0.0, 0.1, 0.3, 0.2]), np.array([0.0, 0.5, 0.1, 0.9, 0.2, 0.3])]
    ours, theirs = (with_law(falling, v.mean(), stats.sem(v), len(v) - 1) for v in samples)
    (found,) = compare_slopes(ours, theirs)
    test = stats.ttest_ind(*samples, equal_var=False)
    assert found.difference.dof == pytest.approx(test.df)
    assert tuple(found.difference.ci) == pytest.approx(tuple(test.confidence_interval()))
    (found,) = compare_slopes(ours, with_law(falling, 0.0, 0.0, 4))  # a pinned slope
    assert found.difference.ci == pytest.approx(found.slope.ci)
    (both,) = compare_slopes(with_law(falling, 0.1, 0.0, 3), with_law(falling, 0.0, 0.0, 4))
    assert both.difference.ci == (0.1, 0.1)


def test_losses_are_compared_at_common_sizes_and_at_the_target(sweep_table):
    """Intervals of fitted losses and of their ratio by Student's t."""
    ours = made_of(sweep_table())
    table = sweep_table(widths=(32.0, 64.0, 128.0, 192.0, 256.0), seed=1)
    worse = made_of(table.assign(loss=1.1 * table["loss"]))
    rows = compare_losses(ours, worse, target=TARGET)
    assert [row.size["width"] for row in rows] == [32, 64, 128, 192, 1024]
    assert [row.is_forecast for row in rows] == [False] * 4 + [True]
    assert all(1 / 1.1 in row.ratio_ci for row in rows)
    for row, one, other in zip(rows[:-1], ours.optima[1:], worse.optima, strict=False):
        ses, dofs = [o.loss_se / o.loss for o in (one, other)], []
        both = (row.of_sweep, row.of_baseline)
        for tuned, se, made in zip(both, ses, (ours, worse), strict=True):
            dofs.append(made.noise.size_dof)
            half = stats.t.ppf(0.975, dofs[-1]) * se
            assert math.log(tuned.ci.upper / tuned.loss) == pytest.approx(half)
        se = math.hypot(*ses)
        assert dofs[0] == dofs[1]  # equal ones count as one estimate, wider than Welch's test
        assert row.ratio == pytest.approx(one.loss / other.loss)
        low, high = (math.log(side / row.ratio) for side in row.ratio_ci)
        assert (high, -low) == pytest.approx((stats.t.ppf(0.975, dofs[0]) * se,) * 2)
    at = rows[-1]
    wide = [math.log(each.ci.upper / each.ci.lower) for each in (at.of_sweep, at.of_baseline)]
    assert max(wide) < math.log(at.ratio_ci.upper / at.ratio_ci.lower) < sum(wide)
    assert at.of_sweep.loss == ours.at(**TARGET).loss


def test_loss_at_the_edge_of_a_grid_or_below_all_sizes_is_not_compared(sweep_table, still):
    edge = made_of(sweep_table(rates=(2**-12, 2**-11, 2**-10)))
    for row in compare_losses(still, edge, target=TARGET):
        assert (row.of_baseline.loss, row.ratio, row.ratio_ci) == (None, None, (None, None))
        assert row.of_baseline.ci.upper is not None
    large = made_of(sweep_table(widths=(64.0, 128.0, 192.0, 256.0)))
    row = compare_losses(still, large, target={"width": 32.0})[-1]
    assert (row.of_sweep.loss is None, row.of_baseline.loss, row.ratio) == (False, None, None)


def test_sweeps_of_other_columns_or_levels_are_not_compared(sweep_table, falling):
    renamed = sweep_table().rename(columns={"lr": "rate"})
    other = forecast(read_runs(renamed, size="width", tune="rate"))
    with pytest.raises(ValueError, match="lr; got rate"):
        compare_slopes(falling, other)
    with pytest.raises(ValueError, match=r"0\.95; got 0\.9"):
        compare_losses(falling, replace(falling, level=0.9), target=TARGET)
