"""The runs of one size, sorted into what a surface sees and what only bounds the optimum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from extrap.fitting.noise import Noise
from extrap.fitting.surface import Neighbourhood, monomials
from extrap.laws.base import Array
from extrap.records import Runs

WINDOW = 0.10
"""The polynomial sees cells whose log loss is within this of the best cell."""
MIN_CELLS = 5
"""… but always at least so many of the best cells."""
MISFIT_SCALE = 0.01
"""The polynomial errs more at a larger excess: variance proportional to 1 + (excess / this)²."""
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SizeGroup:
    """The runs of one size, sorted into what the surface sees and what only bounds the optimum.

    `limits` are log2 bounds, one pair a tuned column, from values that diverged; `tied` are all
    values with the smallest mean loss, one row each, `is_level` if they reach from one end of the
    grid to the other; `around` is None where no interior minimum can be looked for.
    """

    rows: pd.DataFrame
    stable: pd.DataFrame
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
        """Standard error in octaves of an optimum between the values, without noise.

        References:
            Ours, see `GRID_ERROR`. Porian et al. (2024), arXiv 2406.19146, `minimize_with_interp`,
            for a floor on the standard error (.33 of the spacing there, for an interpolation).
        """
        narrow = NARROW[0] if self.n_values <= 3 else NARROW[1]
        return GRID_ERROR * self.spacing * max(1.0, self.spacing / narrow)


def _sort_out(
    rows: pd.DataFrame, size: Mapping[str, float], names: list[str], *, noise: Noise
) -> SizeGroup:
    stable = _stable_runs(rows, names)
    cells = log_losses(stable).groupby([stable[name] for name in names]).mean()
    limits = (_limits(rows, stable, names[0]),) if len(names) == 1 else (NO_LIMITS,) * len(names)
    best_loss = float(np.exp(cells.min())) if len(cells) else None
    log2 = np.log2(stable[names].to_numpy(dtype=float))
    inside = np.all([(c > lo) & (c < hi) for c, (lo, hi) in zip(log2.T, limits, strict=True)], 0)
    stable = stable[inside]
    cells = log_losses(stable).groupby([stable[name] for name in names]).mean()
    best, edge, is_level, around = np.full(len(names), np.nan), {}, False, None
    tied = cells.index[cells <= cells.min() + TIED].to_frame().to_numpy(dtype=float)
    if len(cells):
        best = np.atleast_1d(np.asarray(cells.idxmin(), dtype=float))
        edge, is_level = _edges(rows, names, tied), _is_level(rows, names, tied)
        if not edge and not is_level:
            around = _neighbourhood(stable, cells, names, noise=noise)
    return SizeGroup(
        rows=rows,
        stable=stable,
        size=size,
        best=best,
        tied=tied,
        is_level=is_level,
        best_loss=best_loss,
        edge=edge,
        limits=limits,
        around=around,
    )


def _limits(rows: pd.DataFrame, stable: pd.DataFrame, name: str) -> tuple[float, float]:
    """log2 bounds of the optimum: the first value that diverged, on the side where they do.

    One seed may diverge by chance: a value counts only beyond the best one of several runs.
    """
    value = np.log2(rows[name].to_numpy(dtype=float))
    diverged, complete = (value[rows["status"] == s] for s in ("diverged", "complete"))
    if not len(diverged):
        return NO_LIMITS
    is_above = not len(complete) or diverged.mean() >= complete.mean()
    cells = log_losses(stable).groupby(np.log2(stable[name])).agg(["mean", "count"])
    repeated = cells.loc[cells["count"] > 1, "mean"]
    if len(repeated):
        best = repeated.idxmin()
        diverged = diverged[diverged > best] if is_above else diverged[diverged < best]
        if not len(diverged):
            return NO_LIMITS
    first = (-math.inf, float(diverged.min())) if is_above else (float(diverged.max()), math.inf)
    outside = not np.any((complete > first[0]) & (complete < first[1]))
    return NO_LIMITS if outside and len(complete) else first


def _stable_runs(group: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Complete runs at tuned values where no seed diverged."""
    diverged = pd.MultiIndex.from_frame(group.loc[group["status"] == "diverged", names])
    complete = group[group["status"] == "complete"]
    return complete[~pd.MultiIndex.from_frame(complete[names]).isin(diverged)]


def _edges(group: pd.DataFrame, names: list[str], tied: Array) -> dict[str, str]:
    """The tuned columns whose best value is the smallest or largest one that was tried.

    Several best values that reach from one end to the other are at neither.
    """
    edges = {}
    for name, values in zip(names, tied.T, strict=True):
        tried = group[name].astype(float)
        is_low, is_high = values.min() <= tried.min(), values.max() >= tried.max()
        if is_low and (len(tied) == 1 or not is_high):
            edges[name] = "low"
        elif is_high and not is_low:
            edges[name] = "high"
    return edges


def _is_level(group: pd.DataFrame, names: list[str], tied: Array) -> bool:
    """Whether several best values of a column reach from one end of the grid to the other."""
    tried = group[names].astype(float)
    reach = (tied.min(axis=0) <= tried.min()) & (tied.max(axis=0) >= tried.max())
    return len(tied) > 1 and bool(reach.any())


def _neighbourhood(
    stable: pd.DataFrame, cells: pd.Series, names: list[str], *, noise: Noise
) -> Neighbourhood | None:
    """The runs the polynomial sees; None where not even a quadratic one is determined."""
    excess = cells - cells.min()
    order = excess.sort_values(kind="stable")
    keep = order[(order <= WINDOW) | (np.arange(len(order)) < MIN_CELLS)]
    rows = stable[pd.MultiIndex.from_frame(stable[names]).isin(_as_multi(keep.index, names))]
    row_excess = excess.reindex(rows.set_index(names).index).to_numpy(dtype=float)
    u = np.log2(rows[names].to_numpy(dtype=float))
    if not is_determined(u, 2):
        return None
    start = np.log2(np.atleast_1d(np.asarray(cells.idxmin(), dtype=float)))
    scale = max(MISFIT_SCALE, noise.log_sd or 0.0)
    return Neighbourhood(
        u=u - start,
        y=log_losses(rows).to_numpy(dtype=float),
        weights=1.0 / (1.0 + (row_excess / scale) ** 2),
        seeds=_seed_contrasts(rows["seed"]),
        start=start,
    )


def _as_multi(index: pd.Index, names: list[str]) -> pd.MultiIndex:
    return (
        index
        if isinstance(index, pd.MultiIndex)
        else pd.MultiIndex.from_arrays([index], names=names)
    )


def _seed_contrasts(seed: pd.Series) -> Array:
    """Sum-to-zero columns that take out what a seed does to all its runs alike."""
    counts = seed.value_counts()
    shared = sorted(counts.index[counts > 1], key=str)
    if not 2 <= len(shared) <= MANY_SEEDS or len(shared) < len(counts):
        return np.empty((len(seed), 0))
    indicator = np.column_stack([seed.eq(s).to_numpy(dtype=float) for s in shared])
    return np.asarray(indicator[:, :-1] - indicator[:, -1:])
