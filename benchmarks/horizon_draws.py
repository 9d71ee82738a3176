"""Sweeps over parameters and tokens of a known truth, and what their optima can say at most.

| setting | prior |
|---|---|
| cells | 3 numbers of parameters × 4 of tokens, each column by factors of 2 or 4 |
| runs | one seed, 5 rates an octave apart, whose middle is up to .5 octave off the optimum |
| optimum, octaves a doubling | of parameters -.8 to 0, of tokens -.5 to .2 |
| bend: n², d², n d in doublings off the middle | normal, sd log-uniform .003 to .05 |
| scatter of an optimum about its law | normal, sd log-uniform .03 to .2 octave |
| curvature of the log loss, per octave² | log-normal, median .0097, sd .58; of a cell .2 |
| its relative rise an octave, below and above | log-normal, medians .35 and .5, sd .7 |
| noise of the log loss | normal, sd log-uniform .1 to .5 % |
| loss E + A n^-a + B d^-b | E 1 to 2, A and B .3 to 1.5 at the smallest, a and b .2 to .6 |

Curvature and its rise are those of 129 published loss curves. A horizon that was never varied is
one number of tokens, or one number of tokens per parameter, at 3 to 6 numbers of parameters.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import extrap
from benchmarks.scores import LEVEL
from benchmarks.surface_kinds import MOST_SEEN
from benchmarks.sweeps import log_uniform, skewed
from extrap.fitting.regression import predict_power
from extrap.records import Measure

Array = np.ndarray
SIZES = ("params", "tokens")
TARGETS = {"4 × tokens": (0, 2), "16 × tokens": (0, 4), "4 × parameters": (2, 0)}
"""Doublings of both columns beyond the largest parameters and tokens."""
SMALLEST = np.array([24.0, 30.0])
"""log2 of parameters and tokens."""
RATES = np.arange(-2.0, 3.0)
FLAT_SD = 100.0
"""Standard deviation of level and slopes of the oracle, which is told neither."""
NORMAL_QUANTILE = 1.6449
"""Of a central interval of 90 %."""


class Parabola(NamedTuple):
    """Log excess `curvature (u − minimum)²` at log2 values u.

    Attributes:
        minimum: log2, (1,).
        curvature: Per octave².
    """

    minimum: Array
    curvature: float

    def excess(self, values: Array) -> float:
        """Log excess over the minimum at log2 values, (1,)."""
        return float(self.curvature * (values[0] - self.minimum[0]) ** 2)


def parabola_of(runs: pd.DataFrame) -> Parabola | None:
    """The parabola of the log loss through the best run and its neighbours; None at an edge.

    Args:
        runs: `lr` and `loss` of one cell, one run per rate.
    """
    u, y = np.log2(runs.sort_values("lr")[["lr", "loss"]].to_numpy()).T * [[1.0], [math.log(2)]]
    best = int(np.argmin(y))
    if not 0 < best < len(y) - 1:
        return None
    curvature, slope, _ = np.polyfit(u[best - 1 : best + 2], y[best - 1 : best + 2], 2)
    return Parabola(np.array([-slope / (2 * curvature)]), float(curvature))


def best_rate(runs: pd.DataFrame) -> float:
    """log2 of the best rate of one cell by a parabola; at an edge that of the best run."""
    if (parabola := parabola_of(runs)) is not None:
        return float(parabola.minimum[0])
    return float(np.log2(runs.loc[runs["loss"].idxmin(), "lr"]))


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """The truth of a sweep at its S cells and, last, at T targets.

    Attributes:
        sizes: log2 of parameters and tokens, (S + T, 2).
        optimum: log2 of the best rate, (S + T,).
        curvature: Per octave², (S + T,).
        rises: Relative change of the curvature an octave, below and above the optimum.
        noise: Standard deviation of the log loss.
        bend, scatter: Standard deviations that the optima were drawn with.
        table: One row a run, cell by cell.
        octaves: log2 of the rates, (S, R).
        errors: Of the log losses, (S, R).
    """

    sizes: Array
    optimum: Array
    curvature: Array
    rises: tuple[float, float]
    noise: float
    bend: float
    scatter: float
    table: pd.DataFrame
    octaves: Array
    errors: Array

    @property
    def n_cells(self) -> int:
        """Cells of the sweep."""
        return len(self.octaves)

    def excess(self, i: int, value: float) -> float:
        """True log excess at log2 of a rate, in a cell or target."""
        u = value - self.optimum[i]
        rise = self.rises[1] if u > 0 else -self.rises[0]
        return min(float(skewed(u, self.curvature[i], rise)), MOST_SEEN)

    def target(self, number: int) -> dict[str, float]:
        """The size of a target."""
        logs = self.sizes[self.n_cells + number]
        return dict(zip(SIZES, (2.0**logs).tolist(), strict=True))


def grid_family(rng: np.random.Generator) -> Family:
    """A sweep over 3 numbers of parameters × 4 of tokens."""
    steps = rng.choice([1, 2], size=2)
    cells = np.array(list(itertools.product(range(3), range(4)))) * steps
    return draw_family(rng, cells, cells.max(axis=0) + np.array(list(TARGETS.values())))


def one_horizon_family(rng: np.random.Generator, *, is_tied: bool) -> Family:
    """One number of tokens, or of tokens per parameter; the target has 4 to 100 times as many."""
    n = int(rng.integers(3, 7))
    steps = rng.choice([1, 2]) * np.array([1, int(is_tied)])
    cells = np.arange(n)[:, None] * steps
    beyond = rng.choice([0, 2]) * np.array([1, int(is_tied)])
    longer = np.array([0, math.log2(log_uniform(rng, 4, 100))])
    return draw_family(rng, cells, cells[-1:] + beyond + longer)


def draw_family(rng: np.random.Generator, cells: Array, targets: Array) -> Family:
    """A truth from the prior above, in doublings over the smallest sizes, and its runs."""
    doublings = np.vstack([cells, targets]).astype(float)
    n, d = (doublings - cells.max(axis=0) / 2).T
    bend, scatter = log_uniform(rng, 0.003, 0.05), log_uniform(rng, 0.03, 0.2)
    law = -8 + rng.uniform(-1, 1) + rng.uniform(-0.8, 0) * n + rng.uniform(-0.5, 0.2) * d
    bends = bend * rng.normal(size=3) @ np.array([n**2, d**2, n * d])
    optimum = law + bends + scatter * rng.normal(size=len(n))
    curvature = 0.0097 * np.exp(0.58 * rng.normal() + 0.2 * rng.normal(size=len(n)))
    below, above = np.array([0.35, 0.5]) * np.exp(0.7 * rng.normal(size=2))
    noise, floor = log_uniform(rng, 0.001, 0.005), rng.uniform(1, 2)
    heights, powers = rng.uniform(0.3, 1.5, 2), rng.uniform(0.2, 0.6, 2)
    best = np.log(floor + (heights * 2.0 ** (-powers * doublings)).sum(axis=1))
    k = len(cells)
    octaves = np.round(optimum[:k]) + rng.uniform(-0.5, 0.5)
    octaves = octaves[:, None] + RATES
    u = octaves - optimum[:k, None]
    costs = skewed(u, curvature[:k, None], np.where(u > 0, above, -below))
    errors = noise * rng.normal(size=octaves.shape)
    sizes = SMALLEST + doublings
    columns = {c: np.repeat(2.0**s, len(RATES)) for c, s in zip(SIZES, sizes[:k].T, strict=True)}
    losses = np.exp(best[:k, None] + np.minimum(costs, MOST_SEEN) + errors)
    return Family(
        sizes=sizes,
        optimum=optimum,
        curvature=curvature,
        rises=(below, above),
        noise=noise,
        bend=bend,
        scatter=scatter,
        table=pd.DataFrame({**columns, "lr": 2.0 ** octaves.ravel(), "loss": losses.ravel()}),
        octaves=octaves,
        errors=errors,
    )


def oracle(family: Family) -> tuple[Array, Array]:
    """Means and standard deviations of the targets' optima by one who knows all but the law.

    Each cell's optimum is estimated by least squares with the true curve of its loss, to first
    order; generalised least squares then has the true variances of bend, scatter and these errors.
    """
    k = family.n_cells
    u = family.octaves - family.optimum[:k, None]
    rise = np.where(u > 0, family.rises[1], -family.rises[0])
    slopes = family.curvature[:k, None] * np.expm1(rise * u) / rise
    slopes = np.where(skewed(u, family.curvature[:k, None], rise) < MOST_SEEN, slopes, 0.0)
    slopes = slopes - slopes.mean(axis=1, keepdims=True)
    squares = (slopes**2).sum(axis=1)
    estimates = family.optimum[:k] - (slopes * family.errors).sum(axis=1) / squares
    n, d = (family.sizes - family.sizes[:k].mean(axis=0)).T
    line, bends = np.stack([np.ones(len(n)), n, d]), np.stack([n**2, d**2, n * d])
    prior = FLAT_SD**2 * line.T @ line + family.bend**2 * bends.T @ bends
    prior = prior + family.scatter**2 * np.eye(len(n))
    seen = prior[:k, :k] + np.diag(family.noise**2 / squares)
    pull = np.linalg.solve(seen, prior[:k, k:]).T
    centre = estimates.mean()
    left = np.diag(prior)[k:] - (pull * prior[k:, :k]).sum(axis=1)
    return centre + pull @ (estimates - centre), np.sqrt(left)


def plane_columns(line: Measure) -> dict[str, float]:
    """log2 of what a log-linear plane says, and of its interval; NaN where none is determined."""
    logs = np.log2([np.nan if value is None else value for value in (line.value, *line.ci)])
    return dict(zip(("plane", "plane low", "plane high"), logs.tolist(), strict=True))


def score_family(rng: np.random.Generator) -> list[dict[str, Any]]:
    """One row per target: the forecast, an oracle and a log-linear plane, in log2 of the rate."""
    family = grid_family(rng)
    runs = extrap.read_runs(family.table, size=SIZES, tune="lr")
    made = extrap.forecast(runs, level=LEVEL)
    cells = family.table.groupby(list(SIZES), sort=False)
    best = [best_rate(cell) for _, cell in cells]
    columns = dict(zip(SIZES, np.transpose([key for key, _ in cells]).tolist(), strict=True))
    means, sds = oracle(family)
    rows = []
    for i, name in enumerate(TARGETS):
        size, target = family.target(i), family.n_cells + i
        values = made.values_at(size)
        assert values is not None
        ends = np.log2([*values.estimates["lr"].pi])
        line = predict_power(columns, [2.0**u for u in best], None, at=size, level=LEVEL)
        plane = plane_columns(line)
        used = float(values.answer.values[0])
        rows.append(
            {
                "target": name,
                "given": made.is_tuned_at(size),
                "truth": family.optimum[target],
                **{"mid": values.optimum[0], "low": ends[0], "high": ends[1]},
                **plane,
                **{"oracle": means[i], "oracle half": NORMAL_QUANTILE * sds[i]},
                "kept": best[-1],
                "regret": family.excess(target, used),
                "plane regret": family.excess(target, plane["plane"]),
                "kept regret": family.excess(target, best[-1]),
                "predicted": values.answer.mistuned,
                **{"bend": family.bend, "scatter": family.scatter, "noise": family.noise},
                "curvature": family.curvature[target],
                "params span": np.ptp(family.sizes[: family.n_cells, 0]),
                "tokens span": np.ptp(family.sizes[: family.n_cells, 1]),
            }
        )
    return rows


def ask_beyond_one_horizon(rng: np.random.Generator) -> list[dict[str, Any]]:
    """One row per question about a horizon that was never varied: what was given as if known."""
    rows = []
    for is_tied in (False, True):
        family = one_horizon_family(rng, is_tied=is_tied)
        for names in ({}, {"size": SIZES, "tune": "lr"}):
            row = {"tied": is_tied, "named": bool(names), "error": "", "loss": False}
            row |= {"values": False}
            try:
                point = extrap.forecast(family.table, level=LEVEL, **names).at(**family.target(0))
            except (extrap.ExtrapError, ValueError) as error:
                rows.append(row | {"error": f"{type(error).__name__}: {error}"})
                continue
            tuned = [estimate.value for estimate in point.tuned.values()]
            values = [*tuned, *point.recommended.values()]
            row |= {"loss": point.loss is not None, "flags": "; ".join(map(str, point.flags))}
            rows.append(row | {"values": any(value is not None for value in values)})
    return rows
