"""Splits of a budget under a law that is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap.analyses.allocation import AllocationReport, check_allocation
from extrap.analyses.allocation.budget_splits import (
    ChinchillaLaw,
    optimal_split,
    repeated_split,
    served_split,
)
from extrap.errors import DataError
from extrap.records import Interval, Measure

LAW = ChinchillaLaw(E=1.8172, A=482.01, B=2085.43, alpha=0.3478, beta=0.3658)
FLOPS = 5.76e23


def test_closed_form_is_the_minimum_along_the_budget():
    best = optimal_split(LAW, FLOPS)
    others = best.params * np.exp(np.linspace(-2, 2, 401))
    losses = LAW.loss(others, FLOPS / 6 / others)
    assert 6 * best.params * best.tokens == pytest.approx(FLOPS)
    assert np.argmin(losses) == 200
    assert best.loss == pytest.approx(losses[200])


def test_enough_unique_tokens_change_nothing():
    free = optimal_split(LAW, FLOPS)
    same = repeated_split(LAW, FLOPS, unique_tokens=2 * float(free.tokens))
    assert same.params == pytest.approx(free.params, rel=1e-6)
    assert same.loss == pytest.approx(free.loss, rel=1e-12)


def test_repeated_split_has_the_least_loss_of_the_published_law():
    unique = 2e11
    found = repeated_split(LAW, FLOPS, unique_tokens=unique)
    params = float(found.params) * np.exp(np.linspace(-1, 1, 201))
    tokens = FLOPS / 6 / params
    # arXiv 2305.16264, Eq. 5 and 6
    paid = (LAW.alpha * LAW.A / (LAW.beta * LAW.B) * unique**LAW.beta) ** (1 / LAW.alpha)
    paid, fresh = np.minimum(paid, params), np.minimum(tokens, unique)
    worth_n = paid * (1 - 5.3097 * np.expm1(-(params / paid - 1) / 5.3097))
    worth_d = fresh * (1 - 15.3878 * np.expm1(-(tokens / fresh - 1) / 15.3878))
    losses = LAW.loss(worth_n, worth_d)
    assert np.argmin(losses) == 100
    assert found.loss == pytest.approx(losses[100], rel=1e-9)


def test_serving_takes_a_smaller_model_to_the_same_loss():
    free = optimal_split(LAW, FLOPS)
    served = [served_split(LAW, FLOPS, inference_tokens=t) for t in (1e-3, 1e12, 1e14)]
    assert served[0].params == pytest.approx(free.params, rel=1e-4)
    assert served[2].params < served[1].params < free.params
    for split in served:
        assert LAW.loss(split.params, split.tokens) == pytest.approx(free.loss, rel=1e-9)


def test_serving_is_the_cheapest_of_all_models_of_that_loss():
    served = served_split(LAW, FLOPS, inference_tokens=1e13)
    params = float(served.params) * np.exp(np.linspace(-0.3, 0.3, 201))
    left = served.loss - LAW.E - LAW.A * params**-LAW.alpha
    tokens = (left / LAW.B) ** (-1 / LAW.beta)
    assert np.argmin(params * (6 * tokens + 2e13)) == 100


def test_replicates_are_split_one_by_one():
    scale = np.array([0.9, 1.0, 1.1])
    many = ChinchillaLaw(*(np.asarray(v) * scale for v in LAW))
    for split in (
        lambda law: optimal_split(law, FLOPS),
        lambda law: repeated_split(law, FLOPS, unique_tokens=2e11),
        lambda law: served_split(law, FLOPS, inference_tokens=1e13),
    ):
        assert split(many).params[1] == pytest.approx(float(split(LAW).params), rel=1e-9)
        assert split(many).params.shape == (3,)


PARAMS = 1000.0
SEEDS = (0.01, -0.02, 0.015, -0.005)
FORECAST = Measure(value=2.0, ci=Interval(1.95, 2.05))


def checked(losses, forecast=FORECAST):
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


def test_of_two_sizes_near_a_factor_the_nearer_is_its_split():
    row = {"tokens": 5000.0, "lr": 0.01, "epochs": 0.5}
    rows = [
        {**row, "n_params": n, "seed": seed, "loss": 2.0 + seed}
        for n in (1150, 1020)
        for seed in range(2)
    ]
    (split,) = check_allocation(
        pd.DataFrame(rows), params=PARAMS, factors=(1.0,), forecast=FORECAST, level=0.95
    ).splits
    assert (split.params, split.losses) == (1020, (2.0, 3.0))


def test_seeds_are_paired_so_that_their_noise_cancels():
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


def test_a_better_split_and_a_missed_loss_are_said():
    check = checked({0.5: 1.97, 1.0: 2.1, 2.0: 2.2})
    assert check.best.factor == 0.5
    assert not check.is_best
    assert not check.holds
    assert not report_of(check).is_borne_out


def test_a_split_is_borne_out_where_it_is_best_and_its_loss_was_forecast():
    near = {"prediction": Measure(value=2.0, ci=Interval(1.9, 2.1))}
    check = replace(checked({0.5: 2.1, 1.0: 2.0, 2.0: 2.2}), **near)
    assert report_of(check).is_borne_out
    far = {"prediction": Measure(value=3.0, ci=Interval(2.9, 3.1))}
    assert not report_of(replace(check, **far)).is_borne_out


def report_of(check):
    return AllocationReport(
        allocation=None, course={}, check=check, optima=None, runs=None, column="width", n_runs=12
    )


def test_a_lower_mean_that_is_not_told_from_noise_does_not_count():
    close = checked({0.5: 2.0001, 1.0: 2.0, 2.0: 2.2})
    assert close.best.factor == 0.5  # what seed times factor adds is less there
    assert close.is_best


def test_a_split_without_runs_is_refused():
    runs = pd.DataFrame(
        {"n_params": [1000.0], "tokens": 1.0, "lr": 0.1, "seed": 0, "loss": 2.0, "epochs": 1.0}
    )
    with pytest.raises(DataError, match="1000 parameters, got 1"):
        check_allocation(runs, params=PARAMS, factors=(1.0,), forecast=FORECAST, level=0.95)
