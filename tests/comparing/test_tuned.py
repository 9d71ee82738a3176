"""The tuned loss of each seed: at the optimum of all, not of the luckiest run."""

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from extrap.comparing.tuned import tuned_losses
from extrap.errors import DataError
from extrap.records import Runs

RATES = np.arange(-11.0, -4.0)
EXACT = {0: 0.7, 1: 0.71, 2: 0.72}


def sweep(*, seeds=(0, 1, 2), noise=0.0, best=-7.8, luck=0):
    rng = np.random.default_rng(luck)
    rows = [
        {
            "width": width,
            "seed": seed,
            "lr": 2.0**rate,
            "loss": math.exp(0.7 + 0.01 * seed + 0.01 * (rate - best) ** 2 + noise * rng.normal()),
        }
        for width in (16, 32, 64)
        for seed in seeds
        for rate in RATES
    ]
    return pd.DataFrame(rows)


def losses(frame, tuned=("lr",)):
    runs = Runs.from_frame(frame, sizes=["width"], tuned=tuned)
    return tuned_losses("a", runs).by_size[(16.0,)]


def test_without_noise_it_is_the_bottom_of_the_excess_curve():
    found = losses(sweep())
    assert found.by_seed == pytest.approx(EXACT, abs=1e-6)
    assert (found.shape_variance, found.shape_dof) == (0.0, 0.0)


def test_it_is_hardly_below_the_truth_where_the_best_run_is():
    found, lucky = [], []
    for luck in range(30):
        frame = sweep(seeds=(0, 1), noise=0.01, luck=luck)
        frame = frame[frame["width"] == 16]
        found.append(np.mean(list(losses(frame).by_seed.values())))
        lucky.append(np.log(frame.groupby("seed")["loss"].min()).mean())
    assert np.mean(found) == pytest.approx(0.705, abs=0.0021)
    assert np.mean(lucky) < 0.705 - 0.002


def test_seeds_run_at_some_rates_share_the_curve_of_the_others():
    """statsmodels: one weighted cubic with a level for each seed, read at its bottom."""
    frame = sweep(noise=0.001)
    frame = frame[(frame["width"] == 16) & ((frame["seed"] == 0) | (frame["lr"] == 2.0**-8))]
    found = losses(frame)
    y, u = np.log(frame["loss"].to_numpy()), np.log2(frame["lr"].to_numpy())
    means = frame.groupby("lr")["loss"].apply(lambda v: np.log(v).mean())
    excess = frame["lr"].map(means - means.min()).to_numpy()
    kept = (excess <= 0.1) | frame["lr"].isin(means.sort_values().index[:5]).to_numpy()
    levels = (frame["seed"].to_numpy()[:, None] == np.arange(3)).astype(float)
    w = 1 / (1 + (excess / 0.01) ** 2)

    def level(centre):
        x = u - centre
        design = np.column_stack([levels, x, x**2, x**3])
        return sm.WLS(y[kept], design[kept], weights=w[kept]).fit()

    best = min(np.linspace(-8.2, -7.4, 801), key=lambda c: abs(level(c).params[3]))
    fit = level(best)
    for seed in range(3):
        assert found.by_seed[seed] == pytest.approx(fit.params[seed], abs=5e-4)
        gap = found.by_seed[seed] - found.by_seed[0]
        assert gap == pytest.approx(fit.params[seed] - fit.params[0], abs=1e-8)
    mean = np.array([1 / 3] * 3 + [0.0] * 3)
    assert found.shape_variance == pytest.approx(float(mean @ fit.cov_params() @ mean), rel=0.25)
    assert found.shape_dof == fit.df_resid


def test_a_seed_for_each_run_gives_one_loss():
    frame = sweep(seeds=(0,), noise=0.001)
    found = losses(frame.assign(seed=[f"row-{i}" for i in range(len(frame))]))
    (value,) = found.by_seed.values()
    assert value == pytest.approx(0.7, abs=0.003)
    assert 0 < found.shape_variance < 0.001**2
    assert found.shape_dof > 0


@pytest.mark.parametrize(
    ("best", "edges"), [(-20.0, 3), (-11.0, 3), (-10.0, 0), (-5.0, 3), (0.0, 3)]
)
def test_a_best_value_at_the_end_of_its_grid_is_flagged(best, edges):
    runs = Runs.from_frame(sweep(best=best), sizes=["width"], tuned=["lr"])
    found = tuned_losses("a", runs)
    assert [flag.split(":")[0] for flag in found.flags] == ["edge"] * edges
    frame = sweep()
    runs = Runs.from_frame(frame[frame["lr"] == 2.0**-8], sizes=["width"], tuned=["lr"])
    assert tuned_losses("a", runs).flags == ()  # a value that is kept


@pytest.mark.parametrize("side", [1, -1])
def test_values_beyond_divergence_are_not_looked_at(side):
    frame = sweep(best=-8 + 0.2 * side)
    frame.loc[frame["lr"] == 2.0 ** (-8 + 2 * side), "loss"] = math.nan
    frame.loc[frame["lr"] == 2.0 ** (-8 + 3 * side), "loss"] = 1e-3  # lower than all
    assert losses(frame).by_seed == pytest.approx(EXACT, abs=1e-4)
    with pytest.raises(DataError, match="none of 63"):
        losses(sweep().assign(loss=math.nan))
