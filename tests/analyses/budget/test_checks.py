"""A split held against runs at its budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd
import pytest
from scipy import stats

from extrap.analyses.budget import AllocationCheck, AllocationReport, check_allocation
from extrap.errors import DataError
from extrap.records import Interval, Measure

PARAMS = 1000.0
SEEDS = (0.01, -0.02, 0.015, -0.005)
FORECAST = Measure(value=2.0, ci=Interval(1.95, 2.05))


def checked(losses: Mapping[float, float], forecast: Measure = FORECAST) -> AllocationCheck:
    rows = [
        {
            "n_params": round(1.02 * factor * PARAMS),
            "tokens": 5000.0 / factor,
            "lr": 0.01,
            "seed": seed,
            "loss": loss + noise + 0.001 * seed * factor,
            "epochs": 0.5,
        }
        for factor, loss in losses.items()
        for seed, noise in enumerate(SEEDS)
    ]
    return check_allocation(
        pd.DataFrame(rows), params=PARAMS, factors=tuple(losses), forecast=forecast, level=0.95
    )


def test_seeds_are_paired_so_that_their_noise_cancels() -> None:
    check = checked({2.0: 2.02, 0.5: 2.03, 1.0: 2.0})
    assert [split.factor for split in check.splits] == [0.5, 1.0, 2.0]
    assert [split.params for split in check.splits] == [510, 1020, 2040]
    half, base, twice = check.splits
    assert check.recommended is base
    assert base.excess == Measure(value=0.0, ci=Interval(0.0, 0.0))
    assert half.excess.value == pytest.approx(0.02925)
    assert twice.excess.value == pytest.approx(0.0215)
    for split in (half, twice):
        paired = stats.ttest_rel(split.losses, base.losses).confidence_interval(0.95)
        own = stats.ttest_1samp(split.losses, 0).confidence_interval(0.95)
        assert split.excess.ci == pytest.approx(tuple(paired))
        assert split.loss.ci == pytest.approx(tuple(own))
        assert split.loss.value == pytest.approx(sum(split.losses) / 4)
    assert (twice.tokens, twice.lr, twice.epochs) == (2500, 0.01, 0.5)
    assert check.best is base
    assert check.is_best
    assert check.holds
    assert check.n_predicted == 4  # nothing was predicted, and an open interval holds all
    near = Measure(value=2.0, ci=Interval(1.985, 2.05))
    assert replace(check, prediction=near).n_predicted == 3


def test_a_better_split_and_a_missed_loss_are_said() -> None:
    check = checked({0.5: 1.97, 1.0: 2.1, 2.0: 2.2})
    assert check.best.factor == 0.5
    assert not check.is_best
    assert not check.holds
    assert not report_of(check).is_borne_out


def test_a_split_is_borne_out_where_it_is_best_and_its_loss_was_forecast() -> None:
    near = {"prediction": Measure(value=2.0, ci=Interval(1.9, 2.1))}
    check = replace(checked({0.5: 2.1, 1.0: 2.0, 2.0: 2.2}), **near)
    assert report_of(check).is_borne_out
    far = {"prediction": Measure(value=3.0, ci=Interval(2.9, 3.1))}
    assert not report_of(replace(check, **far)).is_borne_out


def report_of(check: AllocationCheck) -> AllocationReport:
    return AllocationReport(
        found=None, course={}, check=check, optima=None, runs=None, column="width", n_runs=12
    )


def test_a_lower_mean_that_is_not_told_from_noise_does_not_count() -> None:
    close = checked({0.5: 2.0001, 1.0: 2.0, 2.0: 2.2})
    assert close.best.factor == 0.5  # what seed times factor adds is less there
    assert close.is_best


def test_a_split_without_runs_is_refused() -> None:
    runs = pd.DataFrame(
        {"n_params": [1000.0], "tokens": 1.0, "lr": 0.1, "seed": 0, "loss": 2.0, "epochs": 1.0}
    )
    with pytest.raises(DataError, match="1000 parameters, got 1"):
        check_allocation(runs, params=PARAMS, factors=(1.0,), forecast=FORECAST, level=0.95)
