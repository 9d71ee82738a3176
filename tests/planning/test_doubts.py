"""What the runs say against the form of a law, and the interval of the loss that counts it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap import allocate
from extrap.fitting import DISCREPANCY
from extrap.planning import (
    ChinchillaLaw,
    allocate_each,
    allocation,
    fit_chinchilla,
    law_of,
    optimal_split,
    parametric,
)
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


def test_structural_error_adds_its_three_parts(sound) -> None:
    """A share of the change since the largest budget, lack of fit there, and other forms."""
    doubt = replace(sound.doubt, law=LAW, share=0.2, offset=0.003, forms=())
    split = optimal_split(LAW, 4 * LAST)
    change = math.log(float(split.loss) / float(optimal_split(LAW, LAST).loss))
    for flops, share in ((4 * LAST, 0.2), (LAST / 2, 0.0)):
        at = doubt.prediction(optimal_split(LAW, flops), flops=flops)
        assert at.curve_log_sd == pytest.approx(math.hypot(share * change, 0.003))
    form = replace(sound.fitted, values=(LAW.E, *sound.fitted.values[1:]))
    other = replace(doubt, forms=((form, 0.25),)).prediction(split, flops=4 * LAST)
    off = math.log(float(law_of(form).loss(split.params, split.tokens)) / float(split.loss))
    assert other.log_loss == pytest.approx(math.log(float(split.loss)))
    assert other.curve_log_sd**2 == pytest.approx((0.2 * change) ** 2 + 0.003**2 + 0.25 * off**2)


def test_offset_is_that_of_the_three_best_splits_with_students_t(sound) -> None:
    """Of the runs above half of the largest compute, those of the lowest loss by the law."""
    assert sound.doubt.share == sound.doubt.missed == DISCREPANCY or sound.doubt.share > 0
    table = simulated()
    last = table[6 * table["params"] * table["tokens"] > LAST / 2]
    by_law = sound.law.loss(last["params"].to_numpy(), last["tokens"].to_numpy())
    best = np.argsort(by_law)[:3]
    residuals = np.log(last["loss"].to_numpy() / by_law)[best]
    assert sound.doubt.offset == pytest.approx(residuals.mean())
    t = abs(residuals.mean()) / (sound.fitted.scatter / math.sqrt(3))
    assert sound.doubt.p_value == pytest.approx(2 * stats.t.sf(t, sound.fitted.dof))
    assert sound.doubt.last_flops == pytest.approx(LAST)


def test_intervals_are_the_central_replicates(sound) -> None:
    """Floors spread evenly over 1.7 to 1.9 move the loss and nothing else."""
    even = LAW._replace(E=np.linspace(1.7, 1.9, 201))
    sure = replace(sound.doubt, share=0.0, offset=0.0, forms=(), law=LAW)
    found = replace(
        sound, law=LAW, replicates=ChinchillaLaw(*np.broadcast_arrays(*even)), doubt=sure
    ).estimate(1e22)
    at = optimal_split(LAW, 1e22)
    half = 0.1 * 0.95
    assert found.loss_if_right.ci == pytest.approx((float(at.loss) - half, float(at.loss) + half))
    assert found.params.ci == pytest.approx((float(at.params),) * 2)
    assert found.tokens_per_param.value == pytest.approx(float(at.tokens / at.params))
    assert found.exponent.value == pytest.approx(0.37 / 0.71)
    served = replace(sound, law=LAW, doubt=sure).serving(1e22, 1e12)
    cost = float(at.params * (6 * at.tokens + 2e12))
    total = served.params.value * (6 * served.tokens.value + 2e12)
    assert served.total_flops.value == pytest.approx(total)
    assert served.saving.value == pytest.approx(1 - total / cost)
    assert served.train_flops.value == pytest.approx(6 * served.params.value * served.tokens.value)
    again = replace(sound, law=LAW, doubt=sure).repeated(1e22, 1e10)
    epochs = again.tokens.value / 1e10
    assert again.epochs.value == pytest.approx(epochs)
    assert again.effective_epochs.value == pytest.approx(
        1 + 15.3878 * (1 - math.exp(-(epochs - 1) / 15.3878))
    )


def test_law_that_holds_brings_no_warning_and_one_that_bends_does(sound) -> None:
    assert sound.doubt.flags == []
    bent = fitted(bend=0.4, noise=0.001)
    assert bent.doubt.flags
    off = replace(bent.doubt, offset=-0.01, p_value=1e-4, missed=0.3)
    assert [flag[:23] for flag in off.flags] == [
        "law-bends: 1.0 % below ",
        "law-misses-largest-budg",
    ]
    assert "30 %" in off.flags[1]
    edge = replace(off, p_value=0.003, missed=0.2, offset=0.01)
    assert edge.flags == []
    assert "1.0 % above " in replace(edge, p_value=0.0029).flags[0]


def test_several_budgets_are_split_by_one_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parametric, "N_REPLICATES", 60)
    table, budgets = simulated(), (LAST, 4 * LAST)
    alone = [allocate(table, flops=budgets[0])]
    calls = []

    def counted(*args, **options):
        calls.append(1)
        return fit_chinchilla(*args, **options)

    monkeypatch.setattr(allocation, "fit_chinchilla", counted)
    both = allocate_each(table, budgets=budgets)
    assert both[0] == alone[0]
    assert [each.flops for each in both] == list(budgets)
    assert len(calls) == 1


def test_sides_are_widened_each_by_itself(sound) -> None:
    structural = sound.doubt.prediction(optimal_split(sound.law, 4 * LAST), flops=4 * LAST)
    value = math.exp(structural.log_loss)
    half = 1.96 * structural.curve_log_sd
    skewed = Measure(value=value, ci=Interval(value * math.exp(-0.1), value))
    low, high = widen(skewed, structural, level=0.95).ci
    assert math.log(high / value) == pytest.approx(half, rel=1e-3)
    assert math.log(value / low) == pytest.approx(math.hypot(0.1, half), rel=1e-3)
