"""The tuned loss of each seed: at the optimum of all, not of the luckiest run."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from extrap.comparing.tuned import tuned_losses
from extrap.records import Runs

RATES = np.arange(-11.0, -4.0)


def sweep(
    *, seeds=(0, 1, 2), noise: float = 0.0, best: float = -7.8, luck: int = 0
) -> pd.DataFrame:
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


def losses(frame: pd.DataFrame, tuned=("lr",)) -> dict:
    runs = Runs.from_frame(frame, sizes=["width"], tuned=tuned)
    return tuned_losses("a", runs).by_size[(16.0,)]


def test_without_noise_it_is_the_bottom_of_the_valley() -> None:
    found = losses(sweep())
    assert found.by_seed == pytest.approx({0: 0.7, 1: 0.71, 2: 0.72}, abs=1e-6)
    assert found.shape_variance == 0.0


def test_it_is_hardly_below_the_truth_where_the_best_run_is() -> None:
    found, lucky = [], []
    for luck in range(60):
        frame = sweep(seeds=(0, 1), noise=0.01, luck=luck)
        found.append(np.mean(list(losses(frame).by_seed.values())))
        here = frame[frame["width"] == 16]
        lucky.append(np.log(here.groupby("seed")["loss"].min()).mean())
    truth = 0.705
    assert abs(np.mean(found) - truth) < 0.0015
    assert np.mean(lucky) < truth - 0.002


def test_seeds_run_at_some_rates_share_the_valley_of_the_others() -> None:
    frame = sweep(noise=0.001)
    frame = frame[(frame["seed"] == 0) | (frame["lr"] == 2.0**-8)]
    found = losses(frame)
    assert set(found.by_seed) == {0, 1, 2}
    assert found.by_seed[1] - found.by_seed[0] == pytest.approx(0.01, abs=0.006)
    assert found.shape_variance > 0


def test_a_seed_for_each_run_gives_one_loss() -> None:
    frame = sweep(seeds=(0,), noise=0.001)
    found = losses(frame.assign(seed=[f"row-{i}" for i in range(len(frame))]))
    (value,) = found.by_seed.values()
    assert value == pytest.approx(0.7, abs=0.003)
    assert found.shape_variance > 0


def test_a_value_that_is_kept_is_no_edge() -> None:
    frame = sweep()
    runs = Runs.from_frame(frame[frame["lr"] == 2.0**-8], sizes=["width"], tuned=["lr"])
    assert tuned_losses("a", runs).flags == ()


def test_values_beyond_divergence_are_not_looked_at() -> None:
    frame = sweep()
    frame.loc[frame["lr"] == 2.0**-6, "loss"] = math.nan
    frame.loc[frame["lr"] == 2.0**-5, "loss"] = 1e-3  # nonsense, and lower than all
    assert losses(frame).by_seed == pytest.approx({0: 0.7, 1: 0.71, 2: 0.72}, abs=1e-4)
