"""Where the truth is known: how often the intervals hold.

    python -m benchmarks.simulated [--replicates N]

Sweeps of 4 to 12 sizes, each twice the one before, with 1 to 3 seeds and noise of .3 or 1 %, drawn
from laws inside the family and from others; a new run at 4, 16 and 64 times the largest size.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pandas as pd

import extrap
from benchmarks import sweeps
from benchmarks.page import print_rows
from benchmarks.rows import Row, share_row
from benchmarks.scores import LEVEL, score_forecast

Truth = Callable[[np.ndarray], np.ndarray]

RATIOS = (4.0, 16.0, 64.0)
N_REPLICATES = 12
SIZES, SEEDS, NOISES = (4, 6, 8, 12), (1, 2, 3), (0.003, 0.01)
WELL: tuple[Truth, ...] = (
    lambda x: 1.7 + 1.5 * x**-0.4,
    lambda x: 1.0 + 2.0 * x**-0.6,
    lambda x: 0.8 + 2.5 * x**-0.2,
    lambda x: 4.0 * x**-0.1,
    lambda x: 3.0 * x**-0.25,
    lambda x: 7.0 - 0.275 * np.log(16 * x),
    lambda x: 3.0 - 0.12 * np.log(x),
)
"""Power laws with and without a floor, and a line in the logarithm of the size."""
OTHER: tuple[Truth, ...] = (
    lambda x: 1.2 + 2.0 * (x**-0.8 + 0.02) ** 0.4,
    lambda x: 1.5 + 1.5 * (x**-0.5 + 0.05) ** 0.5,
)
"""Powers with a floor within and beside them."""
N_NUMBERS = 13
"""Of truths for each layout of a sweep, four of which are drawn no more: draws are by number."""


def settings() -> dict[int, tuple[str, Truth, int, int, float]]:
    """Number → kind, truth, sizes, seeds, noise."""
    truths = [("well", truth) for truth in WELL] + [("other", truth) for truth in OTHER]
    layouts = itertools.product(SIZES, SEEDS, NOISES)
    return {
        N_NUMBERS * i + j: (*truth, *layout)
        for i, layout in enumerate(layouts)
        for j, truth in enumerate(truths)
    }


def simulate(task: tuple[int, int]) -> list[dict[str, object]]:
    """All replicates of one setting; a row a replicate and ratio."""
    number, n_replicates = task
    kind, truth, n, seeds, noise = settings()[number]
    rows = []
    for replicate in range(n_replicates):
        rng = np.random.default_rng([number, replicate])
        axes = {"seed": range(seeds), "x": 2.0 ** np.arange(n)}
        table = sweeps.simulate(lambda seed, x: truth(x), noise=noise, rng=rng, **axes)
        table["seed"] = range(len(table))  # every run's own: none shifts all sizes alike
        made = extrap.forecast(extrap.read_runs(table, size="x"), level=LEVEL)
        for ratio in RATIOS:
            target = ratio * 2.0 ** (n - 1)
            new = float(truth(np.array([target]))[0] * np.exp(noise * rng.normal()))
            found = score_forecast(made, [{"x": target}], [new])
            row = {"kind": kind, "sizes": n, "ratio": ratio, "held": found["held_90"].iloc[0]}
            rows.append(row)
    return rows


def simulate_all(n_replicates: int = N_REPLICATES) -> pd.DataFrame:
    """Every setting; one row a replicate and ratio."""
    tasks = [(number, n_replicates) for number in settings()]
    with ProcessPoolExecutor(2) as pool:
        return pd.DataFrame([row for rows in pool.map(simulate, tasks) for row in rows])


def rows(table: pd.DataFrame) -> list[Row]:
    """The figures."""
    part, well = "simulated, nominal 90 %", table[table["kind"] == "well"]
    long = table[(table["kind"] == "other") & (table["sizes"] >= 6)]
    return [
        share_row(part, "default, truth inside the family: holds", well["held"], least=0.93),
        *(
            share_row(
                part,
                f"default, truth outside the family, ≥ 6 sizes, {words}: holds",
                here["held"],
                least=least,
            )
            for words, here, least in (
                ("×4–×16", long[long["ratio"] <= 16], 0.87),
                ("×64 (conditional on no new regime)", long[long["ratio"] > 16], 0.65),
            )
        ),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--replicates", type=int, default=N_REPLICATES, help="of each setting")
    print_rows(rows(simulate_all(parser.parse_args().replicates)))
