"""The law of optima alone: Porian et al., simulated optima, log scores of other spreads.

Part of `benchmarks.published_surfaces`. A forecast is an exact mixture of normal distributions,
one for each choice of the spreads of `extrap.fitting.one_surface.optimum_process`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special, stats

import extrap
from benchmarks.fitted_surface import Array, Fitted
from benchmarks.forecast_scores import SURFACE, TODAY, paired_row
from benchmarks.optima import N_BELOW, SIZES, TUNED, by_law, origins, porian, step_law
from benchmarks.page import ROOT
from benchmarks.rows import DATA, Row
from benchmarks.scores import LEVEL
from benchmarks.simulated_optima import EFFECTS, LEVELS, simulate_optima
from extrap.fitting.one_surface import optimum_process
from extrap.fitting.one_surface.optimum_process import OptimumProcess
from extrap.records import Optimum

STEP_LAW = ("Step Law lr", "Step Law batch")
WIDTHS = {"Metz": "studies/metz_full.csv", "sweep.csv": "examples/sweep.csv"}
SOURCES = (*STEP_LAW, "Porian", *WIDTHS)
N_WIDTHS = 4
"""Widths at least that forecast the others."""
LEAST_WEIGHT, N_POINTS, REACH = 1e-6, 4001, 6.0
"""Of a choice of spreads; points of a distribution function, over so many deviations."""
N_SIMULATED = 100
SPREADS = ("BENDS", "WALKS", "SCATTERS", "SHARED")
TILT = 2.0
"""By which the odds of neighbouring spreads are multiplied."""
RIDGE = 1e-4
"""Information that every optimum has at least: a standard error of 100 octaves."""


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

    def log_density(self, at: Array, variance: Array) -> Array:
        """At values that have a variance of their own, (T,) each."""
        each = stats.norm.logpdf(at, self.means, np.sqrt(self.sds**2 + variance))
        return np.asarray(special.logsumexp(each, axis=0, b=self.weights[:, None]))

    def quantiles(self, *levels: float) -> Array:
        """(levels, T)."""
        low = (self.means - REACH * self.sds).min(axis=0)
        points = np.linspace(low, (self.means + REACH * self.sds).max(axis=0), N_POINTS)
        below = np.zeros_like(points)
        for weight, mean, sd in zip(*self, strict=True):
            below += weight * special.ndtr((points - mean) / sd)
        found = [np.interp(levels, b, p) for b, p in zip(below.T, points.T, strict=True)]
        return np.array(found).T


def beyond(seen: Seen, below: Array, targets: Array) -> Mixture:
    """What some of the optima say of those at targets (T, C) under the constants of the module."""
    process = OptimumProcess(seen.log_sizes[below])
    information = np.linalg.inv(seen.covariance[np.ix_(below, below)])
    values, same = seen.values[below], np.eye(int(below.sum()))
    centre = float(np.median(values))
    weights = process.weigh(information, information @ values, centre)
    kept = np.flatnonzero(weights > LEAST_WEIGHT)
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


@cache
def seen_of(source: str) -> tuple[list[Seen], int]:
    """The optima of a source, and how many at least forecast the others."""
    if source == "Porian":
        settings = porian(DATA).values()
        return [Seen.of(optima, "params", ("flops",)) for optima in settings], N_BELOW
    if source in STEP_LAW:
        table = step_law(DATA).reset_index(drop=True)
        return [_surface_optima(table, SIZES, TUNED, STEP_LAW.index(source))], N_BELOW
    table = pd.read_csv(ROOT / WIDTHS[source])[["width", "lr", "seed", "loss", "status"]]
    return [_surface_optima(table, ("width",), ("lr",), 0)], N_WIDTHS


def _surface_optima(
    table: pd.DataFrame, sizes: tuple[str, ...], tuned: tuple[str, ...], j: int
) -> Seen:
    """What the runs alone say of the optima of a tuned column: the prior is taken out."""
    largest = [table[list(sizes)].max().to_list()]
    surface = Fitted(extrap.read_runs(table, size=sizes, tune=tuned), largest).heaviest
    own = surface.places.optimum[:, j]
    precision = surface.precision[np.ix_(own, own)]
    information = np.linalg.inv(surface.covariance[np.ix_(own, own)]) - precision
    mode = surface.theta[own]
    pull = information @ mode + precision @ (mode - surface.mean[own])
    # the prior may have said all of a size whose runs say nothing
    values, axes = np.linalg.eigh((information + information.T) / 2)
    covariance = (axes / np.maximum(values, RIDGE)) @ axes.T
    return Seen(surface.sweep.log_sizes, covariance @ pull, covariance)


def log_scores(source: str) -> Array:
    """Log predictive density, an octave, of every larger optimum of a source, by rolling origin.

    The optima are estimated once, from all runs; the process then has only the smaller ones, and
    the present constants `BENDS`, `WALKS`, `SCATTERS` and `SHARED` of its module.

    Args:
        source: One of `SOURCES`.
    """
    parts, n_below = seen_of(source)
    return np.concatenate(
        [
            beyond(seen, below, seen.log_sizes[above]).log_density(
                seen.values[above], np.diag(seen.covariance)[above]
            )
            for seen in parts
            for below, above in seen.origins(n_below)
        ]
    )


@contextmanager
def constants(**changed: tuple[tuple[float, float], ...]) -> Iterator[None]:
    """Other spreads of the process or other probabilities of them, for a while."""
    before = {name: getattr(optimum_process, name) for name in changed}
    try:
        for name, value in changed.items():
            setattr(optimum_process, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(optimum_process, name, value)


def tilted(name: str, factor: float) -> tuple[tuple[float, float], ...]:
    """A constant with the odds of each next spread multiplied by a factor."""
    pairs = getattr(optimum_process, name)
    weights = [p * factor**i for i, (_, p) in enumerate(pairs)]
    return tuple((sd, w / sum(weights)) for (sd, _), w in zip(pairs, weights, strict=True))


def spreads() -> list[Row]:
    """Mean log score of each source with each vector of probabilities shifted."""
    changes: dict[str, Mapping[str, tuple[tuple[float, float], ...]]] = {"as they are": {}}
    for name in SPREADS:
        changes[f"{name} narrower"] = {name: tilted(name, 1 / TILT)}
        changes[f"{name} wider"] = {name: tilted(name, TILT)}
    rows = []
    for words, changed in changes.items():
        with constants(**changed):
            found = {source: log_scores(source).mean() for source in SOURCES}
        mean = np.mean(list(found.values()))
        each = ", ".join(f"{source} {score:.3f}" for source, score in found.items())
        rows.append(Row(part="mean log score", figure=words, reached=f"{mean:.4f}: {each}"))
    return rows
