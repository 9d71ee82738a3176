"""The best tuned values at each size of a sweep.

Around the best cell the log loss is fitted by a polynomial in log2 of the tuned values: cubic
where there are enough values, because the valley is steeper towards high rates, else quadratic.
A diverged or pruned run is never a number: it only says on which side the optimum is not.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import optimize, stats

from extrap.fitting.noise import Noise
from extrap.laws.base import Array
from extrap.records import Estimate, Interval, Optimum, Runs

__all__ = ["estimate_optima"]

WINDOW = 0.10
"""The polynomial sees cells whose log loss is within this of the best cell."""
MIN_CELLS = 5
"""… but always at least so many of the best cells."""
MISFIT_SCALE = 0.01
"""The polynomial errs more at a larger excess: variance proportional to 1 + (excess / this)²."""
MANY_SEEDS = 64
"""Beyond so many seeds their effects average out, and a column for each takes minutes."""
GRID_FLOOR = 0.25
"""The standard error of an optimum is at least this fraction of the grid's spacing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vertex:
    """Minimum of a fitted polynomial: log2 position and log loss, with their variances."""

    position: Array
    covariance: Array
    log_loss: float
    log_loss_variance: float
    dof: int


def estimate_optima(runs: Runs, *, noise: Noise, level: float) -> tuple[Optimum, ...]:
    """The optimum of every size, smallest first.

    Args:
        runs: A sweep. Without tuned columns the optimum is the mean loss of a size.
        noise: Run-to-run noise, from `estimate_noise`.
        level: Level of the intervals, in (0, 1).

    Returns:
        One optimum a size. At the edge of the grid, and where no interior minimum is found, it has
        no point estimate but a one-sided interval.

    References:
        Porian et al. (2024), arXiv 2406.19146, `minimize_with_interp`, for the floor on the
        standard error (.33 of the spacing there) and for dropping optima at the edge.
    """
    frame = runs.to_frame()
    frame = frame[frame["status"] != "failed"]
    optima = []
    for key, group in frame.groupby(list(runs.sizes), sort=True):
        size = dict(zip(runs.sizes, map(float, key), strict=True))
        if runs.tuned:
            optima.append(_tuned_optimum(group, size, list(runs.tuned), noise=noise, level=level))
        else:
            optima.append(_plain_mean(group, size, noise=noise))
    return tuple(optima)


def _plain_mean(group: pd.DataFrame, size: Mapping[str, float], *, noise: Noise) -> Optimum:
    """Without tuned columns: the mean loss of a size."""
    unknown = _unknown_optimum(group, size)
    losses = group.loc[group["status"] == "complete", "loss"].to_numpy(dtype=float)
    if not len(losses):
        return unknown
    loss = float(losses.mean())
    loss_se, paired_loss_se = _loss_errors(loss, 0.0, len(losses), group, noise)
    return replace(
        unknown,
        loss=loss,
        loss_se=loss_se,
        paired_loss_se=paired_loss_se,
        best_loss=loss,
        bracketed=True,
    )


def _unknown_optimum(group: pd.DataFrame, size: Mapping[str, float]) -> Optimum:
    """An optimum of which only the runs are counted."""
    return Optimum(
        size=size,
        tuned={},
        loss=None,
        loss_se=None,
        paired_loss_se=None,
        best_loss=None,
        n_runs=len(group),
        n_diverged=int((group["status"] == "diverged").sum()),
        bracketed=False,
        edge=None,
    )


def _tuned_optimum(
    group: pd.DataFrame,
    size: Mapping[str, float],
    names: list[str],
    *,
    noise: Noise,
    level: float,
) -> Optimum:
    unknown = _unknown_optimum(group, size)
    stable = _stable_runs(group, names)
    if stable.empty:
        return _nothing_stable(unknown, group, names)
    cells = _log_loss(stable).groupby([stable[name] for name in names]).mean()
    best = np.atleast_1d(np.asarray(cells.idxmin(), dtype=float))
    edge = _edges(group, names, best)
    observed = replace(unknown, best_loss=float(np.exp(cells.min())))
    vertex = None if edge else _find_vertex(stable, cells, names, noise=noise)
    if vertex is None:
        return replace(observed, tuned=_one_sided(group, names, best, edge), edge=edge or None)
    loss = float(np.exp(vertex.log_loss))
    n_seeds = stable["seed"].nunique()
    loss_se, paired_se = _loss_errors(loss, vertex.log_loss_variance, n_seeds, stable, noise)
    spacing = np.array([_spacing(group[name], b) for name, b in zip(names, best, strict=True)])
    log2_se = np.sqrt(np.diag(vertex.covariance) + (GRID_FLOOR * spacing) ** 2)
    t = float(stats.t.ppf(0.5 + level / 2, vertex.dof))
    located = zip(names, vertex.position, log2_se, strict=True)
    return replace(
        observed,
        tuned={name: _estimate(position, se, t) for name, position, se in located},
        loss=loss,
        loss_se=loss_se,
        paired_loss_se=paired_se,
        bracketed=True,
    )


def _stable_runs(group: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Complete runs at tuned values where no seed diverged."""
    diverged = pd.MultiIndex.from_frame(group.loc[group["status"] == "diverged", names])
    complete = group[group["status"] == "complete"]
    return complete[~pd.MultiIndex.from_frame(complete[names]).isin(diverged)]


def _log_loss(rows: pd.DataFrame) -> pd.Series:
    return np.log(rows["loss"].astype(float))


def _nothing_stable(unknown: Optimum, group: pd.DataFrame, names: list[str]) -> Optimum:
    """Where a single tuned value diverged wherever it was tried, its optimum lies lower."""
    if len(names) > 1 or not unknown.n_diverged:
        return replace(unknown, tuned=dict.fromkeys(names, _unknown(Interval(None, None))))
    lowest = float(group.loc[group["status"] == "diverged", names[0]].min())
    below = _unknown(Interval(None, lowest))
    return replace(unknown, tuned={names[0]: below}, edge={names[0]: "low"})


def _estimate(log2_value: float, log2_se: float, t: float) -> Estimate:
    value = float(2**log2_value)
    interval = Interval.around_log(np.log(2) * log2_value, t * np.log(2) * log2_se)
    return Estimate(value=value, se=float(value * np.log(2) * log2_se), ci=interval, pi=interval)


def _unknown(interval: Interval) -> Estimate:
    return Estimate(value=None, se=None, ci=interval, pi=interval)


def _loss_errors(
    loss: float, log_variance: float, n_seeds: int, rows: pd.DataFrame, noise: Noise
) -> tuple[float | None, float | None]:
    """Standard error of a loss and its paired part: of the curve, the seeds, the evaluation."""
    if noise.size_sd is None and log_variance == 0:
        return None, None
    evaluation = 0.0
    if "loss_se" in rows and rows["loss_se"].notna().any():
        evaluation = float((rows["loss_se"] / rows["loss"]).mean()) ** 2 / n_seeds
    paired = max(log_variance, (noise.size_sd or 0.0) ** 2 / n_seeds) + evaluation
    shared = noise.shared_sd**2 / n_seeds
    return float(loss * np.sqrt(paired + shared)), float(loss * np.sqrt(paired))


def _edges(group: pd.DataFrame, names: list[str], best: Array) -> dict[str, str]:
    """The tuned columns whose best value is the smallest or largest one that was tried."""
    edges = {}
    for name, value in zip(names, best, strict=True):
        tried = group[name].astype(float)
        if value <= tried.min():
            edges[name] = "low"
        elif value >= tried.max():
            edges[name] = "high"
    return edges


def _one_sided(
    group: pd.DataFrame, names: list[str], best: Array, edge: Mapping[str, str]
) -> dict[str, Estimate]:
    """What is known without a point estimate: the neighbours that were seen to be worse."""
    estimates = {}
    for name, value in zip(names, best, strict=True):
        tried = np.unique(group[name].astype(float))
        below, above = tried[tried < value], tried[tried > value]
        lower = float(below[-1]) if len(below) and edge.get(name) != "low" else None
        upper = float(above[0]) if len(above) and edge.get(name) != "high" else None
        estimates[name] = _unknown(Interval(lower, upper))
    return estimates


def _spacing(values: pd.Series, best: float) -> float:
    """Mean gap, in octaves, between a grid value and its neighbours."""
    tried = np.unique(np.log2(values.astype(float)))
    i = int(np.argmin(np.abs(tried - np.log2(best))))
    neighbours = tried[max(i - 1, 0) : i + 2]
    return float(np.diff(neighbours).mean()) if len(neighbours) > 1 else 0.0


def _find_vertex(
    stable: pd.DataFrame, cells: pd.Series, names: list[str], *, noise: Noise
) -> _Vertex | None:
    excess = cells - cells.min()
    order = excess.sort_values(kind="stable")
    keep = order[(order <= WINDOW) | (np.arange(len(order)) < MIN_CELLS)]
    rows = stable[pd.MultiIndex.from_frame(stable[names]).isin(_as_multi(keep.index, names))]
    row_excess = excess.reindex(rows.set_index(names).index).to_numpy(dtype=float)
    u = np.log2(rows[names].to_numpy(dtype=float))
    scale = max(MISFIT_SCALE, noise.log_sd or 0.0)
    weights = 1.0 / (1.0 + (row_excess / scale) ** 2)
    seeds = _seed_contrasts(rows["seed"])
    y = _log_loss(rows).to_numpy(dtype=float)
    start = np.log2(np.atleast_1d(np.asarray(cells.idxmin(), dtype=float)))
    for degree in _degrees(u):
        vertex = _fit_polynomial(u, y, weights, seeds, degree=degree, start=start, noise=noise)
        if vertex is not None:
            return vertex
    return None


def _as_multi(index: pd.Index, names: list[str]) -> pd.MultiIndex:
    return (
        index
        if isinstance(index, pd.MultiIndex)
        else pd.MultiIndex.from_arrays([index], names=names)
    )


def _degrees(u: Array) -> list[int]:
    """Cubic where at least three values are to spare, then quadratic."""
    n_cells, d = len(np.unique(u, axis=0)), u.shape[1]
    values = min(len(np.unique(column)) for column in u.T)
    usable = []
    if n_cells >= len(_monomials(d, 3)) + 2 and values >= 4:
        usable.append(3)
    if n_cells >= len(_monomials(d, 2)) and values >= 3:
        usable.append(2)
    return usable


def _monomials(d: int, degree: int) -> Array:
    """Exponents of all monomials up to a total degree, shape (n_terms, d)."""
    powers = itertools.product(range(degree + 1), repeat=d)
    return np.array([p for p in powers if sum(p) <= degree])


def _seed_contrasts(seed: pd.Series) -> Array:
    """Sum-to-zero columns that take out what a seed does to all its runs alike."""
    counts = seed.value_counts()
    shared = sorted(counts.index[counts > 1], key=str)
    if not 2 <= len(shared) <= MANY_SEEDS or len(shared) < len(counts):
        return np.empty((len(seed), 0))
    indicator = np.column_stack([seed.eq(s).to_numpy(dtype=float) for s in shared])
    return np.asarray(indicator[:, :-1] - indicator[:, -1:])


def _fit_polynomial(
    u: Array,
    y: Array,
    weights: Array,
    seeds: Array,
    *,
    degree: int,
    start: Array,
    noise: Noise,
) -> _Vertex | None:
    """Weighted least squares, then the interior minimum, if any, by the delta method."""
    powers = _monomials(u.shape[1], degree)
    centred = u - start
    design = np.column_stack([_evaluate(powers, centred), seeds])
    root = np.sqrt(weights)[:, None]
    inverse = np.linalg.pinv((design * root).T @ (design * root))
    coefficients = inverse @ (design * root).T @ (y * root[:, 0])
    residual = (y - design @ coefficients) * root[:, 0]
    dof = len(y) - int(np.linalg.matrix_rank(design))
    variance = max(float(residual @ residual) / max(dof, 1), (noise.own_sd or 0.0) ** 2)
    theta = coefficients[: len(powers)]
    position = _interior_minimum(powers, theta, centred)
    if position is None:
        return None
    hessian = _derivatives(powers, theta, position)[1]
    sensitivity = np.linalg.solve(hessian, _gradient_rows(powers, position))
    covariance = inverse[: len(powers), : len(powers)] * variance
    at_vertex = _evaluate(powers, position[None])[0]
    return _Vertex(
        position=position + start,
        covariance=sensitivity @ covariance @ sensitivity.T,
        log_loss=float(at_vertex @ theta),
        log_loss_variance=float(at_vertex @ covariance @ at_vertex),
        dof=max(dof, 1) + noise.own_dof,
    )


def _evaluate(powers: Array, u: Array) -> Array:
    return np.asarray(np.prod(u[:, None, :] ** powers[None], axis=2))


def _gradient_rows(powers: Array, position: Array) -> Array:
    """Derivative of each monomial at a point, shape (d, n_terms)."""
    rows = []
    for axis in range(len(position)):
        lowered = powers.copy()
        lowered[:, axis] = np.maximum(lowered[:, axis] - 1, 0)
        rows.append(powers[:, axis] * _evaluate(lowered, position[None])[0])
    return np.array(rows)


def _derivatives(powers: Array, theta: Array, position: Array) -> tuple[Array, Array]:
    """Gradient (d,) and Hessian (d, d) of the polynomial at a point."""
    d = len(position)
    hessian = np.empty((d, d))
    for axis in range(d):
        lowered = powers.copy()
        lowered[:, axis] = np.maximum(lowered[:, axis] - 1, 0)
        hessian[axis] = _gradient_rows(lowered, position) @ (theta * powers[:, axis])
    return _gradient_rows(powers, position) @ theta, hessian


def _interior_minimum(powers: Array, theta: Array, u: Array) -> Array | None:
    """The minimum inside the box of the data, if it is not on the box's boundary."""
    low, high = u.min(axis=0), u.max(axis=0)
    found = optimize.minimize(
        lambda p: float(_evaluate(powers, p[None])[0] @ theta),
        np.zeros(u.shape[1]),
        jac=lambda p: _derivatives(powers, theta, p)[0],
        bounds=list(zip(low, high, strict=True)),
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-12},
    )
    position = np.asarray(found.x)
    margin = 1e-6 * (high - low)
    inside = bool(np.all(position > low + margin) and np.all(position < high - margin))
    convex = np.linalg.eigvalsh(_derivatives(powers, theta, position)[1])[0] > 0
    return position if inside and convex else None
