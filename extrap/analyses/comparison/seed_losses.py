"""The tuned log loss of each seed at each size of an arm, at the optimum that a forecast states.

The mean over the seeds of a size is the loss of its `Optimum`, so that a comparison and a forecast
state the same loss. What the seeds differ by is read at the optimum's tuned values: from a
polynomial through each seed's own runs, or, where the seeds have other values than each other,
from one polynomial for all and a constant per seed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.fitting.jackknife import Error
from extrap.fitting.optimum import (
    SizeGroup,
    estimate_optima,
    groups_of,
    is_determined,
    log_losses,
    runs_by_size,
    sharpen_noise,
)
from extrap.fitting.optimum_law import fit_optimum_law
from extrap.fitting.seed_noise import assume_shared, estimate_noise
from extrap.laws.base import Array
from extrap.records import WITHOUT_SEED, Interval, Measure, Optimum, Runs

Key = tuple[float, ...]
"""A size, one number per size column."""


def size_key(values: Iterable[float]) -> Key:
    """A size to 12 digits, so that sizes that differ by rounding are one."""
    return tuple(float(f"{value:.12g}") for value in values)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arm:
    """Tuned log losses of one arm.

    Attributes:
        name: The arm.
        by_size: Size → seed → log loss; sizes without a loss are left out.
        tuned_exponents: Tuned column → exponent of its best value in the first size column; none
            where the optima do not support a law.
        flags: Reasons to doubt them, one sentence each.
    """

    name: str
    by_size: Mapping[Key, Mapping[object, float]]
    tuned_exponents: Mapping[str, Measure] = field(default_factory=dict)
    flags: tuple[str, ...] = ()


def tuned_arm(name: str, runs: Runs, *, level: float) -> Arm:
    """The tuned log losses of an arm, by size and seed.

    Args:
        name: The arm.
        runs: Its sweep; only rows of stage `tune` count.
        level: Of the intervals of the exponents.

    Raises:
        DataError: No size has a loss.
    """
    sweep = _tuned_only(runs.of_stage("tune").in_order())
    if not len(sweep.complete()):
        raise DataError(
            f"an arm needs runs with a loss, {name!r} has none of {len(sweep)}; lower the "
            "learning rates or check the loss column."
        )
    noise = estimate_noise(sweep)
    if noise.source != "replicates":  # what looks like replicates are copies
        sweep = sweep.without_copies()
        noise = estimate_noise(sweep)
    noise = assume_shared(sweep, sharpen_noise(sweep, noise))
    groups = groups_of(sweep, noise) if sweep.tuned else {}
    optima = estimate_optima(sweep, noise=noise, level=level, groups=groups)
    found = seed_losses(sweep, optima, groups)
    flags = _edge_flags(name, optima) if sweep.tuned else []
    by_size = {
        size_key(optimum.size.values()): {
            _label(seed, name): value for seed, value in of_size.items()
        }
        for optimum, of_size in zip(optima, found, strict=True)
        if of_size
    }
    exponents = {
        column: exponent
        for column in sweep.tuned
        if (exponent := _exponent(optima, column, sweep.sizes, level=level)) is not None
    }
    return Arm(name=name, by_size=by_size, tuned_exponents=exponents, flags=tuple(flags))


def _exponent(
    optima: Sequence[Optimum], tuned: str, columns: tuple[str, ...], *, level: float
) -> Measure | None:
    """The exponent of the law of a best value in the first size column."""
    try:
        law = fit_optimum_law(optima, tuned=tuned, columns=columns)
    except DataError:
        return None
    value, error = law.values[1], Error(math.sqrt(max(law.covariance[1][1], 0.0)), law.dof)
    half = error.half_width(level)
    return Measure(value=value, ci=Interval(value - half, value + half))


def seed_losses(
    sweep: Runs, optima: Sequence[Optimum], groups: Mapping[int, SizeGroup]
) -> list[dict[object, float]]:
    """Log losses by seed at the optima, one mapping per optimum; empty without a complete run.

    Args:
        sweep: The runs behind the optima.
        optima: From `estimate_optima`.
        groups: From `groups_of` the same runs; of no use where nothing is tuned.
    """
    if not sweep.tuned:
        rows = [rows[rows["status"] == "complete"] for _, rows in runs_by_size(sweep)]
        return [
            _around(optimum, log_losses(of_size).groupby(of_size["seed"].to_numpy()).mean())
            for optimum, of_size in zip(optima, rows, strict=True)
        ]
    return [_around(optimum, _offsets(groups[i], optimum)) for i, optimum in enumerate(optima)]


def _tuned_only(sweep: Runs) -> Runs:
    """The runs with the tuned columns that have several values."""
    frame = sweep.to_frame()
    tuned = tuple(name for name in sweep.tuned if frame[name].nunique() > 1)
    if tuned == sweep.tuned:
        return sweep
    return Runs.from_frame(frame, sizes=sweep.sizes, tuned=tuned, source=sweep.source)


def _edge_flags(name: str, optima: Sequence[Optimum]) -> list[str]:
    """One flag for the sizes whose loss is inferred, one for those where it is the best run's."""
    flags = []
    for is_inferred, words in (
        (True, "inferred from the other sizes"),
        (False, "that of the best run"),
    ):
        sizes = [
            ", ".join(f"{column} {value:g}" for column, value in optimum.size.items())
            for optimum in optima
            if not optimum.bracketed and (optimum.loss is not None) == is_inferred
        ]
        if sizes:
            flags.append(
                f"edge: no optimum of {name} is bracketed at {'; '.join(sizes)}, so its loss is "
                f"{words}; extend the grid."
            )
    return flags


def _label(seed: object, name: str) -> object:
    """Rows without a seed were numbered by the reader: no row of another arm is its pair."""
    return f"{name}: {seed}" if isinstance(seed, str) and seed.startswith(WITHOUT_SEED) else seed


def _around(optimum: Optimum, offsets: pd.Series) -> dict[object, float]:
    """Log losses of the seeds whose mean is the loss of the optimum, or their own without one."""
    if offsets.empty:
        return {}
    shift = 0.0 if optimum.loss is None else math.log(optimum.loss) - float(offsets.mean())
    # to 12 decimals, so that arms of the same runs do not differ by rounding
    return {seed: round(float(value) + shift, 12) for seed, value in offsets.items()}


def _offsets(group: SizeGroup, optimum: Optimum) -> pd.Series:
    """Log losses by seed, but for a constant, at the optimum or at the best cell."""
    rows, names = group.stable, list(optimum.tuned)
    if rows.empty:
        return pd.Series(dtype=float)
    table = rows.assign(log_loss=log_losses(rows)).pivot_table(
        index=names, columns="seed", values="log_loss"
    )
    values = [estimate.value for estimate in optimum.tuned.values()]
    if group.around is None or any(value is None for value in values):
        return table.loc[table.mean(axis=1).idxmin()].dropna()
    around = group.around
    tried = np.round(around.u + around.start, 9)
    octaves = np.round(np.log2(table.index.to_frame().to_numpy(dtype=float)), 9)
    is_same = (octaves[:, None] == tried[None]).all(axis=2)
    is_near = is_same.any(axis=1)
    table, octaves, of_run = table[is_near], octaves[is_near], is_same[is_near].argmax(axis=1)
    weights = around.weights[of_run]  # of a cell, that of its first run
    terms = _terms(octaves - np.log2(np.array(values, dtype=float)))
    whole = table.columns[table.notna().all(axis=0)]
    if len(whole) < 2 and len(whole) < len(table.columns):
        return _constants(table, terms, weights)
    root = np.sqrt(weights)
    at_centre = np.linalg.pinv(terms * root[:, None])[0] * root
    return table[whole].mul(at_centre, axis=0).sum(axis=0)


def _constants(table: pd.DataFrame, terms: Array, weights: Array) -> pd.Series:
    """One polynomial for all seeds, each higher or lower by a constant."""
    y = table.to_numpy(dtype=float)
    cell, seed = np.nonzero(np.isfinite(y))
    indicator = (seed[:, None] == np.arange(y.shape[1])).astype(float)
    root = np.sqrt(weights[cell])
    design = np.column_stack([indicator, terms[cell][:, 1:]]) * root[:, None]
    constants = np.linalg.lstsq(design, y[cell, seed] * root, rcond=None)[0][: y.shape[1]]
    return pd.Series(constants, index=table.columns)


def _terms(u: Array) -> Array:
    """Monomials at cells, shape (n_cells, n_terms): cubic where determined, else quadratic."""
    degree = 3 if is_determined(u, 3) else 2
    powers = [
        p for p in itertools.product(range(degree + 1), repeat=u.shape[1]) if sum(p) <= degree
    ]
    return np.stack([np.prod(u ** np.array(p), axis=1) for p in powers], axis=1)
