"""The log loss of each seed at each size of a recipe, at its own best tuned values.

A seed's tuned loss is that of a polynomial through its own runs, read at the optimum of all seeds
together: linear in the runs and at a flat place, so that nothing is gained by picking the best of
several lucky runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.fitting import Noise, estimate_noise, estimate_optima, sharpen_noise
from extrap.laws.base import Array
from extrap.records import Optimum, Runs

__all__ = ["ArmLosses", "Key", "tuned_losses"]

Key = tuple[float, ...]
"""A size, one number a size column, to the digits by which sizes are told apart."""

WINDOW = 0.10
"""The polynomial sees cells whose log loss is within this of the best cell."""
MIN_CELLS = 5
"""… but always at least so many of the best cells."""
MISFIT_SCALE = 0.01
"""The polynomial errs more at a larger excess: variance proportional to 1 + (excess / this)²."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SizeLosses:
    """Tuned log losses of one recipe at one size.

    Attributes:
        by_seed: Seed → log loss.
        shape_variance: Variance of what is common to them, the shape of the valley; 0 where each
            seed has a valley of its own.
        shape_dof: Degrees of freedom behind it.
    """

    by_seed: Mapping[object, float]
    shape_variance: float = 0.0
    shape_dof: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArmLosses:
    """Tuned log losses of one recipe.

    Attributes:
        name: The recipe.
        by_size: Size → its losses; sizes without any are left out.
        flags: Reasons to doubt them.
    """

    name: str
    by_size: Mapping[Key, SizeLosses]
    flags: tuple[str, ...]


def tuned_losses(name: str, runs: Runs, *, level: float) -> ArmLosses:
    """The tuned log losses of a recipe, by size and seed.

    Args:
        name: The recipe.
        runs: Its sweep; only rows of stage `tune` count.
        level: Of the intervals of its optima.

    Raises:
        DataError: No run has a loss.
    """
    sweep = runs.of_stage("tune").in_order()
    if not len(sweep.complete()):
        raise DataError(
            f"a recipe needs runs with a loss, {name!r} has none of {len(sweep)}; lower the "
            "learning rates or check the loss column."
        )
    if not sweep.tuned:
        return _untuned(name, sweep)
    noise = estimate_noise(sweep)
    if noise.source != "replicates":
        sweep = sweep.without_copies()
        noise = estimate_noise(sweep)
    noise = sharpen_noise(sweep, noise)
    optima = estimate_optima(sweep, noise=noise, level=level)
    frame = sweep.to_frame()
    groups = {size_key(row, sweep.sizes): rows for row, rows in _by_size(frame, sweep.sizes)}
    found, flags = {}, _diverged_flags(name, optima, sweep.sizes)
    for optimum in optima:
        key = size_key(optimum.size, sweep.sizes)
        stable = _stable_runs(groups[key], list(sweep.tuned))
        if stable.empty:
            continue
        if optimum.edge:
            sides = ", ".join(f"{column} ({side})" for column, side in optimum.edge.items())
            flags.append(
                f"edge: the best of {name} at {_words(optimum.size)} lies at the end of its grid "
                f"in {sides}, its loss is an upper bound; extend the grid."
            )
            found[key] = _at_best_cell(stable, list(sweep.tuned))
        else:
            found[key] = _at_optimum(stable, list(sweep.tuned), optimum, noise, name, key)
    return ArmLosses(name=name, by_size=found, flags=tuple(flags))


def size_key(size: Mapping[str, float] | pd.Series, columns: tuple[str, ...]) -> Key:
    """A size as a key."""
    return tuple(float(f"{float(size[column]):.12g}") for column in columns)


def _by_size(
    frame: pd.DataFrame, columns: tuple[str, ...]
) -> list[tuple[dict[str, float], pd.DataFrame]]:
    return [
        (dict(zip(columns, map(float, key), strict=True)), rows)
        for key, rows in frame.groupby(list(columns), sort=True)
    ]


def _untuned(name: str, sweep: Runs) -> ArmLosses:
    found, flags = {}, []
    for size, rows in _by_size(sweep.to_frame(), sweep.sizes):
        complete = rows[rows["status"] == "complete"]
        lost = int((rows["status"] == "diverged").sum())
        if lost:
            flags.append(_diverged_flag(name, size, lost, len(rows)))
        if len(complete):
            found[size_key(size, sweep.sizes)] = SizeLosses(by_seed=_seed_means(complete, name))
    return ArmLosses(name=name, by_size=found, flags=tuple(flags))


def _diverged_flags(name: str, optima: tuple[Optimum, ...], columns: tuple[str, ...]) -> list[str]:
    """Only where nothing is left: diverged values of a tuned sweep are ordinary."""
    del columns
    return [
        _diverged_flag(name, o.size, o.n_diverged, o.n_runs)
        for o in optima
        if o.best_loss is None and o.n_diverged
    ]


def _diverged_flag(name: str, size: Mapping[str, float], lost: int, n_runs: int) -> str:
    return (
        f"diverged: {lost} of {n_runs} runs of {name} at {_words(size)} diverged; differences are "
        "those of the runs that did not."
    )


def _words(size: Mapping[str, float]) -> str:
    return ", ".join(f"{column} {value:g}" for column, value in size.items())


def _seed_label(seed: object, name: str) -> object:
    """Rows without a seed were numbered by the reader: no row of another recipe is its pair."""
    return (name, seed) if isinstance(seed, str) and seed.startswith("row-") else seed


def _seed_means(rows: pd.DataFrame, name: str) -> dict[object, float]:
    log_loss = np.log(rows["loss"].astype(float))
    means = log_loss.groupby(rows["seed"]).mean()
    return {_seed_label(seed, name): float(value) for seed, value in means.items()}


def _stable_runs(rows: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Complete runs at tuned values where no seed diverged."""
    diverged = pd.MultiIndex.from_frame(rows.loc[rows["status"] == "diverged", names])
    complete = rows[rows["status"] == "complete"]
    return complete[~pd.MultiIndex.from_frame(complete[names]).isin(diverged)]


def _at_best_cell(stable: pd.DataFrame, names: list[str], name: str = "") -> SizeLosses:
    cells = np.log(stable["loss"].astype(float)).groupby([stable[n] for n in names]).mean()
    best = np.atleast_1d(np.asarray(cells.idxmin(), dtype=float))
    here = np.all(np.isclose(stable[names].to_numpy(dtype=float), best, rtol=1e-9), axis=1)
    return SizeLosses(by_seed=_seed_means(stable[here], name))


def _at_optimum(
    stable: pd.DataFrame,
    names: list[str],
    optimum: Optimum,
    noise: Noise,
    name: str,
    key: Key,
) -> SizeLosses:
    """Tuned losses by seed, from whichever of three ways the design allows."""
    log_loss = np.log(stable["loss"].astype(float)).rename("y")
    cells = log_loss.groupby([stable[n] for n in names]).mean()
    order = (cells - cells.min()).sort_values(kind="stable")
    kept = order[(order <= WINDOW) | (np.arange(len(order)) < MIN_CELLS)]
    centre = _centre(optimum, names, cells)
    u = np.log2(np.array(kept.index.to_list(), dtype=float).reshape(len(kept), -1)) - centre
    weights = 1 / (1 + (kept.to_numpy(dtype=float) / MISFIT_SCALE) ** 2)
    terms = _terms(u)
    if terms is None:  # too few values for a valley: the best cell as it is
        return _at_best_cell(stable, names, name)
    table = (
        stable.assign(y=log_loss)
        .pivot_table(index=names, columns="seed", values="y", aggfunc="mean")
        .reindex(kept.index)
    )
    whole = table.columns[table.notna().all(axis=0)]
    if len(whole) >= 2 or len(whole) == table.shape[1]:
        smoother = _level(terms, weights)
        values = smoother @ table[whole].to_numpy(dtype=float)
        pairs = zip(whole, values, strict=True)
        return SizeLosses(by_seed={_seed_label(s, name): float(v) for s, v in pairs})
    if table.notna().sum(axis=0).max() > 1:
        return _common_shape(table, terms, weights, name)
    if optimum.loss is None:
        return _at_best_cell(stable, names, name)
    variance = 0.0 if optimum.loss_se is None else (optimum.loss_se / optimum.loss) ** 2
    return SizeLosses(
        by_seed={("all seeds", key): float(np.log(optimum.loss))},
        shape_variance=variance,
        shape_dof=float(noise.own_dof),
    )


def _centre(optimum: Optimum, names: list[str], cells: pd.Series) -> Array:
    values = [optimum.tuned[n].value for n in names]
    if any(value is None for value in values):
        return np.log2(np.atleast_1d(np.asarray(cells.idxmin(), dtype=float)))
    return np.log2(np.array(values, dtype=float))


def _terms(u: Array) -> Array | None:
    """Monomials at cells (n, d): cubic with two cells to spare, else quadratic, else None."""
    n, d = u.shape
    n_values = min(len(np.unique(np.round(column, 9))) for column in u.T)
    for degree in (3, 2):
        powers = [p for p in itertools.product(range(degree + 1), repeat=d) if sum(p) <= degree]
        spare = 2 if degree == 3 else 0
        if n >= len(powers) + spare and n_values > degree:
            return np.stack([np.prod(u ** np.array(p), axis=1) for p in powers], axis=1)
    return None


def _level(terms: Array, weights: Array) -> Array:
    """Weights of the cells in the value of the polynomial at its centre."""
    root = np.sqrt(weights)
    return np.asarray(np.linalg.pinv(terms * root[:, None])[0] * root)


def _common_shape(table: pd.DataFrame, terms: Array, weights: Array, name: str) -> SizeLosses:
    """One valley for all seeds, each higher or lower by a constant."""
    seeds = [s for s in table.columns if table[s].notna().any()]
    y = table[seeds].to_numpy(dtype=float)
    cell, seed = np.nonzero(np.isfinite(y))
    indicator = (seed[:, None] == np.arange(len(seeds))).astype(float)
    contrasts = indicator[:, :-1] - indicator[:, -1:]
    design, root = np.column_stack([terms[cell], contrasts]), np.sqrt(weights[cell])
    inverse = np.linalg.pinv(design * root[:, None])
    observed = y[cell, seed]
    coefficients = inverse @ (observed * root)
    residual = (observed - design @ coefficients) * root
    dof = max(len(observed) - int(np.linalg.matrix_rank(design)), 0)
    offsets = coefficients[terms.shape[1] :]
    offsets = np.append(offsets, -offsets.sum())
    variance = float(residual @ residual) / dof * float(inverse[0] @ inverse[0]) if dof else 0.0
    return SizeLosses(
        by_seed={
            _seed_label(s, name): float(coefficients[0] + o)
            for s, o in zip(seeds, offsets, strict=True)
        },
        shape_variance=variance,
        shape_dof=float(dof),
    )
