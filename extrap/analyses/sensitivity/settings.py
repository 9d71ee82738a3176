"""Sensitivity of fixed values: what keeping each costs at a larger size, and its best value there.

One value at a time is moved at a few small sizes, with the same seeds. Of each seed and size, a
parabola of the log loss over u = log2(value / fixed value) has gradient g and curvature h: from a
half and a double `(y₊ − y₋)/2` and `y₊ + y₋ − 2 y₀`. Of momentum and β, u is that of the distance
from 1. Over ln size g is a line and h a constant: the best value is `u* = −g/h`, the fixed one
costs `g²/(2 h)`. Seeds are the replicates of Student's t and, for ratios, of Fieller's theorem.
*Ours*; Metz 2022, "On the difficulty of extrapolation with NN scaling", asks the question.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.fitting.means import paired_mean, ratio_of_means
from extrap.laws.base import Array
from extrap.reading.replicates import REPEATED
from extrap.records import Interval, Measure, Runs, Shown
from extrap.records.codec import shape
from extrap.records.fields import require_level
from extrap.records.intervals import LARGEST_LOG
from extrap.records.recipe import ONE_MINUS, moved_value

SMALL_COST, SMALL_DRIFT, FAR_FROM_FIXED_OCTAVES = 0.005, 0.25, 3.0
"""Of the loss: less is not worth a sweep. Octaves from the largest size to the target: with less a
value tuned once serves all. Octaves to the best value beyond which a parabola is a rough guide."""
INSIDE = 1.25
"""A minimum is bracketed up to so many times the moved range: that of a loss which only rises, as
c·2^u does, lies at 1.5 times it."""
DOUBT_LEVEL = 0.95
"""Level of the intervals by which the losses contradict the line of g or the constant h."""
TIMES_LARGEST = 8.0
"""Target over the largest size where nobody names one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One fixed value; numbers are those of the target.

    Attributes:
        name, base, values: The setting, its fixed value, the others that were tried.
        changes: Loss at each of them over that at the fixed one, minus 1.
        cost: Loss at the fixed value over that at the best one, minus 1; where none is bracketed
            what the best value tried gains, a lower bound.
        best: The best value; none unless it is bracketed at two sizes or more.
        drift: The best value, or its distance from 1, goes as size^drift.
        advice: `leave`, `tune-once`, `tune-and-scale`; `extend` the values tried, or `change` to
            the only other one; `add-runs` where nothing is significant; `repeat` lost runs.
        n_seeds: Seeds with a loss in every run of the setting.
        flags: `bends`, `curvature-drifts`, `far`, `lost-runs`.
    """

    name: str
    base: float | str
    values: tuple[float | str, ...]
    changes: tuple[Measure, ...] = ()
    cost: Measure = Measure(ci=Interval(0.0, None))
    best: Measure = Measure()
    drift: Measure = Measure()
    advice: str = "repeat"
    n_seeds: int
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Sensitivity(Shown):
    """Fixed values, the dearest at the target first; `level` is that of all intervals."""

    settings: tuple[Setting, ...]
    column: str
    sizes: tuple[float, ...]
    target: float
    level: float
    n_runs: int
    notes: tuple[str, ...] = ()


shape(Sensitivity, kind="extrap-sensitivity")


def sensitivity(
    runs: Runs,
    settings: Mapping[str, float | str | None],
    *,
    target: float | None = None,
    level: float = 0.95,
) -> Sensitivity:
    """Rank fixed values by what keeping them costs at a larger size.

    Args:
        runs: One size column, two sizes or more, one run per seed, size and moved value. Columns
            that are no setting, such as a rate tuned at each size, may vary.
        settings: Column → its fixed value; None for its most frequent one.
        target: The size asked about.
        level: Of the intervals, in (0, 1).

    Raises:
        DataError: A setting has no fixed value, moves or sizes, or the runs mix other settings.
        ValueError: The level or the target is impossible.
    """
    require_level(level)
    frame, column = runs.to_frame(), runs.sizes[0]
    target = TIMES_LARGEST * float(frame[column].max()) if target is None else target
    if not 0 < target < math.inf:
        raise ValueError(f"the target {column} must be positive, got {target:g}.")
    if len(runs.sizes) > 1 or not settings or not {*settings} <= {*frame}:
        raise DataError(
            f"a sensitivity has one size and settings among the columns {', '.join(frame)}, got "
            f"{', '.join(runs.sizes)} and {', '.join(settings) or 'none'}; name others."
        )
    frame = frame.assign(
        log_loss=np.log(frame["loss"]), **{n: _levels(frame[n]) for n in settings}
    )
    bases = {name: _base(frame[name], fixed) for name, fixed in settings.items()}
    moved = pd.DataFrame({name: frame[name].ne(base) for name, base in bases.items()})
    used, ranked = frame[moved.sum(axis=1) <= 1], []
    for name, base in bases.items():
        setting_runs = frame[~moved.drop(columns=name).any(axis=1)]
        ranked.append(_setting(setting_runs, column, name, base, target=target, level=level))
    ranked.sort(key=lambda s: (s.cost.value or 0.0, s.cost.ci.upper or math.inf), reverse=True)
    return Sensitivity(
        settings=tuple(ranked),
        column=column,
        sizes=tuple(sorted(map(float, used[column].unique()))),
        target=target,
        level=level,
        n_runs=len(used),
        notes=tuple(note for note in runs.notes if REPEATED not in note),  # they differ in a value
    )


def _levels(values: pd.Series) -> pd.Series:
    """A column as numbers of 12 digits if it holds nothing else; tables are read as text."""
    numbers = pd.to_numeric(values, errors="coerce")
    is_text = numbers.isna().any()
    return values.astype(str) if is_text else numbers.map(lambda number: float(f"{number:.12g}"))


def _base(levels: pd.Series, fixed: float | str | None) -> float | str:
    counts = levels.value_counts()
    base = counts.index[0] if fixed is None else fixed
    is_tie = fixed is None and (counts == counts.iloc[0]).sum() > 1
    values = f"{', '.join(map(str, counts.index))}: {levels.name}=VALUE."
    if is_tie:
        raise DataError(
            f"the fixed value of {levels.name} is that of most runs, several have equally many; "
            f"name one of {values}"
        )
    if base not in counts.index:
        raise DataError(f"no run has {levels.name} = {base}; name one of {values}")
    return str(base) if isinstance(base, str) else float(base)


def _octaves(name: str, base: float | str, values: Array) -> Array:
    """Octaves of values from the fixed one; 1 where there is one other value."""
    if len(values) == 2:
        return np.asarray(values != base, dtype=float)
    if not isinstance(base, str):
        distance = 1 - values if name in ONE_MINUS else values
        if (distance > 0).all():
            return np.asarray(np.log2(distance / distance[values == base]))
    raise DataError(
        f"{name} must be positive, of momentum and β below 1, or have two values, got "
        f"{', '.join(map(str, values))}; leave some out."
    )


def _setting(
    runs: pd.DataFrame, column: str, name: str, base: float | str, *, target: float, level: float
) -> Setting:
    """One setting, from the runs in which no other is moved."""
    values, counts = np.unique(runs[name]), runs.groupby(column)[name].nunique()
    degree = min(max(len(values), 2) - 1, 2)
    sizes = counts.index[counts > degree]
    if len(sizes) < 2 or runs.duplicated([column, "seed", name]).any():
        raise DataError(
            f"{name} must have one run per value, seed and {column}, and {degree + 1} values at 2 "
            f"sizes or more, got {len(runs)} runs and {len(sizes)} such sizes; name any other "
            "setting that was changed, or add a size."
        )
    octaves = pd.Series(_octaves(name, base, values), index=values)
    table = runs.pivot(index="seed", columns=[column, name], values="log_loss")[sizes].dropna()
    is_lost = runs["loss"].isna() & runs[name].ne(base)
    setting = Setting(
        name=name,
        base=base,
        values=tuple(values[values != base].tolist()),
        n_seeds=len(table),
        flags=("lost-runs",) * bool(is_lost.any()),
    )
    if len(table) < 2:
        return setting
    fits = [np.polyfit(octaves[table[s].columns], table[s].T, degree) for s in sizes]
    gradient = np.column_stack([fit[-2] for fit in fits])
    curvature = np.column_stack([2 * fit[0] * (degree == 2) for fit in fits])
    x = np.log2(sizes.to_numpy(dtype=float) / target)
    return _at_target(setting, gradient, curvature, x=x, octaves=octaves, level=level)


def _at_target(
    setting: Setting,
    gradient: Array,
    curvature: Array,
    *,
    x: Array,
    octaves: pd.Series,
    level: float,
) -> Setting:
    """A setting with its numbers at x = 0, from gradients and curvatures of seed × size at x."""
    centred, h = x - x.mean(), curvature.mean(axis=1)
    trend = gradient @ centred / (centred @ centred)
    g = gradient.mean(axis=1) - x.mean() * trend
    mean, ratio = partial(paired_mean, level=level), partial(ratio_of_means, level=level)
    changes = [mean(u * g + u**2 / 2 * h) for u in octaves[list(setting.values)]]
    optima, slack = -gradient.mean(axis=0), INSIDE * h.mean()
    inside = (optima >= slack * octaves.min()) & (optima <= slack * octaves.max())
    is_bracketed = (mean(h).ci.lower or 0.0) > 0 and inside.sum() >= 2
    gain = -min(changes, key=lambda change: change.value or 0.0)
    cost, best, drift = gain.map(lambda log: max(log, 0.0)), Measure(), Measure()
    if is_bracketed:
        steep = math.sqrt(2 * h.mean())  # and that of a seed, linear about it
        root = ratio(np.sign(g.mean()) * g, steep + (h - h.mean()) / steep)
        cost = root.map(lambda ratio: max(ratio, 0.0) ** 2)
        best, drift = ratio(-g, h), ratio(-trend, h)
    bend = x**2 - np.polyval(np.polyfit(x, x**2, 1), x)
    is_doubtful = [
        0.0 not in paired_mean(v, level=DOUBT_LEVEL).ci
        for v in (gradient @ bend, curvature @ centred)
    ]
    doubts = {
        "bends": len(x) > 2 and is_doubtful[0],
        "curvature-drifts": is_bracketed and is_doubtful[1],
        "far": abs(best.value or 0.0) > FAR_FROM_FIXED_OCTAVES,
    }
    if not is_bracketed and any((change.ci.upper or 0.0) < 0 for change in changes):
        advice = "change" if len(changes) == 1 else "extend"
    elif cost.ci.upper is not None and cost.ci.upper < SMALL_COST:
        advice = "leave"
    elif not (is_bracketed and cost.ci.lower):
        advice = "add-runs"
    else:
        is_fixed = 0.0 in drift.ci or abs(drift.value or 0.0) * -x[-1] < SMALL_DRIFT
        advice = "tune-once" if is_fixed else "tune-and-scale"
    return replace(
        setting,
        changes=tuple(change.map(_relative) for change in changes),
        cost=cost.map(_relative),
        best=_value_of(best, setting.name, setting.base),
        drift=drift,
        advice=advice,
        flags=(*setting.flags, *(flag for flag, holds in doubts.items() if holds)),
    )


def _relative(log_ratio: float) -> float:
    return math.expm1(min(log_ratio, LARGEST_LOG))


def _value_of(octaves: Measure, name: str, base: float | str) -> Measure:
    """The value so many octaves from the fixed one; that of momentum and β falls with them."""
    value = octaves.map(lambda u: max(0.0, moved_value(name, float(base), 2.0 ** min(u, 900.0))))
    return replace(value, ci=Interval(*value.ci[:: -1 if name in ONE_MINUS else 1]))
