"""The law of optima alone: Porian et al., simulated optima.

Part of `benchmarks.published_surfaces`. A forecast is an exact mixture of normal distributions,
one for each choice of the spreads of `extrap.fitting.surface.optimum_process`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from benchmarks.fitted_surface import Array
from benchmarks.forecast_scores import SURFACE, TODAY, paired_row
from benchmarks.optima import by_law, origins, porian
from benchmarks.rows import DATA, Row
from benchmarks.scores import LEVEL
from benchmarks.simulated_optima import EFFECTS, LEVELS, simulate_optima
from extrap.fitting.surface.optimum_process import OptimumProcess
from extrap.records import Optimum

LEAST_WEIGHT, N_POINTS, REACH = 1e-6, 4001, 6.0
"""Of a choice of spreads; points of a distribution function, over so many deviations."""
N_SIMULATED = 100


class Seen(NamedTuple):
    """Optima of one tuned column as runs give them: log2 of sizes (S, C), values, covariance."""

    log_sizes: Array
    values: Array
    covariance: Array

    @classmethod
    def of(cls, optima: list[Optimum], name: str, columns: tuple[str, ...]) -> Seen:
        """Optima with independent standard errors."""
        sizes = np.log2([[o.size[column] for column in columns] for o in optima])
        values = np.array([o.tuned[name].value for o in optima], dtype=float)
        sd = np.array([o.tuned[name].se for o in optima]) / values / math.log(2)
        return cls(sizes, np.log2(values), np.diag(sd**2))

    def origins(self, n_below: int) -> Iterator[tuple[Array, Array]]:
        """Which are at smaller scales, so many or more of them, and which are not."""
        scale = self.log_sizes.mean(axis=1)
        for cut in np.unique(scale):
            below = scale < cut - 1e-9
            if below.sum() >= n_below:
                yield below, ~below


class Mixture(NamedTuple):
    """Of normal distributions at T targets: weights (G,), means and sds (G, T)."""

    weights: Array
    means: Array
    sds: Array

    def quantiles(self, *levels: float) -> Array:
        """(levels, T)."""
        low = (self.means - REACH * self.sds).min(axis=0)
        points = np.linspace(low, (self.means + REACH * self.sds).max(axis=0), N_POINTS)
        below = np.zeros_like(points)
        for weight, mean, sd in zip(*self, strict=True):
            below += weight * special.ndtr((points - mean) / sd)
        found = [np.interp(levels, b, p) for b, p in zip(below.T, points.T, strict=True)]
        return np.array(found).T


def beyond(seen: Seen, below: Array, targets: Array, least: float = LEAST_WEIGHT) -> Mixture:
    """What some optima say of those at targets (T, C) under the constants of the module.

    Args:
        seen: All optima.
        below: Which of them speak.
        targets: log2 of sizes, (T, C).
        least: Spreads of a smaller probability are left out.
    """
    process = OptimumProcess(seen.log_sizes[below])
    information = np.linalg.inv(seen.covariance[np.ix_(below, below)])
    values, same = seen.values[below], np.eye(int(below.sum()))
    centre = float(np.median(values))
    weights = process.weigh(information, information @ values, centre)
    kept = np.flatnonzero(weights >= least)
    means, sds = [], []
    for number in kept:
        own = process.covariances[number]
        covariance = np.linalg.solve(same + own @ information, own)
        off = covariance @ (information @ (values - centre))
        pull, sd = process.beyond(targets, process.grid[number])
        means.append(centre + pull @ off)
        sds.append(np.sqrt(sd**2 + np.einsum("ts,su,tu->t", pull, covariance, pull)))
    return Mixture(weights[kept] / weights[kept].sum(), np.array(means), np.array(sds))


def _rows(mixture: Mixture, heads: list[dict[str, object]]) -> list[dict[str, object]]:
    ends = mixture.quantiles(0.5 - LEVEL / 2, 0.5, 0.5 + LEVEL / 2).T
    names = ("low", "mid", "high")
    said = [dict(zip(names, map(float, three), strict=True)) for three in ends]
    return [{**head, "who": SURFACE, **one} for head, one in zip(heads, said, strict=True)]


def _both(
    below: list[Optimum], above: list[Optimum], name: str, heads: list[dict[str, object]]
) -> list[dict[str, object]]:
    """Forecasts of optima by today's law and by the process; `heads` have the truth."""
    columns = tuple(below[0].size)
    rows = []
    for head, law in zip(heads, by_law(below, above, name, columns), strict=False):
        mid = head["truth"] + law["off"]
        ends = {"mid": mid, "low": mid - law["half"], "high": mid + law["half"]}
        rows.append({**head, "who": TODAY, **ends})
    seen = Seen.of(below, name, columns)
    targets = np.log2([[o.size[column] for column in columns] for o in above])
    every = np.ones(len(below), dtype=bool)
    return rows + _rows(beyond(seen, every, targets), heads)


def porian_rows() -> list[Row]:
    """Rolling origin over the budgets of each setting."""
    rows = []
    for setting, optima in porian(DATA).items():
        for number, (below, above) in enumerate(origins(optima, ("flops",))):
            heads = [
                {
                    "cluster": setting,
                    "case": (setting, number, o.size["flops"]),
                    "truth": math.log2(o.tuned["params"].value),
                }
                for o in above
            ]
            rows += _both(below, above, "params", heads)
    return [paired_row("Porian et al., best model size", "larger budgets", pd.DataFrame(rows))]


def effects() -> list[Row]:
    """Simulated optima whose levels of a size column share an effect."""
    made = []
    for effect, levels in itertools.product(EFFECTS, LEVELS):
        rows = []
        for number in range(N_SIMULATED):
            drawn = simulate_optima(np.random.default_rng([1, number]), effect, levels)
            heads = [
                {"cluster": number, "case": (number, i), "truth": math.log2(o.tuned["lr"].value)}
                for i, o in enumerate(drawn.larger)
            ]
            rows += _both(drawn.fitted, drawn.larger, "lr", heads)
        part = f"simulated optima, {levels[0]} to {levels[1]} sizes a column"
        made.append(paired_row(part, f"effects of {effect:g} octave", pd.DataFrame(rows)))
    return made
