"""Tuning at the large size itself: Optuna's TPE with the compute of the small sweep.

What a user does without a forecast: run TPE at the target for as many runs as the compute of the
small sweep buys there, and take the best. Its best run is a large run already; a forecast's values
are still to be trained, which is not counted. Where the compute buys no run, TPE has no answer,
and where a forecast is refused, extrap has none.

1. Sweeps drawn by `benchmarks.calibrate` at 2, 4, 8 and 16 times their largest size. The compute
   buys a median of 13, 6, 3 and 1 runs there, so that all but a few runs of TPE are random. A
   run's compute is its size, all sizes seeing the same data, which favors TPE: with data that grow
   with the size a sweep buys fewer runs. TPE sees noisy losses; the extra loss is the true one.
2. `studies/metz_full.csv`, widths to 256, at 512, 1024 and 2048; Step Law's cells below 5.3e8
   parameters, at the five larger ones. A run is looked up: that of the grid nearest to the values,
   in octaves. The extra loss is over the best of the cell. Misfitting's cells have too few rates.

TPE has Optuna's defaults: its first ten runs are random. It searches the range of values of the
small sweep, on a logarithmic scale; in simulated sweeps also three octaves below it, as best rates
fall with the size and would else lie outside in some.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import optuna
import pandas as pd

import extrap
from benchmarks import calibrate, optima, own_sweeps
from benchmarks.rows import DATA
from benchmarks.sweeps import SimulatedSweep, forecast_of

Array = np.ndarray
DRAWS, N_SWEEPS, N_DRAWN_STUDIES, N_STUDIES = 31, 40, 50, 200
"""First number of the seeds, sweeps, studies of TPE per drawn sweep and per cell of a table."""
RATIOS = (2, 4, 8, 16)
MAX_RUNS = 60
"""Runs of one study; the sweeps of tables buy more in some cells."""
BELOW = 3.0
"""Octaves below the rates of a simulated sweep that are searched too."""
LARGEST_FITTED = 256
DIVERGED = 1.0
"""Extra log loss that a diverged run counts with."""
FORECAST, TPE = "extrap", "Optuna's TPE at the target (its first 10 runs are random)"
SMALLEST, LARGEST = "smallest size's values", "largest fitted size's values"
SIMULATED = "simulated, {} times the largest size"
COUNTED = SIMULATED.format(4)
"""The one of the simulated sets that the page counts: they share their sweeps."""


class Target(NamedTuple):
    """Holds a large size and what values cost there.

    Attributes:
        set: What it belongs to.
        cluster: Targets of one label share their small sweep.
        split: Its name.
        values: Method → log2 of its tuned values, (D,); None where it refuses.
        lowest: log2 of the lower end of the range that is searched, (D,).
        highest: The same of the upper end.
        compute: Of the small sweep, in runs at the target.
        extra: Extra log loss of values.
        seen: Log loss of a run at values, as a search sees it.
    """

    set: str
    cluster: str
    split: str
    values: Mapping[str, Array | None]
    lowest: Array
    highest: Array
    compute: float
    extra: Callable[[Array], float]
    seen: Callable[[Array, np.random.Generator], float]


def best_of_search(target: Target, n_runs: int, seed: int) -> Array:
    """Search by so many runs of TPE; returns log2 of the values of the best."""
    sampler, rng = optuna.samplers.TPESampler(seed=seed), np.random.default_rng(seed)
    study = optuna.create_study(sampler=sampler)
    tried = []
    for _ in range(n_runs):
        trial = study.ask()
        ends = zip(target.lowest, target.highest, strict=True)
        values = np.array([trial.suggest_float(f"v{i}", *e) for i, e in enumerate(ends)])
        tried.append((target.seen(values, rng), values))
        study.tell(trial, tried[-1][0])
    return min(tried, key=lambda run: run[0])[1]


def judge(target: Target, n_studies: int) -> list[dict[str, Any]]:
    """Make one row per method: what its values cost; of TPE the mean over studies."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    costs = {
        method: math.nan if values is None else target.extra(values)
        for method, values in target.values.items()
    }
    costs[TPE] = math.nan
    if n_runs := min(int(target.compute), MAX_RUNS):
        found = (best_of_search(target, n_runs, seed) for seed in range(n_studies))
        costs[TPE] = float(np.mean([target.extra(values) for values in found]))
    head = {"set": target.set, "cluster": target.cluster, "split": target.split}
    return [
        {**head, "method": method, "extra": extra, "runs": target.compute}
        for method, extra in costs.items()
    ]


def drawn_targets(number: int) -> Iterator[Target]:
    """Make the targets of one drawn sweep."""
    rng = np.random.default_rng([DRAWS, number])
    world = calibrate.draw(rng)
    sweep = SimulatedSweep(world, rng)
    made, rates = forecast_of(sweep.table, level=0.9), np.log2(sweep.table["lr"])
    largest = sweep.table["x"].max()
    for ratio in RATIOS:
        place = world.beyond(ratio)
        best = float(world.optimum(place)[0])

        def extra(at: Array, best: float = best) -> float:
            return float(world.excess(at[0] - best))

        def seen(at: Array, rng: np.random.Generator, best: float = best) -> float:
            return float(world.excess(at[0] - best) + world.noise * rng.normal())

        yield Target(
            SIMULATED.format(ratio),
            str(number),
            str(number),
            _values(made, {"x": float(largest * ratio)}),
            np.array([rates.min() - BELOW]),
            np.array([rates.max()]),
            float(sweep.table["x"].sum() / (largest * ratio)),
            extra,
            seen,
        )


def _values(made: extrap.Forecast, size: Mapping[str, float]) -> dict[str, Array | None]:
    """Look up what a forecast says at a size, and the best values of two of its own; log2."""
    values = made.values_at(dict(size))
    kept = {
        method: np.log2([optimum.tuned[name].value for name in made.runs.tuned])
        for method, optimum in ((SMALLEST, made.optima[0]), (LARGEST, made.optima[-1]))
    }
    return {FORECAST: None if values is None else np.asarray(values.answer.values), **kept}


class Grid(NamedTuple):
    """Holds the runs of a cell: log2 of tuned values (n, D), and log losses at each."""

    values: Array
    losses: Sequence[Array]

    def nearest(self, at: Array) -> int:
        """Find the cell's values nearest to some."""
        return int(np.square(self.values - at).sum(axis=1).argmin())

    def extra(self, at: Array) -> float:
        """Subtract the least mean log loss of the cell from the one there."""
        means = [losses.mean() for losses in self.losses]
        return float(means[self.nearest(at)] - min(means))

    def seen(self, at: Array, rng: np.random.Generator) -> float:
        """Draw the log loss of one of the runs there."""
        return float(rng.choice(self.losses[self.nearest(at)]))


def grid_of(cell: pd.DataFrame, tuned: Sequence[str]) -> Grid:
    """Make the grid of runs of one size; a diverged run counts as far above the best."""
    log = np.log(cell["loss"].where(np.isfinite(cell["loss"])))
    cell = cell.assign(log=log.fillna(log.min() + DIVERGED))
    groups = dict(iter(cell.groupby(list(tuned))["log"]))
    values = np.log2(np.array(list(groups), dtype=float).reshape(len(groups), -1))
    return Grid(values, [losses.to_numpy() for losses in groups.values()])


def _of_tables(
    name: str,
    made: extrap.Forecast,
    sweep: pd.DataFrame,
    cells: Mapping[str, tuple[dict[str, float], pd.DataFrame, float]],
) -> Iterator[Target]:
    """Make targets whose runs are looked up; a cell has its size, runs, and the compute of one."""
    tuned = list(made.runs.tuned)
    log2 = np.log2(sweep[tuned].to_numpy(float))
    ends = log2.min(axis=0), log2.max(axis=0)
    for label, (size, cell, compute) in cells.items():
        grid = grid_of(cell, tuned)
        values = _values(made, size)
        yield Target(name, label, label, values, *ends, compute, grid.extra, grid.seen)


def metz_targets() -> Iterator[Target]:
    """Make the targets of Metz' sizes."""
    runs = pd.read_csv(own_sweeps.METZ)
    sweep, above = (
        runs[runs["width"].le(LARGEST_FITTED) == is_small] for is_small in (True, False)
    )
    cells = {
        f"width {width}": (
            {"width": float(width)},
            cell,
            float(sweep["flops"].sum() / cell["flops"].iloc[0]),
        )
        for width, cell in above.groupby("width")
    }
    return _of_tables(
        f"Metz' sizes, to {LARGEST_FITTED}", own_sweeps.forecast_of(sweep), sweep, cells
    )


def step_law_targets(data: Path) -> Iterator[Target]:
    """Make the targets of Step Law's larger cells."""
    table = optima.step_law(data).astype(float)  # products of whole numbers overflow
    sweep, above = (
        table[(table["params"] < optima.LARGE) == is_small] for is_small in (True, False)
    )
    compute = (sweep["params"] * sweep["tokens"]).sum()
    cells = {
        f"{params:.3g} parameters, {tokens:.3g} tokens": (
            {"params": float(params), "tokens": float(tokens)},
            cell,
            float(compute / (params * tokens)),
        )
        for (params, tokens), cell in above.groupby(list(optima.SIZES))
    }
    return _of_tables("Step Law's larger cells", optima.forecast_of(sweep), sweep, cells)


def _drawn(number: int) -> list[dict[str, Any]]:
    return [row for target in drawn_targets(number) for row in judge(target, N_DRAWN_STUDIES)]


def measure(data: Path = DATA) -> pd.DataFrame:
    """Make one row per target and method; tables that are not there are left out."""
    tables: tuple[Callable[[], Iterator[Target]], ...] = (
        metz_targets,
        partial(step_law_targets, data),
    )
    with ProcessPoolExecutor(2) as pool:
        found = list(pool.map(_drawn, range(N_SWEEPS)))
        for targets in tables:
            try:
                found += pool.map(partial(judge, n_studies=N_STUDIES), list(targets()))
            except FileNotFoundError:
                continue
    return pd.DataFrame([row for rows in found for row in rows])
