"""Tuned columns whose value does not matter, over the whole grid or up to one of its ends.

Such a column has no optimum to follow over size, and a grid that grows along it never ends.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from extrap.fitting.distributions import f_quantile, t_quantile
from extrap.fitting.prediction import SMALLEST_SD
from extrap.fitting.seed_noise import NEAR_OPTIMUM
from extrap.laws.base import Array
from extrap.records import WITHOUT_SEED, Optimum, Runs

SMALL = 0.005
"""Difference of the log loss that is not worth another run: half a percent is what a few percent
of compute buy."""
OF_NOISE = 2.0
"""Differences of so many standard deviations of a run count as noise: those of one run …"""
MOST = 0.1
"""… unless a value may cost as much as a tenth of the loss: then more seeds have to tell."""
LEVEL = 0.95
"""Of the test that sees a difference, and of each bound on one."""
LEAST_VALUES, LEAST_OCTAVES = 3, 3.0
"""A plateau at one end of the grid has so many values and is so wide: within two octaves of their
minimum the curves of learning rates are flat as well."""
LEAST_LENGTH = 1e-7
"""Of the shortest direction of the terms against the longest; its square is rounding."""
RANK = 1e-12
"""Of the shortest direction of what is taken out against the longest: below it is rounding."""
GRID = 17
"""Values of a sampled column at which its effect is bounded."""
REACH = 2.0
"""Octaves from the best run in which samples of the other tuned values are compared."""


def find_plateau(runs: Runs, name: str, *, most: float = MOST) -> tuple[tuple[float, ...], float]:
    """The values of a tuned column that are best and alike, up to an end of its grid; often none.

    And an upper bound of what the worst of them costs, log loss.

    The log losses are paired: at each size the values share the seed and the other tuned values,
    of which those within 5 % of the best count. An effect of each value and its trend over the
    sizes are fitted. Values are alike where an F test at 5 % sees no effect, and no value is worse
    than the best by two standard deviations of a run, nor by a tenth; or where none is worse by
    half a percent at the smallest or largest size. Each bound is one-sided at 95 %; as all must
    hold, so is their test (Berger, Hsu 1996, Statistical Science 11, 283).

    Values that a sampler drew differ from size to size. Their effect is a parabola in the
    logarithm, beside one in the other tuned values within two octaves of the best run of each
    size; all values are alike, by the same rule, or none.
    """
    if _is_sampled(runs, name):
        return _plateau_of_samples(runs, name, most=most)
    table, place = _paired(runs, name)
    values = np.array(table.columns, dtype=float)
    y = table.to_numpy(dtype=float)
    if len(values) < LEAST_VALUES or len(y) < 2 or len(np.unique(y)) < 2:
        return (), 0.0
    best = int(np.argmin(np.where(np.isfinite(y).all(axis=0), y.mean(axis=0), np.inf)))
    n = len(values)
    parts = [(0, n)]
    parts += [part for m in range(n - 1, LEAST_VALUES - 1, -1) for part in ((0, m), (n - m, n))]
    for first, stop in parts:
        width = math.log2(values[stop - 1] / values[first])
        is_wide = width >= LEAST_OCTAVES or stop - first == n
        if is_wide and first <= best < stop:
            worst = _cost_if_alike(y[:, first:stop], place, most=most)
            if worst is not None:
                return tuple(map(float, values[first:stop])), worst
    return (), 0.0


def fix_flat(runs: Runs, *, but: Collection[str] = ()) -> tuple[Runs, list[str]]:
    """A sweep at one value of each tuned column that has a plateau, and a flag for each.

    The column becomes a condition: what is fitted is what `where` with that value gives. Where a
    sampler drew its values, all runs stay and the column is tuned no more.

    Args:
        runs: The sweep.
        but: Columns to leave alone.
    """
    flags = []
    for name in [name for name in runs.tuned if name not in but]:
        alike, worst = find_plateau(runs, name)
        if not alike:
            continue
        within = f"any from {alike[0]:.4g} to {alike[-1]:.4g} does as well, within"
        flag = f"flat-{name}: {within} {100 * worst:.2g} %, so"
        if _is_sampled(runs, name):
            runs = replace(runs, tuned=tuple(c for c in runs.tuned if c != name))
            flag += " all runs are used, whatever theirs is; leave it out of the tuned values"
        else:
            value = alike[(len(alike) - 1) // 2]
            runs = _at_value(runs, name, value)
            flag += (
                f" it is fixed at {value:.4g}; leave it out of a study's tuned values, or read a "
                f"table with --where {name}={value:.12g}"
            )
        flags.append(flag)
    return runs, flags


def fix_weakest(runs: Runs, optima: Sequence[Optimum]) -> tuple[Runs, str] | None:
    """A sweep at one value of the tuned column that keeps optima from being found, and a flag.

    None if no value of a column was tried at all sizes, as where a sampler drew them.

    For sweeps whose optimum is bracketed at too few sizes: of the columns, the one whose best
    value lies most often at an end of its grid, of these the one that changes the loss least. The
    value is the one with the lowest log loss over all sizes, the other columns at their best.

    Args:
        runs: A sweep of several tuned columns.
        optima: Its optima.
    """
    frame = runs.complete().to_frame()
    log_loss = np.log(frame["loss"].astype(float)).rename("log_loss")
    cells = log_loss.groupby([frame[c] for c in (*runs.sizes, *runs.tuned)]).mean()
    best = {
        name: cells.groupby(level=[*runs.sizes, name]).min().unstack(name).dropna(axis="columns")
        for name in runs.tuned
    }
    best = {column: table for column, table in best.items() if not table.empty}
    if not best:
        return None
    n_edges = Counter(column for optimum in optima for column in optimum.edge or ())
    effect = {column: float(np.ptp(table, axis=1).mean()) for column, table in best.items()}
    name = min(best, key=lambda column: (-n_edges[column], effect[column]))
    value = float(best[name].mean().idxmin())
    return _at_value(runs, name, value), (
        f"fixed-{name}: how its best value moves with size is not known, so it is fixed at "
        f"{value:.4g}, the best one over all sizes; tune it over a finer or wider grid, or leave "
        "it out of the tuned values"
    )


def _at_value(runs: Runs, name: str, value: float) -> Runs:
    """The runs at one value of a tuned column, which becomes a condition."""
    frame = runs.to_frame()
    away = frame.index[frame[name].to_numpy(dtype=float) != value]
    tuned = tuple(column for column in runs.tuned if column != name)
    conditions = tuple(dict.fromkeys((*runs.conditions, name)))
    return replace(runs.without_rows(away), tuned=tuned, conditions=conditions)


def _paired(runs: Runs, name: str) -> tuple[pd.DataFrame, Array]:
    """Log losses, one row per size, seed and other tuned values, a column per value; and sizes."""
    frame = runs.to_frame()
    frame = frame[frame["status"] != "failed"]
    others = [column for column in runs.tuned if column != name]
    frame = frame.assign(
        _y=np.log(frame["loss"].astype(float)).fillna(np.inf),
        _size=frame.groupby(list(runs.sizes)).ngroup(),
        _other=frame.groupby(others).ngroup() if others else 0,
        _seed=frame["seed"].where(
            ~frame["seed"].astype(str).str.startswith(WITHOUT_SEED),
            frame.groupby([*runs.sizes, *runs.tuned]).cumcount(),
        ),
    )
    n_sizes = frame["_size"].nunique()
    at_all = frame.groupby(name)["_size"].transform("nunique") == n_sizes
    key = ["_size", "_other", "_seed"]
    table = frame[at_all].pivot_table(index=key, columns=name, values="_y", aggfunc="mean")
    table = table.dropna()
    means = table.groupby(["_size", "_other"]).mean()
    lowest = pd.Series(np.sort(means, axis=1)[:, :LEAST_VALUES].sum(axis=1), index=means.index)
    lowest /= LEAST_VALUES
    near = lowest <= lowest.groupby("_size").transform("min") + np.log1p(NEAR_OPTIMUM)
    table = table[near.reindex(table.index.droplevel("_seed")).to_numpy()]
    place = table.index.get_level_values("_size").to_numpy(dtype=float)
    return table, place - (place.mean() if len(place) else 0.0)


def _is_sampled(runs: Runs, name: str) -> bool:
    """Whether too few values of a column were tried at every size to compare them pairwise."""
    frame = runs.to_frame()
    frame = frame[frame["status"] != "failed"]
    size = frame.groupby(list(runs.sizes)).ngroup()
    at_sizes = size.groupby(frame[name]).nunique()
    return len(at_sizes) > LEAST_VALUES > (at_sizes == size.nunique()).sum()


def _plateau_of_samples(runs: Runs, name: str, *, most: float) -> tuple[tuple[float, ...], float]:
    """All values of a column, if their effect is as small as `find_plateau` asks."""
    frame = runs.to_frame()
    frame = frame[frame["status"] != "failed"].reset_index(drop=True)
    y = np.log(frame["loss"].to_numpy(dtype=float))
    u = np.log2(frame[[c for c in runs.tuned if c != name]].to_numpy(dtype=float))
    x = np.log2(frame[name].to_numpy(dtype=float))
    near, place = np.zeros(len(y), dtype=bool), np.zeros(len(y))
    nuisance = []
    for rank, (_, group) in enumerate(frame.groupby(list(runs.sizes))):
        rows = group.index[_near_best(u[group.index], y[group.index])]
        near[rows], place[rows] = True, rank
        own = np.zeros((len(y), 1 + 2 * u.shape[1]))
        own[rows] = np.column_stack([np.ones(len(rows)), u[rows], u[rows] ** 2])
        nuisance.append(own)
    y, x, place = y[near], x[near], place[near]
    if not len(y) or not np.isfinite(y).all():
        return (), 0.0
    place, middle = place - place.mean(), x.mean()
    at = np.linspace(x.min(), x.max(), GRID) - middle
    effects = _terms(x - middle, place)
    worst = _cost_of_terms(
        y,
        np.column_stack(nuisance)[near],
        effects,
        contrasts=[_pairs(_terms(at, np.full(GRID, p))) for p in (0.0, place.min(), place.max())],
        most=most,
    )
    return ((), 0.0) if worst is None else (tuple(2.0 ** np.unique(x)), worst)


def _near_best(u: Array, y: Array) -> Array:
    """Which runs of a size lie near its best in the other tuned values, below any divergence."""
    best = u[np.argmin(np.where(np.isfinite(y), y, np.inf))]
    lost = u[~np.isfinite(y)]
    above = np.where(lost > best, lost, np.inf).min(axis=0, initial=np.inf)
    return ((np.abs(u - best) <= REACH) & (u < above)).all(axis=1)


def _terms(x: Array, place: Array) -> Array:
    return np.column_stack([x, x**2, x * place, x**2 * place])


def _pairs(terms: Array) -> Array:
    """Differences of all pairs of rows."""
    return (terms[:, None] - terms).reshape(-1, terms.shape[1])


def _cost_of_terms(
    y: Array, nuisance: Array, effects: Array, *, contrasts: Sequence[Array], most: float
) -> float | None:
    """An upper bound of what an effect costs; None where it is seen or may be large."""
    left, scale, _ = np.linalg.svd(nuisance, full_matrices=False)
    basis = left[:, scale > RANK * scale[0]]
    y, effects = y - basis @ (basis.T @ y), effects - basis @ (basis.T @ effects)
    k, dof = effects.shape[1], len(y) - basis.shape[1] - effects.shape[1]
    _, lengths, axes = np.linalg.svd(effects, full_matrices=False)
    if dof < 1 or lengths[-1] <= LEAST_LENGTH * lengths[0]:  # the terms are hardly told apart
        return None
    found, *_ = np.linalg.lstsq(effects, y, rcond=None)
    rest = y - effects @ found
    sd, t = max(math.sqrt(rest @ rest / dof), SMALLEST_SD), float(t_quantile(LEVEL, dof))
    inverse = axes.T @ np.diag(lengths**-2.0) @ axes
    bounds = []
    for each in contrasts:
        variance = np.einsum("ij,jk,ik->i", each, inverse, each)
        bounds.append(float(np.max(each @ found + t * sd * np.sqrt(variance))))
    at_ends, middle = max(bounds[1:]), bounds[0]
    if at_ends < SMALL:
        return at_ends
    f = float(y @ y - rest @ rest) / k / sd**2
    is_noise = f <= float(f_quantile(LEVEL, k, dof))
    return middle if is_noise and middle < min(OF_NOISE * sd, most) else None


def _cost_if_alike(y: Array, place: Array, *, most: float) -> float | None:
    """An upper bound of what the worst column costs; None where they differ beyond noise."""
    if not np.isfinite(y).all():
        return None
    n, k = y.shape
    own = y - y.mean(axis=1, keepdims=True)
    spread = float(place @ place)
    trend = place @ own / spread if spread else np.zeros(k)
    effect, n_terms = own.mean(axis=0), 1 + bool(spread)
    square = float(np.sum((own - effect - np.outer(place, trend)) ** 2))
    dof = (n - n_terms) * (k - 1)
    if dof < 1:
        return None
    sd, t = max(math.sqrt(square / dof), SMALLEST_SD), float(t_quantile(LEVEL, dof))
    ends = np.array([place.min(), place.max()])
    se = sd * np.sqrt(2 / n + (2 * ends**2 / spread if spread else 0.0))
    at_ends = float(np.max(np.ptp(effect + np.outer(ends, trend), axis=1) + t * se))
    if at_ends < SMALL:
        return at_ends
    explained = n * float(effect @ effect) + spread * float(trend @ trend)
    f = explained / (n_terms * (k - 1)) / sd**2
    worst = float(np.ptp(effect)) + t * sd * math.sqrt(2 / n)
    is_noise = f <= float(f_quantile(LEVEL, n_terms * (k - 1), dof))
    return worst if is_noise and worst < min(OF_NOISE * sd, most) else None
