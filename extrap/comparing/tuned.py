"""The log loss of each seed at each size of a recipe, at its own best tuned values.

A seed's tuned loss is that of a polynomial through its own runs, read at the optimum of all seeds
together: linear in the runs and at a flat place, so that nothing is gained by picking the best of
several lucky runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from extrap.errors import DataError
from extrap.fitting.surface import Asymmetry, Neighbourhood, Vertex, fit_surface, pool_asymmetry
from extrap.laws.base import Array
from extrap.records import WITHOUT_SEED, Runs

Mask = npt.NDArray[np.bool_]
Index = npt.NDArray[np.intp]
Key = tuple[float, ...]
"""A size, one number per size column, to the digits by which sizes are distinguished."""

WINDOW = 0.10
"""The polynomial sees cells whose log loss is within this of the best cell."""
MIN_CELLS = 5
"""… but always at least so many of the best cells."""
MANY_SEEDS = 64
"""Beyond so many seeds their effects average out."""
MISFIT_SCALE = 0.01
"""The polynomial errs more at a larger excess: variance proportional to 1 + (excess / this)²."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SizeLosses:
    """Tuned log losses of one recipe at one size.

    Attributes:
        by_seed: Seed → log loss.
        shape_variance: Variance of what is common to them, the shape of the excess-loss curve; 0
            where each seed has an excess-loss curve of its own.
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


def tuned_losses(name: str, runs: Runs) -> ArmLosses:
    """The tuned log losses of a recipe, by size and seed.

    Args:
        name: The recipe.
        runs: Its sweep; only rows of stage `tune` count.

    Raises:
        DataError: No run has a loss.
    """
    sweep = runs.of_stage("tune").in_order()
    frame = sweep.to_frame()
    if not frame["status"].eq("complete").any():
        raise DataError(
            f"a recipe needs runs with a loss, {name!r} has none of {len(frame)}; lower the "
            "learning rates or check the loss column."
        )
    frame = frame[frame["status"].isin(["complete", "diverged", "pruned"])]
    sizes = np.column_stack([frame[c].to_numpy(dtype=float) for c in sweep.sizes])
    log_tuned = np.log2(frame[list(sweep.tuned)].to_numpy(dtype=float))
    with np.errstate(invalid="ignore"):
        log_loss = np.log(frame["loss"].to_numpy(dtype=float))
    seeds = np.array([_seed_label(s, name) for s in frame["seed"]], dtype=object)
    status = frame["status"].to_numpy(dtype=str)
    keys = [tuple(float(f"{v:.12g}") for v in row) for row in sizes]
    order = {key: np.array([k == key for k in keys]) for key in sorted(set(keys))}
    cells = {
        key: _Cells.of(log_tuned[rows], log_loss[rows], seeds[rows], status[rows])
        for key, rows in order.items()
    }
    flags = [
        f"diverged: {each.n_diverged} of {each.n_runs} runs of {name} at "
        f"{_words(key, sweep.sizes)} diverged; differences use only the other runs."
        for key, each in cells.items()
        if each.n_diverged and (not sweep.tuned or not each.u.size)
    ]
    flags += [
        f"edge: the best value of {name} at {_words(key, sweep.sizes)} lies at the end of "
        f"its grid in {', '.join(sweep.tuned[i] for i in each.edges)}, so its loss is an "
        "upper bound; extend the grid."
        for key, each in cells.items()
        if each.edges
    ]
    found = _all_sizes({key: each for key, each in cells.items() if len(each.u)})
    return ArmLosses(name=name, by_size=found, flags=tuple(flags))


def _words(key: Key, columns: tuple[str, ...]) -> str:
    return ", ".join(f"{c} {value:g}" for c, value in zip(columns, key, strict=True))


def _seed_label(seed: object, name: str) -> object:
    """Rows without a seed were numbered by the reader: no row of another recipe is its pair."""
    return f"{name}: {seed}" if isinstance(seed, str) and seed.startswith(WITHOUT_SEED) else seed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Cells:
    """The stable tuned values of one size: those where no seed diverged.

    Attributes:
        u: log2 of the tuned values, shape (n_cells, n_tuned).
        y: Log losses, NaN where there is none, shape (n_cells, n_seeds).
        seeds: Labels of the seeds.
        diverged: log2 of the values that diverged, shape (n_diverged_runs, n_tuned).
        edges: Tuned columns at whose end the best cell lies.
        n_runs: Runs that did not fail.
    """

    u: Array
    y: Array
    seeds: tuple[object, ...]
    diverged: Array
    edges: tuple[int, ...]
    n_runs: int

    @classmethod
    def of(cls, log_tuned: Array, log_loss: Array, seeds: Array, status: Array) -> _Cells:
        """Sort out the runs of one size."""
        tried = np.round(log_tuned, 9)
        diverged = tried[status == "diverged"]
        complete = status == "complete"
        if tried.shape[1]:
            complete &= _is_below_divergence(tried, complete, diverged)
        u, cell = np.unique(tried[complete], axis=0, return_inverse=True)
        names = tuple(dict.fromkeys(seeds[complete]))
        column = np.array([names.index(s) for s in seeds[complete]], dtype=int)
        total, count = np.zeros((2, len(u), len(names)))
        np.add.at(total, (cell.ravel(), column), log_loss[complete])
        np.add.at(count, (cell.ravel(), column), 1.0)
        y = np.where(count > 0, total / np.maximum(count, 1.0), np.nan)
        edges: tuple[int, ...] = ()
        if len(u) and tried.shape[1]:
            best = u[int(np.argmin(np.nanmean(y, axis=1)))]
            edges = tuple(
                i
                for i, column_values in enumerate(tried.T)
                if np.ptp(column_values) > 0  # a value that is kept has no end
                and not column_values.min() < best[i] < column_values.max()
            )
        return cls(u=u, y=y, seeds=names, diverged=diverged, edges=edges, n_runs=len(tried))

    @property
    def n_diverged(self) -> int:
        """Runs that diverged."""
        return len(self.diverged)

    @property
    def means(self) -> Array:
        """Mean log loss of each cell."""
        return np.asarray(np.nanmean(self.y, axis=1))


def _is_below_divergence(tried: Array, complete: Mask, diverged: Array) -> Mask:
    """Values at which no run diverged; of a single tuned column, on the stable side of these."""
    if not len(diverged):
        return np.ones(len(tried), dtype=bool)
    if tried.shape[1] == 1 and complete.any():
        if diverged.mean() >= tried[complete].mean():
            side = tried[:, 0] < diverged.min()
        else:
            side = tried[:, 0] > diverged.max()
        if (side & complete).any():
            return np.asarray(side)
    return np.asarray(~(tried[:, None] == diverged[None]).all(axis=2).any(axis=1))


def _all_sizes(cells: Mapping[Key, _Cells]) -> dict[Key, SizeLosses]:
    """Every size, those with an excess-loss curve helped by the asymmetry of the others."""
    around = {key: _neighbourhood(each) for key, each in cells.items()}
    hoods = {key: each for key, each in around.items() if each is not None}
    shapes = dict(zip(hoods, pool_asymmetry(list(hoods.values())), strict=True))
    found = {}
    for key, each in cells.items():
        vertex = None
        if key in hoods:
            vertex = _vertex(each, hoods[key], shapes[key])
        if vertex is None or not each.u.shape[1]:
            found[key] = _at_best_cell(each)
        else:
            found[key] = _at_optimum(each, vertex, key)
    return found


def _kept(cells: _Cells) -> tuple[Index, Array]:
    """The cells a polynomial sees, and their excess over the best one."""
    excess = cells.means - cells.means.min()
    order = np.argsort(excess, kind="stable")
    kept = order[(excess[order] <= WINDOW) | (np.arange(len(order)) < MIN_CELLS)]
    return kept, excess[kept]


def _neighbourhood(cells: _Cells) -> Neighbourhood | None:
    """The runs around the best cell; None at an edge, or with too few values for a curve."""
    if cells.edges or not cells.u.shape[1]:
        return None
    kept, excess = _kept(cells)
    if _degree(cells.u[kept]) is None:
        return None
    cell, seed = np.nonzero(np.isfinite(cells.y[kept]))
    start = cells.u[int(np.argmin(cells.means))]
    return Neighbourhood(
        u=cells.u[kept][cell] - start,
        y=cells.y[kept][cell, seed],
        weights=1 / (1 + (excess[cell] / MISFIT_SCALE) ** 2),
        seeds=_contrasts(seed, cells.y.shape[1]),
        start=start,
    )


def _contrasts(seed: Index, n_seeds: int) -> Array:
    """Sum-to-zero columns that take out what a seed does to all its runs; none beyond reason."""
    if n_seeds < 2 or n_seeds > MANY_SEEDS or (np.bincount(seed, minlength=n_seeds) < 2).any():
        return np.empty((len(seed), 0))
    indicator = (seed[:, None] == np.arange(n_seeds)).astype(float)
    return np.asarray(indicator[:, :-1] - indicator[:, -1:])


def _vertex(cells: _Cells, hood: Neighbourhood, shape: Asymmetry | None) -> Vertex | None:
    """The minimum of a cubic surface, else of a quadratic one."""
    attempts: list[tuple[int, Asymmetry | None]] = [(2, None)]
    if shape is not None or _degree(np.unique(hood.u, axis=0)) == 3:
        attempts.insert(0, (3, shape))
    for degree, asymmetry in attempts:
        vertex = fit_surface(hood, degree=degree, asymmetry=asymmetry, known_sd=0.0, known_dof=0)
        if vertex is not None and not _is_beyond(cells, vertex.position):
            return vertex
    return None


def _is_beyond(cells: _Cells, position: Array) -> bool:
    """Whether a minimum lies nearer to values that diverged than to any that did not."""
    if not len(cells.diverged):
        return False
    to_diverged, to_stable = (
        float(((values - position) ** 2).sum(axis=1).min()) for values in (cells.diverged, cells.u)
    )
    return to_diverged < to_stable


def _at_best_cell(cells: _Cells) -> SizeLosses:
    best = cells.y[int(np.argmin(cells.means))]
    return SizeLosses(
        by_seed={s: float(v) for s, v in zip(cells.seeds, best, strict=True) if np.isfinite(v)}
    )


def _at_optimum(cells: _Cells, vertex: Vertex, key: Key) -> SizeLosses:
    """Tuned losses by seed, from whichever of three ways the design allows."""
    kept, excess = _kept(cells)
    terms = _terms(cells.u[kept] - vertex.position)
    weights = 1 / (1 + (excess / MISFIT_SCALE) ** 2)
    y = cells.y[kept]
    whole = np.asarray(np.isfinite(y).all(axis=0))
    if whole.sum() >= 2 or whole.all():
        values = _level(terms, weights) @ y[:, whole]
        labels = [s for s, is_whole in zip(cells.seeds, whole.tolist(), strict=True) if is_whole]
        return SizeLosses(by_seed=dict(zip(labels, map(float, values), strict=True)))
    if np.isfinite(y).sum(axis=0).max() > 1:
        return _common_shape(cells.seeds, y, terms, weights)
    return SizeLosses(
        by_seed={("all seeds", key): vertex.log_loss},
        shape_variance=vertex.log_loss_variance,
        shape_dof=vertex.dof,
    )


def _degree(u: Array) -> int | None:
    """Of the polynomial that cells (n, d) carry: cubic with two to spare, quadratic, or None."""
    n, d = u.shape
    n_values = min(len(np.unique(np.round(column, 9))) for column in u.T)
    for degree, n_spare in ((3, 2), (2, 0)):
        if n >= math.comb(d + degree, degree) + n_spare and n_values > degree:
            return degree
    return None


def _terms(u: Array) -> Array:
    """Monomials at cells, shape (n_cells, n_terms)."""
    degree = _degree(u) or 2
    powers = [
        p for p in itertools.product(range(degree + 1), repeat=u.shape[1]) if sum(p) <= degree
    ]
    return np.stack([np.prod(u ** np.array(p), axis=1) for p in powers], axis=1)


def _level(terms: Array, weights: Array) -> Array:
    """Weights of the cells in the value of the polynomial at its centre."""
    root = np.sqrt(weights)
    return np.asarray(np.linalg.pinv(terms * root[:, None])[0] * root)


def _common_shape(
    labels: tuple[object, ...], y: Array, terms: Array, weights: Array
) -> SizeLosses:
    """One excess-loss curve for all seeds, each higher or lower by a constant."""
    has_run = np.asarray(np.isfinite(y).any(axis=0))
    seeds = [s for s, has in zip(labels, has_run.tolist(), strict=True) if has]
    y = y[:, has_run]
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
    values = coefficients[0] + np.append(offsets, -offsets.sum())
    variance = float(residual @ residual) / dof * float(inverse[0] @ inverse[0]) if dof else 0.0
    return SizeLosses(
        by_seed=dict(zip(seeds, map(float, values), strict=True)),
        shape_variance=variance,
        shape_dof=float(dof),
    )
