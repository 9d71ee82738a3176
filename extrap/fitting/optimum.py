"""The best tuned values at each size of a sweep.

Around the best cell the log loss is fitted by a polynomial in log2 of the tuned values, whose
asymmetry is shared by the sizes (`extrap.fitting.surface`). A diverged or pruned run is never a
number: it only bounds the optimum from one side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from extrap.fitting.distributions import t_quantile
from extrap.fitting.excess_curve import (
    NOISE,
    ExtrapolatedOptimum,
    Shape,
    UnbracketedSize,
    extrapolate_optima,
    fit_shape,
    usual_shape,
)
from extrap.fitting.projection import Index, Mask
from extrap.fitting.seed_noise import Noise
from extrap.fitting.surface import (
    MISFIT_SCALE,
    Asymmetry,
    Neighbourhood,
    Vertex,
    fit_surface,
    monomials,
    pool_asymmetry,
    pool_scatter,
)
from extrap.laws.base import Array
from extrap.records import Estimate, Interval, Optimum, Runs

WINDOW = 0.10
"""The polynomial sees cells whose log loss is within this of the best cell."""
MIN_CELLS = 5
"""… but always at least so many of the best cells."""
MANY_SEEDS = 64
"""Beyond so many seeds their effects average out, and a column for each takes minutes."""
TIED = 1e-12
"""Mean log losses that differ by less are equal."""
GRID_ERROR, NARROW = 0.1, (1.0, 2.0)
"""What a polynomial errs by without noise: a standard error of this times the spacing, which grows
with its square beyond an octave for three values, and beyond two for more. With it, and .3 %
noise, 90 % intervals from five rates an octave apart hold 89 to 94 % of the optima of whole
curves."""
NO_LIMITS = (-math.inf, math.inf)
WITHIN_NOISE = 2.0
"""Standard errors up to which the mean of a cell is as good as the best one."""
FLAT_TOP, MOST_GAIN, GAIN_SDS = 0.01, 0.02, 1.645
"""Where too few sizes bracket their optimum, those at the edge of their grid are used if their two
best log losses differ by at most the first, and their optima lie below these by at most the
second, so many standard errors included. Chosen on simulated sweeps whose two best rates differ by
.05 to .3 %, of which nearly all get a forecast, and by 1 to 3 %, of which none do."""
MOST_LOG2 = 1000.0
"""A float may be multiplied by two so many times."""


class Cells(NamedTuple):
    """Tuned values (m, d), mean log loss and number of runs of each; the cell of each run."""

    values: Array
    mean: Array
    n_runs: Array
    of_run: Index


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SizeGroup:
    """The runs of one size, sorted into what the surface sees and what only bounds the optimum.

    `limits` are log2 bounds, one pair a tuned column, from values that diverged; `tied` are all
    values with the smallest mean loss, one row each, `is_level` if they reach from one end of the
    grid to the other; `around` is None where no interior minimum can be looked for.
    """

    rows: pd.DataFrame
    stable: pd.DataFrame
    cells: Cells
    size: Mapping[str, float]
    best: Array
    tied: Array
    is_level: bool
    best_loss: float | None
    edge: Mapping[str, str]
    limits: tuple[tuple[float, float], ...]
    around: Neighbourhood | None


def runs_by_size(runs: Runs) -> list[tuple[dict[str, float], pd.DataFrame]]:
    """Each size with its runs, smallest first; none that failed."""
    frame = runs.to_frame()
    by_size = frame[frame["status"] != "failed"].groupby(list(runs.sizes), sort=True)
    return [(dict(zip(runs.sizes, map(float, key), strict=True)), rows) for key, rows in by_size]


def groups_of(
    runs: Runs, noise: Noise, *, wanted: Sequence[bool] | None = None
) -> dict[int, SizeGroup]:
    """The runs of every size, or of the wanted ones, sorted out, by the number of the size."""
    names = list(runs.tuned)
    return {
        i: _sort_out(rows, size, names, noise=noise.at_size(size))
        for i, (size, rows) in enumerate(runs_by_size(runs))
        if wanted is None or wanted[i]
    }


def log_losses(rows: pd.DataFrame) -> pd.Series:
    """Of complete runs."""
    return np.log(rows["loss"].astype(float))


def is_determined(u: Array, degree: int) -> bool:
    """Whether the values suffice for a polynomial; a cubic one needs two to spare."""
    n_cells, d = len(np.unique(u, axis=0)), u.shape[1]
    n_values = min(len(np.unique(column)) for column in u.T)
    spare = 2 if degree == 3 else 0
    return n_cells >= len(monomials(d, degree)) + spare and n_values > degree


def spacing(values: npt.ArrayLike, best: float) -> float:
    """Mean gap, in octaves, between a grid value and its neighbours."""
    tried = np.unique(np.log2(np.asarray(values, dtype=float)))
    i = int(np.argmin(np.abs(tried - np.log2(best))))
    neighbours = tried[max(i - 1, 0) : i + 2]
    return float(np.diff(neighbours).mean()) if len(neighbours) > 1 else 0.0


class Grid(NamedTuple):
    """The values of one column at one size: octaves between them, at the best, and how many."""

    spacing: float
    n_values: int

    @classmethod
    def of(cls, values: npt.ArrayLike, best: float) -> Grid:
        """The values that were tried, shape (n,), and the best one or where it should be."""
        return cls(spacing(values, best), len(np.unique(np.asarray(values, dtype=float))))

    def finer(self, times: int) -> Grid:
        """With each step divided."""
        return Grid(self.spacing / times, times * (self.n_values - 1) + 1)

    def error(self) -> float:
        """Standard error in octaves of an optimum between the values, without noise."""
        narrow = NARROW[0] if self.n_values <= 3 else NARROW[1]
        return GRID_ERROR * self.spacing * max(1.0, self.spacing / narrow)


def _cells_of(rows: pd.DataFrame, names: list[str]) -> Cells:
    """The cells of complete runs."""
    tried = rows[names].to_numpy(dtype=float)
    values, of_run = np.unique(tried, axis=0, return_inverse=True)
    of_run = of_run.ravel()
    mean = log_losses(rows).groupby(of_run).mean().to_numpy()
    return Cells(values, mean, np.bincount(of_run, minlength=len(values)).astype(float), of_run)


def _sort_out(
    rows: pd.DataFrame, size: Mapping[str, float], names: list[str], *, noise: Noise
) -> SizeGroup:
    tried, status = rows[names].to_numpy(dtype=float), rows["status"].to_numpy()
    _, cell = np.unique(tried, axis=0, return_inverse=True)
    cell = cell.ravel()
    # complete, at tuned values where no seed diverged
    is_stable = (status == "complete") & ~np.isin(cell, cell[status == "diverged"])
    cells = _cells_of(rows[is_stable], names)
    best_loss = float(np.exp(cells.mean.min())) if len(cells.mean) else None
    limits = (_limits(tried, status, cells),) if len(names) == 1 else (NO_LIMITS,) * len(names)
    log2, (low, high) = np.log2(tried), np.array(limits).T
    stable = rows[is_stable & ((log2 > low) & (log2 < high)).all(axis=1)]
    cells = _cells_of(stable, names)
    best, tied, edge, is_level, around = np.full(len(names), np.nan), cells.values, {}, False, None
    if len(cells.mean):
        best = cells.values[np.argmin(cells.mean)]
        tied = cells.values[cells.mean <= cells.mean.min() + TIED]
        is_low = tied.min(axis=0) <= tried.min(axis=0)
        is_high = tied.max(axis=0) >= tried.max(axis=0)
        is_level = len(tied) > 1 and bool((is_low & is_high).any())
        edge = _edges(names, is_low, is_high, is_single=len(tied) == 1)
        if not edge and not is_level:
            around = _neighbourhood(stable, cells, noise=noise)
    return SizeGroup(
        rows=rows,
        stable=stable,
        cells=cells,
        size=size,
        best=best,
        tied=tied,
        is_level=is_level,
        best_loss=best_loss,
        edge=edge,
        limits=limits,
        around=around,
    )


def _edges(names: list[str], is_low: Mask, is_high: Mask, *, is_single: bool) -> dict[str, str]:
    """The columns whose best value is at one end of the grid; several values may reach both."""
    edges = {}
    for name, low, high in zip(names, is_low, is_high, strict=True):
        if low and (is_single or not high):
            edges[name] = "low"
        elif high and not low:
            edges[name] = "high"
    return edges


def _limits(tried: Array, status: npt.NDArray[Any], cells: Cells) -> tuple[float, float]:
    """log2 bounds of the optimum: the first value that diverged, on the side where they do.

    One seed may diverge by chance: a value counts only beyond the best one of several runs.
    """
    value = np.log2(tried[:, 0])
    diverged, complete = (value[status == s] for s in ("diverged", "complete"))
    if not len(diverged):
        return NO_LIMITS
    is_above = not len(complete) or diverged.mean() >= complete.mean()
    repeated = cells.n_runs > 1
    if repeated.any():
        best = np.log2(cells.values[repeated, 0])[np.argmin(cells.mean[repeated])]
        diverged = diverged[diverged > best] if is_above else diverged[diverged < best]
        if not len(diverged):
            return NO_LIMITS
    first = (-math.inf, float(diverged.min())) if is_above else (float(diverged.max()), math.inf)
    outside = not np.any((complete > first[0]) & (complete < first[1]))
    return NO_LIMITS if outside and len(complete) else first


def _neighbourhood(stable: pd.DataFrame, cells: Cells, *, noise: Noise) -> Neighbourhood | None:
    """The runs the polynomial sees; None where not even a quadratic one is determined."""
    excess = cells.mean - cells.mean.min()
    is_seen = excess <= WINDOW
    is_seen[np.argsort(excess, kind="stable")[:MIN_CELLS]] = True
    seen = is_seen[cells.of_run]
    log2 = np.log2(cells.values)
    start, u = log2[np.argmin(cells.mean)], log2[cells.of_run][seen]
    if not is_determined(u, 2):
        return None
    scale = max(MISFIT_SCALE, noise.log_sd or 0.0)
    return Neighbourhood(
        u=u - start,
        y=log_losses(stable).to_numpy()[seen],
        weights=1.0 / (1.0 + (excess[cells.of_run][seen] / scale) ** 2),
        seeds=_seed_contrasts(stable["seed"][seen]),
        start=start,
    )


def _seed_contrasts(seed: pd.Series) -> Array:
    """Sum-to-zero columns that take out what a seed does to all its runs alike."""
    codes, seeds = pd.factorize(seed)
    counts = np.bincount(codes[codes >= 0], minlength=len(seeds))  # a seed may be missing
    if not 2 <= len(seeds) <= MANY_SEEDS or (counts < 2).any():
        return np.empty((len(seed), 0))
    order = sorted(range(len(seeds)), key=lambda i: str(seeds[i]))
    indicator = (codes[:, None] == np.array(order)).astype(float)
    return np.asarray(indicator[:, :-1] - indicator[:, -1:])


def estimate_optima(
    runs: Runs,
    *,
    noise: Noise,
    level: float,
    groups: Mapping[int, SizeGroup] | None = None,
) -> tuple[Optimum, ...]:
    """The optimum of every size, smallest first.

    Args:
        runs: A sweep. Without tuned columns the optimum is the mean loss of a size.
        noise: Run-to-run noise, from `estimate_noise`.
        level: Level of the intervals, in (0, 1).
        groups: From `groups_of` the same runs and noise, if the caller has them.

    Returns:
        One optimum a size. At the edge of the grid, and where nothing tells an interior minimum,
        it has no point estimate but a one-sided interval; the loss there is estimated from the
        shape of the excess-loss curve, if other sizes tell it (`extrapolate_optima`). With one
        tuned column it lies on the near side of the first value beyond the best at which a seed
        diverged.
    """
    if not runs.tuned:
        return tuple(
            _plain_mean(group, size, noise=noise.at_size(size))
            for size, group in runs_by_size(runs)
        )
    names = list(runs.tuned)
    groups = groups_of(runs, noise) if groups is None else groups
    around = [g.around for g in groups.values() if g.around is not None]
    shapes = pool_asymmetry(around)
    rest = iter(shapes)
    optima = tuple(
        _tuned_optimum(
            group,
            names,
            None if group.around is None else next(rest),
            noise=noise.at_size(group.size),
            level=level,
        )
        for group in groups.values()
    )
    return _with_losses_outside(runs, groups, optima, noise=noise)


def sharpen_noise(runs: Runs, noise: Noise) -> Noise:
    """The noise of an unreplicated sweep, from the scatter about the surfaces of all its sizes.

    The scatter about a parabola, all that `estimate_noise` has there, holds the asymmetry of the
    excess-loss curves too: on the dense runs of Step Law (arXiv 2503.04715) .6 % instead of .13 %.
    """
    if noise.is_replicated or not runs.tuned:
        return noise
    groups = groups_of(runs, noise).values()
    around = [group.around for group in groups if group.around is not None]
    log_sd, dof = pool_scatter(around, pool_asymmetry(around))
    if not dof:
        return noise
    return replace(
        noise, own_sd=log_sd, own_dof=dof, size_sd=log_sd, size_dof=dof, source="surface"
    )


def place_outside(runs: Runs, optima: Sequence[Optimum], *, noise: Noise) -> tuple[Optimum, ...]:
    """The optima with an estimate also where no grid brackets them, for a law over sizes.

    Args:
        runs: The sweep.
        optima: From `estimate_optima`, where these have one-sided intervals only.
        noise: As given there.
    """
    if not runs.tuned or all(optimum.bracketed for optimum in optima):
        return tuple(optima)
    are_open = [not optimum.bracketed for optimum in optima]
    groups, placed = groups_of(runs, noise, wanted=are_open), list(optima)
    for i, found in _outside(runs, groups, optima, noise=noise).items():
        log2_se = np.hypot(np.sqrt(found.position_variance), _floors(groups[i], runs.tuned))
        located = zip(runs.tuned, found.position, log2_se, strict=True)
        tuned = {name: _estimate(at, float(se), 0.0, NO_LIMITS) for name, at, se in located}
        placed[i] = replace(optima[i], tuned=tuned)
    return tuple(placed)


def losses_at_flat_edges(
    runs: Runs, optima: Sequence[Optimum], *, noise: Noise
) -> tuple[Optimum, ...]:
    """The optima with losses, if these hardly fall at all edges of a grid of one tuned column.

    For a law of the loss where too few sizes have one. No size then tells the excess-loss curve,
    but its usual shape and the values tried bound what is gained beyond the edge.

    Args:
        runs: The sweep.
        optima: From `estimate_optima`.
        noise: As given there.
    """
    wanted = [o.loss is None and o.edge is not None for o in optima]
    if len(runs.tuned) != 1 or not any(wanted):
        return tuple(optima)
    groups, sizes = groups_of(runs, noise, wanted=wanted), {}
    for i, group in groups.items():
        size = _unbracketed_size(group, optima[i], noise.at_size(optima[i].size))
        if size is not None:
            sizes[i] = size
    reference = np.exp(np.log([list(o.size.values()) for o in optima]).mean(axis=0))
    shape = usual_shape(1, reference)
    if not all(_is_flat(shape, size) for size in sizes.values()):
        return tuple(optima)
    outside = dict(zip(sizes, extrapolate_optima(shape, list(sizes.values())), strict=True))
    return _with_losses(optima, groups, outside, noise=noise)


def _is_flat(shape: Shape, size: UnbracketedSize) -> bool:
    """Whether the loss falls ever less towards the edge, and hardly any further beyond it."""
    lowest, octaves = float(size.log_loss.min()), size.octaves[:, 0]
    away = np.abs(octaves - octaves[np.argmin(size.log_loss)])
    others = np.argsort(away)[1:]
    away, above = away[others], size.log_loss[others] - lowest
    if above[0] > FLAT_TOP or above[0] / away[0] >= above[-1] / away[-1]:
        return False
    (found,) = extrapolate_optima(shape, [size])
    largest_gain = lowest - found.log_loss + GAIN_SDS * math.sqrt(found.log_loss_variance)
    return largest_gain <= MOST_GAIN


def _outside(
    runs: Runs, groups: Mapping[int, SizeGroup], optima: Sequence[Optimum], *, noise: Noise
) -> dict[int, ExtrapolatedOptimum]:
    """Optima that no grid brackets, by their number, where others tell the excess-loss curve."""
    sizes = {}
    for i, optimum in enumerate(optima):
        size = (
            None
            if optimum.bracketed
            else _unbracketed_size(groups[i], optimum, noise.at_size(optimum.size))
        )
        if size is not None:
            sizes[i] = size
    shape = fit_shape(runs, optima, log_sd=noise.log_sd) if sizes else None
    if shape is None or any(o.bracketed and o.loss_se is None for o in optima):
        return {}  # no curve, or errors that nothing can be weighed by
    return dict(zip(sizes, extrapolate_optima(shape, list(sizes.values())), strict=True))


def _with_losses_outside(
    runs: Runs, groups: Mapping[int, SizeGroup], optima: Sequence[Optimum], *, noise: Noise
) -> tuple[Optimum, ...]:
    """The optima with losses where no grid brackets them."""
    return _with_losses(optima, groups, _outside(runs, groups, optima, noise=noise), noise=noise)


def _with_losses(
    optima: Sequence[Optimum],
    groups: Mapping[int, SizeGroup],
    outside: Mapping[int, ExtrapolatedOptimum],
    *,
    noise: Noise,
) -> tuple[Optimum, ...]:
    """The optima with the losses that were found outside of their grids, by their number."""
    completed = list(optima)
    for i, found in outside.items():
        stable, loss = groups[i].stable, float(np.exp(found.log_loss))
        variance, n_seeds = found.log_loss_variance, stable["seed"].nunique()
        here = noise.at_size(optima[i].size)
        loss_se, paired_se = _loss_errors(loss, variance, n_seeds, stable, here)
        completed[i] = replace(optima[i], loss=loss, loss_se=loss_se, paired_loss_se=paired_se)
    return tuple(completed)


def _unbracketed_size(group: SizeGroup, optimum: Optimum, noise: Noise) -> UnbracketedSize | None:
    """The values of a size without an interior optimum; None where these do not tell it."""
    cells = group.cells
    if group.stable.empty or group.is_level:
        return None
    octaves = np.log2(cells.values)
    if not is_determined(octaves, 1):
        return None
    ends = [(e.ci.lower or 0.0, e.ci.upper or math.inf) for e in optimum.tuned.values()]
    with np.errstate(divide="ignore"):
        bounds = np.log2(np.array(ends)).T
    return UnbracketedSize(
        octaves=octaves,
        log_loss=cells.mean,
        variance=(NOISE if noise.row_sd is None else noise.row_sd) ** 2 / cells.n_runs,
        bounds=bounds,
        log_x=np.log(list(optimum.size.values())),
    )


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
    group: SizeGroup,
    names: list[str],
    asymmetry: Asymmetry | None,
    *,
    noise: Noise,
    level: float,
) -> Optimum:
    unknown = _unknown_optimum(group.rows, group.size)
    if group.stable.empty:
        return _nothing_stable(unknown, group, names)
    observed = replace(unknown, best_loss=group.best_loss)
    vertex = None if group.around is None else _find_vertex(group, names, asymmetry, noise)
    if vertex is None:
        vertex = _between_neighbours(group, names, noise)
    if vertex is None:
        bounds = _one_sided(group.rows, names, group.tied, group.edge)
        return replace(observed, tuned=bounds, edge=group.edge or None)
    loss = float(np.exp(vertex.log_loss))
    n_seeds = group.stable["seed"].nunique()
    loss_se, paired_se = _loss_errors(loss, vertex.log_loss_variance, n_seeds, group.stable, noise)
    log2_se = np.sqrt(np.diag(vertex.covariance) + _floors(group, names) ** 2)
    t = float(t_quantile(0.5 + level / 2, vertex.dof))
    tried = ((group.rows[name].min(), group.rows[name].max()) for name in names)
    located = zip(vertex.position, log2_se, group.limits, tried, strict=True)
    estimates = (_estimate(at, se, t, limits, tried=ends) for at, se, limits, ends in located)
    return replace(
        observed,
        tuned=dict(zip(names, estimates, strict=True)),
        loss=loss,
        loss_se=loss_se,
        paired_loss_se=paired_se,
        bracketed=True,
    )


def _nothing_stable(unknown: Optimum, group: SizeGroup, names: list[str]) -> Optimum:
    """Where a single tuned value diverged wherever it was tried, its optimum lies lower."""
    if len(names) > 1 or not unknown.n_diverged:
        return replace(unknown, tuned=dict.fromkeys(names, _unknown(Interval())))
    rows = group.rows
    lowest = float(rows.loc[rows["status"] == "diverged", names[0]].min())
    below = _unknown(Interval(None, lowest))
    return replace(unknown, tuned={names[0]: below}, edge={names[0]: "low"})


def _estimate(
    log2_value: float,
    log2_se: float,
    t: float,
    limits: tuple[float, float],
    *,
    tried: tuple[float, float] = (0.0, math.inf),
) -> Estimate:
    """The estimate; its interval ends where values diverged.

    One that is wider than the values tried says no more than they do: it is theirs.
    """
    value = float(2**log2_value)
    lower, upper = Interval.around_log(np.log(2) * log2_value, t * np.log(2) * log2_se)
    if tried[0] * 2 ** min(2 * t * log2_se, MOST_LOG2) > tried[1]:
        lower, upper = map(float, tried)
    if math.isfinite(limits[0]):
        lower = max(lower or 0.0, 2.0 ** limits[0])
    if math.isfinite(limits[1]):
        upper = 2.0 ** limits[1] if upper is None else min(upper, 2.0 ** limits[1])
    interval = Interval(lower, upper)
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


def _one_sided(
    group: pd.DataFrame, names: list[str], tied: Array, edge: Mapping[str, str]
) -> dict[str, Estimate]:
    """What is known without a point estimate: the neighbours that were seen to be worse."""
    estimates = {}
    for name, values in zip(names, tied.T, strict=True):
        tried = np.unique(group[name].astype(float))
        below, above = tried[tried < values.min()], tried[tried > values.max()]
        lower = float(below[-1]) if len(below) and edge.get(name) != "low" else None
        upper = float(above[0]) if len(above) and edge.get(name) != "high" else None
        estimates[name] = _unknown(Interval(lower, upper))
    return estimates


def _floors(group: SizeGroup, names: Sequence[str]) -> Array:
    """Least standard error of the optimum of each tuned column, in octaves."""
    pairs = zip(names, group.best, strict=True)
    return np.array([Grid.of(group.rows[name], best).error() for name, best in pairs])


def _find_vertex(
    group: SizeGroup, names: list[str], asymmetry: Asymmetry | None, noise: Noise
) -> Vertex | None:
    """The minimum of a cubic surface, else of a quadratic one."""
    around = group.around
    assert around is not None
    attempts: list[tuple[int, Asymmetry | None]] = []
    if asymmetry is not None:
        attempts.append((3, asymmetry))
    elif is_determined(around.u, 3):
        attempts.append((3, None))
    attempts.append((2, None))
    for degree, shape in attempts:
        vertex = fit_surface(
            around,
            degree=degree,
            asymmetry=shape,
            known_sd=noise.row_sd or 0.0,
            known_dof=noise.own_dof,
        )
        if vertex is not None and not _is_beyond(group, names, vertex.position):
            return vertex
    return None


def _between_neighbours(group: SizeGroup, names: list[str], noise: Noise) -> Vertex | None:
    """Beside a cliff no polynomial has a minimum: anywhere between the values seen to be worse.

    Only of one tuned column, whose best value is inside the grid. Values whose mean is within
    noise of the best count as best. The log loss is that of the best cell; below it the curve may
    go by a quarter of what the better neighbour is above it.
    """
    if len(names) > 1 or group.edge or group.is_level:
        return None
    _, mean, count, _ = group.cells
    places, best = np.log2(group.cells.values[:, 0]), int(np.argmin(mean))
    tried = np.unique(np.log2(group.rows[names[0]].to_numpy(dtype=float)))
    variance = (noise.row_sd or 0.0) ** 2 / count
    excess = mean - mean[best]
    is_best = excess <= WITHIN_NOISE * np.sqrt(variance + variance[best])
    low, high = places[is_best].min(), places[is_best].max()
    below, above = tried[tried < low], tried[tried > high]
    if not (len(below) and len(above)):
        return None
    beside = excess[~is_best].min() if not is_best.all() else 0.0
    width = above[0] - below[-1]
    return Vertex(
        position=np.array([(above[0] + below[-1]) / 2]),
        log_loss=float(mean[best]),
        covariance=np.array([[width**2 / 12]]),
        log_loss_variance=float(variance[best] + (beside / 4) ** 2),
        dof=math.inf,
    )


def _is_beyond(group: SizeGroup, names: list[str], position: Array) -> bool:
    """Whether a minimum lies nearer to values that diverged than to any that did not."""
    rows = group.rows
    diverged = np.log2(rows.loc[rows["status"] == "diverged", names].to_numpy(dtype=float))
    if not len(diverged):
        return False
    stable = np.log2(group.stable[names].to_numpy(dtype=float))
    gap = np.array([spacing(rows[n], b) for n, b in zip(names, group.best, strict=True)])
    to_diverged, to_stable = (
        np.min(np.sum(((values - position) / gap) ** 2, axis=1)) for values in (diverged, stable)
    )
    return bool(to_diverged < to_stable)
