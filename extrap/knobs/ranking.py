"""From the moves of knobs to their ranking, every number with an interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from extrap.errors import DataError
from extrap.fitting.means import fieller, paired_mean, student_quantile
from extrap.knobs.moves import Moves
from extrap.knobs.results import (
    Knob,
    KnobReport,
    Offset,
    or_infinite,
    worst_case,
)
from extrap.records import Interval, Measure
from extrap.records.fields import require_level

INSIDE = 1.25
"""An optimum counts as seen up to so many times the moved range from the fixed value: a loss
that only rises with a knob, as c·2^u does, puts the vertex of its parabola at 1.5 times it."""
AT_ONE_SIZE = 2.0
"""The same at any single size, where it is known less well."""
FAR = 3.0
"""Octaves of drift to the target beyond which the parabola is a rough guide to the loss."""
DOUBT = 0.05
"""Below this p-value an effect is distinguished from noise, or the data contradict the line
through g or the constant h."""


def rank_knobs(
    moves: Sequence[Moves],
    *,
    column: str,
    target: float,
    level: float = 0.95,
    notes: Sequence[str] = (),
) -> KnobReport:
    """Rank knobs by what holding them fixed costs at a larger size.

    Args:
        moves: The runs of each knob; at least two sizes.
        column: What the size is called.
        target: The size asked about, positive.
        level: Level of all intervals, in (0, 1).
        notes: Sentences to keep with the report.

    Raises:
        DataError: There is no knob, or a knob was moved at fewer than two sizes.
        ValueError: The level or the target is impossible.
    """
    require_level(level)
    if not (target > 0 and math.isfinite(target)):
        raise ValueError(f"the target {column} must be positive, got {target:g}.")
    if not moves:
        raise DataError(
            "a ranking needs at least one setting; name the columns that were changed."
        )
    knobs = [_knob(each, column=column, target=target, level=level) for each in moves]
    sizes = sorted({float(size) for each in moves for size in each.frame["size"]})
    runs = {
        (each.name if octaves else "", size, seed, octaves)
        for each in moves
        for size, seed, octaves in each.frame[["size", "seed", "octaves"]].itertuples(index=False)
    }
    return KnobReport(
        knobs=tuple(
            sorted(knobs, key=lambda k: (k.at_stake.value or 0.0, worst_case(k)), reverse=True)
        ),
        column=column,
        sizes=tuple(sizes),
        target=target,
        level=level,
        n_runs=len(runs),
        notes=tuple(notes),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Seeds:
    """Gradient and curvature of every seed at every size, and how they are carried to a target.

    Attributes:
        gradient: One row per seed, one column per size.
        curvature: The same; zeros for a choice.
        x: log2 of size over the geometric mean of all.
        x_target: The same of the target.
        level: Level of intervals.
    """

    gradient: np.ndarray
    curvature: np.ndarray
    x: np.ndarray
    x_target: float
    level: float

    @property
    def mean_curvature(self) -> np.ndarray:
        """H of each seed."""
        return self.curvature.mean(axis=1)

    @property
    def trend(self) -> np.ndarray:
        """G' of each seed."""
        return self.gradient @ (self.x / (self.x**2).sum())

    @property
    def at_target(self) -> np.ndarray:
        """G at the target of each seed."""
        return self.gradient.mean(axis=1) + self.x_target * self.trend

    def measure(self, values: np.ndarray) -> Measure:
        """The mean over seeds with Student's t interval."""
        return paired_mean(values, level=self.level)

    def is_significant(self, values: np.ndarray) -> bool:
        """Whether a mean is distinguished from 0."""
        return 0.0 not in self.measure(values).ci

    def p_value(self, values: np.ndarray) -> float:
        """How often a mean of 0 would be off by as much."""
        se = float(_sem(values))
        t = abs(float(values.mean())) / se if se else 0.0
        return float(2 * stats.t.sf(t, len(values) - 1))

    def ratio(self, top: np.ndarray, bottom: np.ndarray) -> Measure:
        """The ratio of two means with Fieller's interval; open where the bottom may be 0."""
        t = student_quantile(self.level, len(top))
        a, b = float(top.mean()), float(bottom.mean())
        found = fieller(a, b, np.cov(top, bottom) * t * t / len(top))
        ci = Interval()
        if found is not None and found.is_between:
            ci = Interval(found.lower, found.upper)
        return Measure(value=a / b, ci=ci)


def _sem(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values))


def _knob(moves: Moves, *, column: str, target: float, level: float) -> Knob:
    table = moves.frame.pivot_table(
        index="seed", columns=["size", "octaves"], values="log_loss", dropna=False
    ).reindex(columns=_design(moves.frame))
    sizes = sorted(set(table.columns.get_level_values(0)))
    if len(sizes) < 2:
        raise DataError(
            f"{moves.name} was changed at {len(sizes)} size(s) ({column}), a drift needs "
            "at least 2; add a size."
        )
    whole = table.dropna()
    lost = moves.frame[moves.frame["octaves"].ne(0) & moves.frame["log_loss"].isna()]
    n_lost = {size: int(lost["size"].eq(size).sum()) for size in sizes}
    if len(whole) < 2:
        return _unknown(moves, n_lost, len(whole))
    reference = float(np.log2(sizes).mean())
    parts = [_parabola(whole[size]) for size in sizes]
    seeds = _Seeds(
        gradient=np.column_stack([g for g, _ in parts]),
        curvature=np.column_stack([h for _, h in parts]),
        x=np.log2(sizes) - reference,
        x_target=math.log2(target) - reference,
        level=level,
    )
    if moves.other is not None:
        return _choice(moves, seeds, n_lost)
    return _graded(moves, seeds, n_lost)


def _design(frame: pd.DataFrame) -> pd.MultiIndex:
    """Every size and octave that was tried, whether or not a run has a loss."""
    pairs = frame[["size", "octaves"]].drop_duplicates().sort_values(["size", "octaves"])
    return pd.MultiIndex.from_frame(pairs)


def _parabola(losses: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and curvature at the fixed value, one of each a seed.

    Args:
        losses: One row per seed, one column per octave; two are a difference, without curvature.
    """
    octaves = losses.columns.to_numpy(dtype=float)
    values = losses.to_numpy(dtype=float)
    if len(octaves) < 3:
        gradient = (values[:, -1] - values[:, 0]) / (octaves[-1] - octaves[0])
        return gradient, np.zeros(len(values))
    curvature, gradient, _ = np.polyfit(octaves, values.T, 2)
    return gradient, 2 * curvature


def _unknown(moves: Moves, n_lost: Mapping[float, int], n_seeds: int) -> Knob:
    nothing = Measure()
    return Knob(
        name=moves.name,
        base=moves.base,
        other=moves.other,
        kind="unknown",
        offsets=tuple(
            Offset(size=size, octaves=nothing, pull=nothing, lost=n) for size, n in n_lost.items()
        ),
        drift=nothing,
        trend=nothing,
        optimum=nothing,
        at_stake=Measure(value=None, ci=Interval(0.0, None)),
        octave=nothing,
        better=1,
        n_seeds=n_seeds,
        flags=("lost-runs",) if any(n_lost.values()) else (),
    )


def _choice(moves: Moves, seeds: _Seeds, n_lost: Mapping[float, int]) -> Knob:
    """A knob with two levels: what the other one changes, and how that moves with size."""
    change = seeds.measure(seeds.at_target)
    return Knob(
        name=moves.name,
        base=moves.base,
        other=moves.other,
        kind="choice",
        offsets=_offsets(seeds, n_lost, has_optimum=False),
        drift=Measure(),
        trend=seeds.measure(seeds.trend),
        optimum=Measure(),
        at_stake=_gain(change),
        octave=change,
        better=1,
        n_seeds=len(seeds.gradient),
        flags=_flags(seeds, n_lost, None, check_curvature=False),
    )


def _graded(moves: Moves, seeds: _Seeds, n_lost: Mapping[float, int]) -> Knob:
    """A knob that can be moved both ways."""
    kind = _kind(moves, seeds)
    has_optimum = kind == "optimum"
    optimum = seeds.ratio(-seeds.at_target, seeds.mean_curvature)
    gradient = float(seeds.at_target.mean())
    better = -1 if gradient > 0 else 1
    octave, worse = (
        seeds.measure(side * better * seeds.at_target + seeds.mean_curvature / 2)
        for side in (1, -1)
    )
    nothing = Measure()
    return Knob(
        name=moves.name,
        base=moves.base,
        other=None,
        kind=kind,
        offsets=_offsets(seeds, n_lost, has_optimum=has_optimum),
        drift=seeds.ratio(-seeds.trend, seeds.mean_curvature) if has_optimum else nothing,
        trend=seeds.measure(seeds.trend),
        optimum=optimum if has_optimum else nothing,
        at_stake=_excess_cost(seeds) if has_optimum else _larger(_gain(octave), _gain(worse)),
        octave=octave,
        better=better,
        n_seeds=len(seeds.gradient),
        flags=_flags(seeds, n_lost, optimum if has_optimum else None, check_curvature=has_optimum),
    )


def _kind(moves: Moves, seeds: _Seeds) -> str:
    h = seeds.mean_curvature
    if seeds.is_significant(h) and h.mean() > 0:
        vertices = -seeds.gradient.mean(axis=0) / h.mean()
        low, high = moves.frame["octaves"].min(), moves.frame["octaves"].max()
        is_seen = INSIDE * low <= vertices.mean() <= INSIDE * high
        is_near = (AT_ONE_SIZE * low <= vertices).all() and (vertices <= AT_ONE_SIZE * high).all()
        return "optimum" if is_seen and is_near else "slope"
    tests = (seeds.gradient.mean(axis=1), seeds.trend, seeds.at_target)
    is_significant = min(seeds.p_value(values) for values in tests) < DOUBT / len(tests)
    return "slope" if is_significant else "flat"


def _excess_cost(seeds: _Seeds) -> Measure:
    """½ g² / h at the target, by way of its signed root q = g / √(2 h).

    The root is smooth where g changes its sign, which the cost is not; √(2 h) of a seed is taken
    linearly about the mean.
    """
    h = seeds.mean_curvature
    middle = math.sqrt(2 * h.mean())
    root = seeds.ratio(seeds.at_target, middle + (h - h.mean()) / middle)
    low, high = root.ci
    if low is None or high is None or root.value is None:
        return Measure(value=_relative(None if root.value is None else root.value**2))
    least = 0.0 if low <= 0 <= high else min(low * low, high * high)
    return Measure(
        value=_relative(root.value**2),
        ci=Interval(_relative(least), _relative(max(low * low, high * high))),
    )


def _gain(change: Measure) -> Measure:
    """What is at stake where a move changes the log loss so: nothing if the move is for worse."""
    sides = [None if v is None else max(0.0, -v) for v in (change.value, *change.ci)]
    return Measure(
        value=_relative(sides[0]), ci=Interval(_relative(sides[2]), _relative(sides[1]))
    )


def _larger(first: Measure, second: Measure) -> Measure:
    """The first, with an interval that allows for the second being the larger one."""
    upper = max(or_infinite(first.ci.upper), or_infinite(second.ci.upper))
    return Measure(
        value=first.value, ci=Interval(first.ci.lower, upper if math.isfinite(upper) else None)
    )


def _relative(log_excess: float | None) -> float | None:
    """A log excess as a fraction of the loss; beyond any use it is open."""
    return None if log_excess is None or log_excess > 50 else math.expm1(log_excess)


def _offsets(
    seeds: _Seeds, n_lost: Mapping[float, int], *, has_optimum: bool
) -> tuple[Offset, ...]:
    h = seeds.mean_curvature
    return tuple(
        Offset(
            size=size,
            octaves=seeds.ratio(-seeds.gradient[:, i], h) if has_optimum else Measure(),
            pull=seeds.measure(seeds.gradient[:, i]),
            lost=lost,
        )
        for i, (size, lost) in enumerate(n_lost.items())
    )


def _flags(
    seeds: _Seeds,
    n_lost: Mapping[float, int],
    optimum: Measure | None,
    *,
    check_curvature: bool,
) -> tuple[str, ...]:
    flags = []
    if len(seeds.x) > 2:
        square = seeds.x**2
        line = np.column_stack([np.ones_like(seeds.x), seeds.x])
        off = square - line @ np.linalg.lstsq(line, square, rcond=None)[0]
        if seeds.p_value(seeds.gradient @ off) < DOUBT:
            flags.append("bends")
    if check_curvature and seeds.p_value(seeds.curvature @ seeds.x) < DOUBT:
        flags.append("curvature-drifts")
    if optimum is not None and abs(optimum.value or 0.0) > FAR:
        flags.append("far")
    if any(n_lost.values()):
        flags.append("lost-runs")
    return tuple(flags)
