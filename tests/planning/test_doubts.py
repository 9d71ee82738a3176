"""What the runs say against the form of a law, and the interval of the loss that counts it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from extrap import allocate
from extrap.fitting import DISCREPANCY
from extrap.planning import ChinchillaLaw, allocate_each, allocation, fit_chinchilla, optimal_split
from extrap.planning.doubts import widen
from extrap.planning.parametric import FittedLaw
from extrap.records import Interval, Measure

LAW = ChinchillaLaw(E=1.8, A=480.0, B=2000.0, alpha=0.34, beta=0.37)
LAST = 6e18 * 4.0**4


def truth(params, tokens, *, bend: float = 1.0):
    """`E + (A / N^α + B / D^β)^k`: with k = 1 the law that is fitted."""
    return LAW.E + (LAW.loss(params, tokens) - LAW.E) ** bend


def simulated(*, bend: float = 1.0, noise: float = 0.003, seed: int = 0) -> pd.DataFrame:
    """Nine sizes around the best one at each of five budgets."""
    rng = np.random.default_rng(seed)
    budgets = np.repeat(6e18 * 4.0 ** np.arange(5), 9)
    best = np.array([float(optimal_split(LAW, c).params) for c in budgets])
    params = best * np.tile(6.0 ** np.linspace(-1, 1, 9), 5)
    tokens = budgets / 6 / params
    loss = truth(params, tokens, bend=bend) * np.exp(noise * rng.normal(size=len(params)))
    return pd.DataFrame({"params": params, "tokens": tokens, "loss": loss})


def fitted(**options: float) -> FittedLaw:
    table = simulated(**options)
    columns = (table[name].to_numpy() for name in ("params", "tokens", "loss"))
    return fit_chinchilla(*columns, level=0.95, seed=0)


@pytest.fixture(scope="module")
def sound() -> FittedLaw:
    return fitted()


def test_loss_of_a_law_that_bends_is_held_though_its_bootstrap_misses_it() -> None:
    found = fitted(bend=0.8).estimate(4 * LAST)
    true = float(truth(found.params.value, found.tokens.value, bend=0.8))
    assert true not in found.loss_if_right.ci
    assert true in found.loss.ci
    assert found.loss.value == found.loss_if_right.value


def test_interval_counts_a_share_of_the_change_since_the_largest_budget(sound) -> None:
    assert sound.doubt.share == DISCREPANCY
    inside, beyond = sound.estimate(LAST), sound.estimate(4 * LAST)
    change = math.log(beyond.loss.value / inside.loss.value)
    for found, least in ((inside, 0.0), (beyond, 1.96 * DISCREPANCY * abs(change))):
        own = math.log(found.loss_if_right.ci.upper / found.loss.value)
        both = math.log(found.loss.ci.upper / found.loss.value)
        assert both >= math.hypot(own, least) * 0.999
        assert both <= math.hypot(own, least) + 0.005


def test_repeated_data_and_serving_count_it_too(sound) -> None:
    flops = 4 * LAST
    free = sound.estimate(flops)
    assert sound.serving(flops, 1e12).loss == free.loss
    repeated = sound.repeated(flops, 1e9).loss
    assert math.log(repeated.ci.upper / repeated.value) > math.log(free.loss.ci.upper) - math.log(
        free.loss_if_right.ci.upper
    )


def test_law_that_holds_brings_no_warning_and_one_that_bends_does(sound) -> None:
    assert sound.doubt.flags == []
    bent = fitted(bend=0.4, noise=0.001)
    assert bent.doubt.flags
    off = replace(bent.doubt, offset=-0.01, p_value=1e-4, missed=0.3)
    assert off.flags == [
        "law-bends: 1.0% below it at the largest budgets",
        "law-misses-largest-budgets: by up to 30% of the change it predicts",
    ]
    table = simulated(bend=0.4, noise=0.001)
    assert set(bent.doubt.flags) <= set(allocate(table, flops=4 * LAST).warnings)


def test_pinned_laws_are_doubted_with_their_pins() -> None:
    table = simulated()
    for fix in ({"E": 1.8}, {"c1": 0.34, "c2": 0.37}):
        found = allocate(table, flops=4 * LAST, fix=fix)
        assert found.discrepancy >= DISCREPANCY
        assert found.loss.ci.lower < found.chosen.loss_if_right.ci.lower


def test_several_budgets_are_split_by_one_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    table, budgets = simulated(), (LAST, 4 * LAST)
    alone = [allocate(table, flops=flops) for flops in budgets]
    calls = []

    def counted(*args, **options):
        calls.append(1)
        return fit_chinchilla(*args, **options)

    monkeypatch.setattr(allocation, "fit_chinchilla", counted)
    assert list(allocate_each(table, budgets=budgets)) == alone
    assert len(calls) == 1


def test_sides_are_widened_each_by_itself(sound) -> None:
    structural = sound.doubt.prediction(optimal_split(sound.law, 4 * LAST), flops=4 * LAST)
    value = math.exp(structural.log_loss)
    half = 1.96 * structural.curve_log_sd
    skewed = Measure(value=value, ci=Interval(value * math.exp(-0.1), value))
    low, high = widen(skewed, structural, level=0.95).ci
    assert math.log(high / value) == pytest.approx(half, rel=1e-3)
    assert math.log(value / low) == pytest.approx(math.hypot(0.1, half), rel=1e-3)
