"""Sweeps that say little or are odd: an answer without NaN, or one line of refusal."""

import math

import numpy as np
import pandas as pd
import pytest

import extrap
from benchmarks.sweeps import make_table, simulate
from extrap.fitting.surface.answers import answer
from extrap.fitting.surface.draws import draw
from extrap.fitting.surface.surface import fit_surfaces
from extrap.fitting.surface.sweep_arrays import arrays_of
from extrap.records.confidence import HIGH_CHANCE, HIGH_COST


def asked(table, tune=("lr",), octaves=2.0):
    """The answer that many octaves above the largest size."""
    sweep = arrays_of(extrap.read_runs(table, size="width", tune=list(tune)))
    surfaces, weights = fit_surfaces(sweep)
    target = sweep.log_sizes[-1:] + octaves
    (found,), losses = draw(surfaces, weights, target, rng=np.random.default_rng(0))
    assert np.isfinite(losses).all()
    said = answer(found)
    for part in (said.values, said.low, said.high, said.cost, said.mistuned, said.chance):
        assert np.isfinite(part).all()
    assert (said.low <= said.high).all()
    return said


def last_size_at(table, factor):
    """The best run of the largest size is off by a factor."""
    table = table.copy()
    best = table.loc[table["width"] == table["width"].max(), "loss"].idxmin()
    table.loc[best, "loss"] *= factor
    return table


def over_decades():
    """Rates over 12 decades, losses over six e-folds."""
    axes = {"width": (16, 32, 64, 128), "lr": 10.0 ** np.arange(-9, 4)}
    cost = {"optimum": lambda width: 0.005, "cost": lambda u: np.minimum(0.02 * u**2, 6)}
    return simulate(lambda width: 2 + 8 / width, noise=0.01, **cost, **axes)


def many_runs():
    axes = {"width": 2.0 ** np.arange(4, 9), "lr": 2.0 ** np.arange(-12, -4.0), "seed": range(50)}
    return simulate(
        lambda width, lr, seed: 2 + 0.02 * np.log2(lr / 0.005) ** 2 + 8 / width, noise=0.01, **axes
    )


DOUBTFUL = {
    "one size": lambda: make_table(widths=(64,)),
    "12 decades": over_decades,
    "no effect but noise": lambda: make_table().assign(
        loss=lambda t: 2 * np.exp(0.05 * np.random.default_rng(0).normal(size=len(t)))
    ),
    "half of them diverged at random": lambda: make_table().assign(
        loss=lambda t: t["loss"].where(np.random.default_rng(1).random(len(t)) < 0.5, math.inf)
    ),
    "the largest two sizes diverged": lambda: make_table().assign(
        loss=lambda t: t["loss"].where(t["width"] < 100, math.inf)
    ),
    "all values far above the best": lambda: make_table(rates=2.0 ** np.arange(-4, 0)),
}
ANSWERED = {
    "two sizes": lambda: make_table(widths=(64, 128)),
    "64 seeds": lambda: make_table(seeds=64),
    "2,000 runs": many_runs,
    "outlier above": lambda: last_size_at(make_table(), 1.3),
    "outlier below": lambda: last_size_at(make_table(), 0.7),
    "one seed": lambda: make_table(seeds=1),
}


@pytest.mark.parametrize("name", DOUBTFUL)
def test_a_sweep_that_cannot_tell_is_refused_or_doubted(name):
    said = asked(DOUBTFUL[name]())
    assert said.mistuned > HIGH_COST or said.chance > HIGH_CHANCE


@pytest.mark.parametrize("name", ANSWERED)
def test_an_odd_sweep_is_answered(name):
    said = asked(ANSWERED[name](), octaves=1.0)
    assert not said.refusal
    assert said.high[0] - said.low[0] < 4


def test_where_all_losses_are_equal_no_value_costs_anything():
    said = asked(make_table().assign(loss=2.0))
    assert said.mistuned < 1e-3
    assert said.high[0] - said.low[0] > 3


def test_a_sweep_whose_runs_all_diverged_is_refused():
    with pytest.raises(extrap.DataError, match="all diverged"):
        asked(make_table().assign(loss=math.inf))


def test_one_run_is_refused():
    with pytest.raises(extrap.DataError, match="lr"):
        asked(make_table().head(1))


@pytest.mark.parametrize("tune", [("lr",), ("lr", "wd")])
def test_a_column_of_one_value_is_refused_by_its_name(tune):
    table = make_table().assign(wd=0.1)
    table["lr"] = table["lr"] if len(tune) == 2 else 0.01
    with pytest.raises(extrap.DataError, match=tune[-1]):
        asked(table, tune)


def test_noise_of_ten_thousand_runs():
    table = make_table(seeds=250, noise=0.01)
    said = asked(table)
    assert not said.refusal


def test_order_and_units_of_runs_do_not_matter():
    table = make_table(noise=0.01)
    shuffled = table.sample(frac=1, random_state=1).assign(
        lr=lambda t: t["lr"] * 1024, width=lambda t: t["width"] * 4
    )
    one, other = (asked(t) for t in (table, pd.DataFrame(shuffled)))
    assert other.values - 10 == pytest.approx(one.values, abs=0.05)
    assert other.low - 10 == pytest.approx(one.low, abs=0.05)
