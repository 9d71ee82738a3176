"""Simulated sweeps of a known truth, for tests and benchmarks; and figures over many of them."""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import extrap
from benchmarks.page import print_rows
from benchmarks.rows import Row
from extrap.analyses.allocation.budget_splits import ChinchillaLaw, optimal_split
from extrap.records import Runs

Array = np.ndarray
Curve = Callable[[Array], Array]
BEYOND = 3.0
"""Binomial standard errors from which on a limit counts as missed."""


def grid(**axes: Iterable[Any]) -> pd.DataFrame:
    """One row per combination of the axes' values; those of the last axis change fastest."""
    return pd.DataFrame(list(itertools.product(*axes.values())), columns=list(axes))


def skewed(u: Any, curvature: float, rise: Any) -> Any:
    """Excess log loss u octaves above the optimum: k (e^(r u) - 1 - r u) / r²."""
    return curvature * (np.expm1(rise * u) - rise * u) / np.square(rise)


def steeper_above(u: Any) -> Any:
    """The excess log loss of the made-up truth, steeper towards high rates."""
    return skewed(u, 0.03, np.where(u > 0, 0.5, -0.35))


def simulate(
    loss: Callable[..., Any],
    *,
    optimum: Callable[..., Any] | None = None,
    cost: Callable[[Any], Any] | float = 0.03,
    cliff: float = math.inf,
    noise: float = 0.0,
    shared_noise: float | None = None,
    rng: Any = 0,
    **axes: Iterable[Any],
) -> pd.DataFrame:
    """One run per cell of a grid: the sweep of a known truth for tests and benchmarks.

    Args:
        loss: Of all axes; with an `optimum` of the sizes, at the best rate.
        optimum: Best rate `lr`, of the sizes, which are the axes but `lr` and `seed`.
        cost: Excess log loss, of the octaves above the optimum; a number k stands for k u².
        cliff: Octaves above the optimum from which on runs diverge.
        noise: Standard deviation of a log loss.
        shared_noise: The same of what the runs of one seed share; drawn before the other noise,
            also if it is 0.
        rng: Seed of the noise, or its generator.
        axes: Values of each column.
    """
    table, rng = grid(**axes), np.random.default_rng(rng)
    log_excess: Any = 0.0
    if shared_noise is not None:
        log_excess = shared_noise * rng.normal(size=table["seed"].nunique())[table["seed"]]
    log_excess = log_excess + noise * rng.normal(size=len(table))
    if optimum is None:
        return table.assign(loss=loss(**table) * np.exp(log_excess))
    sizes = table.drop(columns=["lr", "seed"], errors="ignore")
    octaves = np.log2(table["lr"] / optimum(**sizes))
    log_excess = log_excess + (cost(octaves) if callable(cost) else cost * octaves**2)
    losses = (loss(**sizes) * np.exp(log_excess)).where(octaves <= cliff, math.inf)
    return table.assign(loss=losses)


def with_curves(table: pd.DataFrame, curves: Any, steps: Any, **columns: Any) -> Runs:
    """Runs with their curves, (n_runs, n_steps), of which the last points are the losses."""
    n, curves = len(table), np.asarray(curves)
    points = {"run": np.repeat(np.arange(n), len(steps)), "step": np.tile(steps, n)}
    return Runs.from_frame(
        table.assign(loss=curves[:, -1]),
        **{"sizes": ["width"], "tuned": ["lr"], **columns},
        curves=pd.DataFrame({**points, "loss": curves.ravel()}),
    )


def simulate_profiles(
    law: ChinchillaLaw, budgets: Any, ratios: Any, *, noise: float = 0.0, rng: Any = 0
) -> pd.DataFrame:
    """Runs at budgets of 6 N D, with so many times the parameters of the best split of each."""
    table = grid(flops=budgets, ratio=ratios)
    params = optimal_split(law, table["flops"].to_numpy()).params * table["ratio"].to_numpy()
    tokens = table["flops"].to_numpy() / 6 / params
    error = noise * np.random.default_rng(rng).normal(size=len(params))
    loss = law.loss(params, tokens) * np.exp(error)
    return pd.DataFrame({"params": params, "tokens": tokens, "loss": loss})


WIDTHS = (16.0, 32.0, 64.0, 128.0, 192.0)
RATES = tuple(float(2.0**k) for k in range(-12, -4))


def true_loss(width: Any) -> Any:
    """Loss of the made-up truth at the optimal rate: a power law with a floor."""
    return 1.5 + 2.0 * (width / 16) ** -0.4


def true_lr(width: Any) -> Any:
    """Optimal rate of the made-up truth: it falls as width^-0.4."""
    return 0.01 * (width / 16) ** -0.4


def make_table(
    *,
    widths: Iterable[float] = WIDTHS,
    rates: Iterable[float] = RATES,
    seeds: int = 3,
    seed: int = 0,
    **options: Any,
) -> pd.DataFrame:
    """A sweep of the made-up truth with .2 % noise; options of `simulate`."""
    truth = {"optimum": true_lr, "cost": steeper_above, "noise": 0.002, "shared_noise": 0.0}
    axes = {"width": widths, "lr": rates, "seed": range(seeds)}
    return simulate(true_loss, **truth | options, rng=seed, **axes)


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """A number whose logarithm is uniform."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What is true of every run of a sweep.

    Attributes:
        doublings: log2 of the sizes of the sweep, shape (n_sizes, n_columns).
        best_loss: Of doublings (mean over columns), at the optimum.
        optimum: Of doublings, shape (n, n_columns), in octaves.
        noise: Standard deviation of a log loss.
        n_seeds: Of every cell.
        curvature: k of the excess log loss k/2 u² e^(g u), u octaves above the optimum.
        steepness: Its g.
        displaced: Octaves by which the grid lies off the optimum.
        tail: Degrees of freedom of the noise, which is Student's t; infinite if normal.
        share: Share of its variance that runs of one seed have in common.
    """

    doublings: Array
    best_loss: Curve
    optimum: Curve
    noise: float
    n_seeds: int
    curvature: float
    steepness: float
    displaced: float
    tail: float = math.inf
    share: float = 0.0

    def excess(self, u: Array | float) -> Array:
        """Of the log loss, so many octaves above the optimum."""
        return 0.5 * self.curvature * np.square(u) * np.exp(self.steepness * np.asarray(u))

    def log_loss(self, s: Array, octaves: Array | float) -> Array:
        """Without noise."""
        return np.log(self.best_loss(s.mean(axis=1))) + self.excess(octaves - self.optimum(s))

    def beyond(self, ratio: float) -> Array:
        """Doublings of a target, all columns `ratio` times their largest size; (1, n_columns)."""
        return self.doublings.max(axis=0)[None] + math.log2(ratio)


class SimulatedSweep:
    """The runs of one sweep, `table`, and further runs of the same seeds.

    Args:
        world: What is true of them.
        rng: Draws the noise.
        lowest: Lower end of one grid for all sizes, in octaves; by default each size has its own.
    """

    def __init__(
        self, world: World, rng: np.random.Generator, *, lowest: float | None = None
    ) -> None:
        self.world, self._rng = world, rng
        self._shared = self._draw(world.n_seeds) if world.share else np.zeros(world.n_seeds)
        near = np.round(world.optimum(world.doublings)) + world.displaced - 3
        near = near if lowest is None else np.full(len(near), lowest)
        cells = grid(size=range(len(near)), step=range(7), seed=range(world.n_seeds))
        i, step, seed = cells.to_numpy().T
        self.table = self.runs(world.doublings[i], near[i] + step, seed)

    def _draw(self, n: int) -> Array:
        """Random errors of mean 0 and variance 1."""
        dof = self.world.tail
        if math.isinf(dof):
            return self._rng.normal(size=n)
        return self._rng.standard_t(dof, n) / math.sqrt(dof / (dof - 2))

    def errors(self, common: Array, n: int) -> Array:
        """Noise of so many runs, of which a part is common to those of a seed."""
        world, own = self.world, self._draw(n)
        return world.noise * (math.sqrt(world.share) * common + math.sqrt(1 - world.share) * own)

    def runs(self, s: Array, octaves: Array, seed: Array, log_shift: float = 0.0) -> pd.DataFrame:
        """Runs at sizes (in doublings) and values (in octaves), moved by a log loss."""
        log_loss = self.world.log_loss(s, octaves) + self.errors(self._shared[seed], len(s))
        sizes = dict(zip(("x", "z"), 2.0**s.T, strict=False))
        columns = {**sizes, "lr": 2.0**octaves, "seed": seed}
        return pd.DataFrame({**columns, "loss": np.exp(log_loss + log_shift)})


def forecast_of(table: pd.DataFrame, *, level: float) -> extrap.Forecast:
    """The forecast of the runs of a `SimulatedSweep`."""
    sizes = [column for column in ("x", "z") if column in table]
    return extrap.forecast(extrap.read_runs(table, size=sizes, tune="lr"), level=level)


class DrawnPart(NamedTuple):
    """What is measured of each of so many sweeps, and the rows that it gives."""

    measure: Callable[[np.random.Generator], dict[str, float]]
    rows: Callable[[str, pd.DataFrame], Sequence[Row]]
    n_sweeps: int = 200


def print_parts(
    doc: str,
    parts: Mapping[str, DrawnPart],
    draws: Mapping[str, int],
    *,
    title: str = "",
    once: Mapping[str, Callable[[], Sequence[Row]]] = MappingProxyType({}),
    more: Callable[[Mapping[str, pd.DataFrame]], Sequence[Row]] = lambda _: [],
) -> None:
    """Measure what the options ask for, and print it: rows `once`, of `parts`, and `more` of all.

    `draws` holds the first number of the seeds; `title` stands for the names of the parts.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="PART", default=[""])
    parser.add_argument("--sweeps", type=int, help="instead of the usual numbers")
    parser.add_argument("--draws", choices=draws, default="report")
    given = parser.parse_args()
    wanted = [name for name in (*once, *parts) if name.startswith(tuple(given.only))]
    if not wanted:
        parser.error(f"--only must begin like one of: {'; '.join((*once, *parts))}")
    rows = [row for name, of_once in once.items() if name in wanted for row in of_once()]
    tables = {}
    for name in [name for name in parts if name in wanted]:
        numbers = range(given.sweeps or parts[name].n_sweeps)
        seeds = [np.random.default_rng([draws[given.draws], number]) for number in numbers]
        with ProcessPoolExecutor(2) as pool:
            found = pool.map(parts[name].measure, seeds, chunksize=5)
            tables[name] = pd.DataFrame([row for row in found if row])
        rows += parts[name].rows(title or name, tables[name])
    rows += more(tables)
    print_rows(rows)
    sys.stdout.write(f"{sum(row.met is False for row in rows)} of {len(rows)} figures missed\n")


def judged(
    part: str, figure: str, values: Sequence[float], limit: float, *, most: bool = False
) -> Row:
    """A share against its limit; within three standard errors of the limit it counts as met."""
    share = float(np.mean(values))
    slack = BEYOND * math.sqrt(limit * (1 - limit) / len(values))
    met = share <= limit + slack if most else share >= limit - slack
    return Row(
        part=part,
        figure=f"{figure}, {len(values)} sweeps",
        target=f"{'≤' if most else '≥'} {limit:.0%}",
        reached=f"{share:.1%}",
        met=bool(met),
    )
