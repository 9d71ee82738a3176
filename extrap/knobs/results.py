"""What a ranking of knobs says: small records of plain numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from extrap.records import Measure, Shown
from extrap.records.codec import encode, shape
from extrap.records.knobs import ONE_MINUS


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """One knob at one size.

    Attributes:
        size: The size.
        octaves: Where the optimum lies from the fixed value; unknown unless an excess-loss curve
            is seen.
        pull: Change of log loss by one octave up, at the fixed value; by going to the other
            level where there are two.
        lost: Runs without a loss among those of the moved values.
    """

    size: float
    octaves: Measure
    pull: Measure
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """What holding one knob at a fixed value means at larger sizes.

    Attributes:
        name: The knob.
        base: Its fixed value.
        other: The other level of a knob that has only two; None where it has more.
        kind: `"optimum"`: its optimum is seen; `"slope"`: it lies beyond the moved range or in a
            excess-loss curve too shallow to see, only a direction is known; `"flat"`: nothing is
            distinguished from noise; `"choice"`: two levels; `"unknown"`: too few runs have a
            loss.
        offsets: Size by size.
        drift: Octaves by which the optimum moves a doubling of the size: the exponent b of a
            value that goes as size^b. None unless an excess-loss curve.
        optimum: Octaves from the fixed value to the optimum at the target; None unless an
            excess-loss curve.
        at_stake: Loss at the fixed value over that at the best one, minus 1, at the target. On a
            slope the best within one octave, a lower bound.
        trend: Change, a doubling of the size, of what one octave up does to the log loss: the pull
            that makes an optimum drift, known whether or not it is seen.
        octave: Change of log loss at the target by one octave in the better direction, or by the
            other level.
        better: 1 if the better direction at the target is up (or to the other level), −1 if down.
        n_seeds: Seeds with a loss in every run of this knob.
        flags: Named reasons for doubt: `bends`, `curvature-drifts`, `far`, `lost-runs`.
    """

    name: str
    base: float | str
    other: float | str | None
    kind: str
    offsets: tuple[Offset, ...]
    drift: Measure
    trend: Measure
    optimum: Measure
    at_stake: Measure
    octave: Measure
    better: int
    n_seeds: int
    flags: tuple[str, ...] = ()

    def value_at(self, octaves: float) -> float | None:
        """The knob's value so many octaves from its base; None if there is no such value."""
        if isinstance(self.base, str):
            return None
        if self.name in ONE_MINUS:
            return max(0.0, 1 - (1 - self.base) * 2**octaves)
        return self.base * 2 ** min(octaves, 900.0)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class KnobReport(Shown):
    """All knobs, the one with most at stake at the target first.

    Attributes:
        knobs: Ranked by `at_stake`, then by its upper end.
        column: The size column.
        sizes: Sizes at which knobs were moved.
        target: The size asked about.
        level: Level of all intervals.
        n_runs: Runs that were used.
        notes: What could not be moved, and why.
    """

    knobs: tuple[Knob, ...]
    column: str
    sizes: tuple[float, ...]
    target: float
    level: float
    n_runs: int
    notes: tuple[str, ...] = ()

    def by_worst_case(self) -> tuple[Knob, ...]:
        """Ranked by the upper end of what is at stake; first those with none."""
        return tuple(sorted(self.knobs, key=worst_case, reverse=True))

    def by_drift(self) -> tuple[Knob, ...]:
        """The knobs whose optimum is seen, the fastest first; then the others by their trend."""
        seen = [k for k in self.knobs if k.kind == "optimum"]
        others = [k for k in self.knobs if k.kind != "optimum"]
        return (
            *sorted(seen, key=lambda k: -abs(k.drift.value or 0.0)),
            *sorted(others, key=lambda k: -abs(k.trend.value or 0.0)),
        )


def worst_case(knob: Knob) -> float:
    """Upper end of what is at stake."""
    return or_infinite(knob.at_stake.ci.upper)


def or_infinite(value: float | None) -> float:
    """An open end as infinity."""
    return math.inf if value is None else value


shape(
    Knob,
    omit=("offsets", "optimum", "better"),
    add={
        "optimum_at_target": lambda knob: {
            "octaves": knob.optimum,
            "value": knob.optimum.map(knob.value_at).value,
        },
        "octave": lambda knob: {
            **encode(knob.octave),
            "better": "up" if knob.better > 0 else "down",
        },
        "by_size": lambda knob: knob.offsets,
    },
)
shape(
    KnobReport,
    kind="extrap-knobs",
    omit=("column",),
    add={
        "target": lambda report: {report.column: report.target},
        "sizes": lambda report: {report.column: report.sizes},
        "by_worst_case": lambda report: [knob.name for knob in report.by_worst_case()],
        "by_drift": lambda report: [knob.name for knob in report.by_drift()],
    },
)
