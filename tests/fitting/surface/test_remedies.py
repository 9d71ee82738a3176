"""What is named against a refusal: what to run, and what it is expected to change."""

import math

import numpy as np
import pandas as pd
import pytest

import extrap
from benchmarks.sweeps import make_table, skewed, true_loss, true_lr
from extrap.fitting.surface.answers import answer
from extrap.fitting.surface.draws import draw
from extrap.fitting.surface.imagined_runs import expect_sizes, imagine
from extrap.fitting.surface.remedies import name_remedy
from extrap.fitting.surface.surface import Surface, fit_surfaces
from extrap.fitting.surface.sweep_arrays import arrays_of

TARGET = np.log2([768.0])
NOISE = 0.05


def fitted(table):
    runs = extrap.read_runs(table, size="width", tune="lr")
    return runs, *fit_surfaces(arrays_of(runs))


def asked(surfaces, weights):
    (drawn,), _ = draw(surfaces, weights, TARGET[None], rng=np.random.default_rng(0))
    return answer(drawn)


def named(sweep, **wish):
    return name_remedy(*sweep, TARGET, rng=np.random.default_rng(0), **wish)


def trained(remedy, rng, *, noise):
    """The runs of a remedy, of the same truth as `make_table`."""
    rows = pd.DataFrame(list(remedy.runs))
    rows = rows.loc[rows.index.repeat(remedy.seeds)].reset_index(drop=True)
    u = np.log2(rows["lr"] / true_lr(rows["width"]))
    excess = skewed(u, 0.03, np.where(u > 0, 0.5, -0.35)) + noise * rng.normal(size=len(rows))
    seed = 100 + np.arange(len(rows)) % remedy.seeds
    return rows.assign(loss=true_loss(rows["width"]) * np.exp(excess), seed=seed)


@pytest.fixture(scope="module")
def noisy():
    """A noisy sweep, the first remedy that is tried, and the widths: as it is, then with it."""
    table = make_table(noise=NOISE, seed=3)
    sweep, widths = fitted(table), []

    def is_second(told):
        widths.append((told.high - told.low)[0])
        return len(widths) > 1

    return table, sweep, named(sweep, is_enough=is_second), widths


def test_seeds_narrow_the_interval_as_much_as_a_refit_with_them(noisy):
    table, _, remedy, widths = noisy
    assert remedy.cause == "noise"
    assert remedy.n_runs == len(remedy.runs) * 3 * (remedy.times - 1)
    real = []
    for k in range(4):
        rows = trained(remedy, np.random.default_rng(k), noise=NOISE)
        then = asked(*fitted(pd.concat([table, rows], ignore_index=True))[1:])
        real.append((then.high - then.low)[0])
    assert np.mean(real) < 0.9 * widths[0]
    assert np.mean(widths[1:]) == pytest.approx(np.mean(real), rel=0.3)


def test_imagined_runs_add_information_about_the_optima(noisy):
    """With the same noise what they add is positive semidefinite, up to where the modes are."""
    _, (runs, surfaces, weights), remedy, _ = noisy
    rng = np.random.default_rng(0)
    expected = expect_sizes(surfaces, weights, np.zeros((0, 1)), rng=rng)
    whole = imagine(runs, remedy, expected, surfaces[0].noise, rng=rng)
    assert len(whole) == len(runs) + remedy.n_runs
    then, optima = Surface(arrays_of(whole)), surfaces[0].places.optimum[:, 0]
    noise = surfaces[0].noise
    before, after = (s.given_noise(noise)[1][np.ix_(optima, optima)] for s in (surfaces[0], then))
    added = np.linalg.eigvalsh(after - before)
    assert added.min() > -0.05 * added.max()
    assert np.trace(after) > 1.2 * np.trace(before)


def test_a_remedy_is_the_same_for_the_same_random_numbers():
    sweep = fitted(make_table(noise=0.15, seed=4, widths=(16, 32, 64)))
    first = named(sweep)
    assert first is not None
    assert named(sweep) == first


def test_lower_values_where_the_largest_size_diverged():
    """Runs diverge .8 octaves above the optimum of the largest size, and nowhere else."""
    table = make_table(noise=0.005, rates=2.0 ** np.arange(-7, -1), seed=5)
    off = np.log2(table["lr"] / true_lr(192))
    table.loc[(table["width"] == 192) & (off > 0.8), "loss"] = math.inf
    assert np.isinf(table.loc[table["width"] == 192, "loss"]).all()
    remedy = named(fitted(table))
    assert (remedy.cause, remedy.column, remedy.side) == ("edge", "lr", "low")
    lowest = table["lr"].min()
    assert 192.0 in {row["width"] for row in remedy.runs}
    assert max(row["lr"] for row in remedy.runs) < lowest
    assert remedy.cost < 0.03
    assert remedy.chance < 0.1


def test_an_answered_sweep_has_no_remedy():
    assert named(fitted(make_table(noise=0.004, seed=2))) is None


def test_finer_values_where_they_are_coarse():
    table = make_table(noise=0.003, rates=0.005 * 2.0 ** np.array([-5, 0, 5]))
    remedy = named(fitted(table))
    assert (remedy.cause, remedy.column, remedy.times) == ("grid", "lr", 4)
    octaves = np.unique(np.round(np.log2([row["lr"] / 0.005 for row in remedy.runs]), 6))
    assert set(octaves) <= set(np.arange(-20, 21) * 1.25)
    assert not set(octaves) & {-5.0, 0.0, 5.0}


def test_a_smaller_target_where_no_runs_would_do():
    """A wish that only nearer sizes meet, whatever is run: the answer's own value."""
    sweep = fitted(make_table(noise=0.004, seed=2))
    middle = answer(draw(*sweep[1:], TARGET[None] - 1, rng=np.random.default_rng(0))[0][0]).values
    remedy = named(sweep, is_enough=lambda told: told.values[0] > middle[0] - 0.2)
    assert remedy.target == {"width": pytest.approx(384.0)}
    assert not remedy.runs
