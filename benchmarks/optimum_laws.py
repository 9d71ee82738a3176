"""The law of optima alone, on optima that are known: published, and of surfaces.

    python -m benchmarks.optimum_laws

A forecast is an exact mixture of normal distributions, one for each choice of the spreads of
`extrap.fitting.surface.optimum_process`. The command prints the mean log score of every source
under the probabilities of the spreads as they are and shifted. To choose them on some sources and
judge them on another one:

    with constants(OPTIMUM_BEND_SDS=((0.003, 0.5), (0.08, 0.3), (0.2, 0.2))):
        log_scores("Metz").mean()
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special, stats

import extrap
from benchmarks.optima import N_BELOW, SIZES, TUNED, Array, step_law
from benchmarks.page import ROOT, print_rows
from benchmarks.rows import DATA, Row, require
from extrap.fitting.surface import optimum_process
from extrap.fitting.surface.known_optima import KnownOptima
from extrap.fitting.surface.optimum_process import LEAST_VARIANCE, OptimumProcess
from extrap.fitting.surface.surface import fit_surfaces
from extrap.fitting.surface.sweep_arrays import arrays_of

STEP_LAW = ("Step Law lr", "Step Law batch")
WIDTHS = {"Metz": "studies/metz_full.csv", "sweep.csv": "examples/sweep.csv"}
SOURCES = (*STEP_LAW, "Porian", *WIDTHS)
N_WIDTHS = 4
"""Widths at least that forecast the others."""
SPREADS = ("OPTIMUM_BEND_SDS", "SEVERAL_BEND_SDS", "WALKS", "SCATTER_SDS", "SHARED")
TILT = 2.0
"""By which the odds of neighbouring spreads are multiplied."""
RIDGE = 1e-4
"""Information that every optimum has at least: a standard error of 100 octaves."""


class Seen(NamedTuple):
    """Optima of one tuned column as runs give them: log2 of sizes (S, C), values, covariance."""

    log_sizes: Array
    values: Array
    covariance: Array

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


def beyond(seen: Seen, below: Array, targets: Array) -> Mixture:
    """What the optima `below` say of those at targets, log2 of sizes (T, C)."""
    covariance = seen.covariance[np.ix_(below, below)]
    optima = KnownOptima(seen.log_sizes[below], seen.values[below], covariance)
    means, covariances = optima.posterior(targets)
    variances = np.diagonal(covariances, axis1=1, axis2=2) + optima.scatter_variances[:, None]
    return Mixture(optima.weights, means, np.sqrt(np.maximum(variances, LEAST_VARIANCE)))


def porian(data: Path = DATA) -> list[Seen]:
    """The best model sizes at the budgets of each setting."""
    table = pd.read_csv(require(data, "porian_optima.csv"))
    table = table[table["n_star_std_log"] > 0]
    settings = [c for c in table.columns[:7] if c != "dataset"] + ["dataset"]
    found = []
    for _, budgets in table.groupby(settings):
        logs = budgets.sort_values("flops")[["flops", "n_star", "n_star_std_log"]].to_numpy(float)
        variance = np.diag((logs[:, 2] / np.log(2)) ** 2)
        found.append(Seen(np.log2(logs[:, :1]), np.log2(logs[:, 1]), variance))
    return found


@cache
def seen_of(source: str) -> tuple[list[Seen], int]:
    """The optima of a source, and how many at least forecast the others."""
    if source == "Porian":
        return porian(), N_BELOW
    if source in STEP_LAW:
        table = step_law(DATA).reset_index(drop=True)
        return [_surface_optima(table, SIZES, TUNED, STEP_LAW.index(source))], N_BELOW
    table = pd.read_csv(ROOT / WIDTHS[source])[["width", "lr", "seed", "loss", "status"]]
    return [_surface_optima(table, ("width",), ("lr",), 0)], N_WIDTHS


def _surface_optima(
    table: pd.DataFrame, sizes: tuple[str, ...], tuned: tuple[str, ...], j: int
) -> Seen:
    """What the runs alone say of the optima of a tuned column: the prior is taken out."""
    surfaces, weights = fit_surfaces(arrays_of(extrap.read_runs(table, size=sizes, tune=tuned)))
    surface = surfaces[int(np.argmax(weights))]
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
    the present constants that `SPREADS` names of its module.

    Args:
        source: One of `SOURCES`.
    """
    sds = [tuple(sd for sd, _ in getattr(optimum_process, name)) for name in SPREADS]
    key = (*sds, optimum_process.LEVEL_SD, optimum_process.SLOPE_SD)
    n_columns = seen_of(source)[0][0].log_sizes.shape[1]
    # as the process makes it of the constants, whatever the sizes
    prior = OptimumProcess(np.eye(2, n_columns)).prior_probabilities
    found = []
    for evidence, densities in _under_each(source, key):
        weights = special.softmax(np.log(prior) + evidence)
        found.append(special.logsumexp(densities, axis=0, b=weights[:, None]))
    return np.concatenate(found)


@cache
def _under_each(source: str, _key: object) -> list[tuple[Array, Array]]:
    """Of each origin the log evidence of each choice of spreads, and log densities, (G, T)."""
    parts, n_below = seen_of(source)
    even = {
        name: tuple((sd, 1 / len(pairs)) for sd, _ in pairs)
        for name in SPREADS
        for pairs in (getattr(optimum_process, name),)
    }
    found = []
    with constants(**even), np.errstate(divide="ignore"):
        for seen in parts:
            for below, above in seen.origins(n_below):
                mixture = beyond(seen, below, seen.log_sizes[above])
                sds = np.sqrt(mixture.sds**2 + np.diag(seen.covariance)[above])
                densities = stats.norm.logpdf(seen.values[above], mixture.means, sds)
                found.append((np.log(mixture.weights), densities))
    return found


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
    """A constant with the odds of each next wider spread multiplied by a factor."""
    pairs = getattr(optimum_process, name)
    widths = sorted({np.max(sd) for sd, _ in pairs})
    weights = [p * factor ** widths.index(np.max(sd)) for sd, p in pairs]
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


if __name__ == "__main__":
    print_rows(spreads())
