"""Slopes over width of what layers compute, and the verdict on each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from extrap.fitting.distributions import t_quantile
from extrap.records import Interval, Measure

if TYPE_CHECKING:
    from extrap.training.layer_traces import Trace

STABLE_SLOPE = 0.15
"""A layer breaks if the interval of a slope lies wholly beyond ± this."""
SLOPE_LEVEL = 0.95
"""Level of the intervals of slopes."""
LEAST_WIDTHS = 4
"""Widths from which there are verdicts."""
UNCLEAR_SLOPE = 0.5
"""A layer whose interval reaches beyond ± this is unclear: common faults have such slopes."""
STABLE, GROWS, VANISHES, STILL, UNBOUNDED = "stable", "grows", "vanishes", "still", "diverged"
UNCLEAR = "unclear"
"""Verdicts."""
Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinate:
    """One layer: what it computes, and how far that moves. Rows are widths, columns seeds.

    Attributes:
        name: Of a leaf module, of a parameter used outside of one, of the `scores` of an
            attention, or `model`, the output of the whole.
        outputs: Root mean square of its outputs after 0, 1, … updates.
        changes: Of the change of its outputs after 1, 2, … updates.
        updates: Of what all updates of its own parameter change of its outputs, whatever the
            layers before do; empty without one.
        aligned: Of the part of that which is aligned with its inputs, not met by chance.
        output_slope: Of log `outputs` before training on log width. For scores, 1/2 of the slope
            of the size of a head is added: those divided by it, and not by its root, have 0.
        change_slope: Of the last `changes`.
        update_slope: Of `updates` or of `aligned`, whichever is nearer to 0: what meets by chance
            falls with the width, and where it is most of an update the rest is not known.
        verdict: `"stable"`, `"grows"`, `"vanishes"`, `"unclear"` if the interval of a slope that
            would break reaches beyond ± .5, `"still"` if nothing moves, `"diverged"` if
            something is not finite; None of fewer than four widths.
        exponent: The slope that decided; None of other verdicts than `"grows"`, `"vanishes"`.
    """

    name: str
    outputs: tuple[Rows, ...]
    changes: tuple[Rows, ...]
    updates: Rows
    aligned: Rows
    output_slope: Measure
    change_slope: Measure
    update_slope: Measure
    verdict: str | None
    exponent: float | None

    @property
    def own_exponent(self) -> float | None:
        """The slope by which the layer itself is wrong, not those before it."""
        return next(
            (m.value for m in (self.update_slope, self.output_slope) if m.value == self.exponent),
            None,
        )


def coordinate_of(
    name: str, traces: Sequence[Sequence[Trace]], widths: Sequence[int]
) -> Coordinate:
    """One layer from its traces, a row per width and a column per seed."""
    steps = range(len(traces[0][0].changes))
    outputs = tuple(_rows(traces, "outputs", step) for step in steps)
    changes = tuple(_rows(traces, "changes", step) for step in steps[1:])
    updates, aligned = (
        _rows(traces, which, -1) if traces[0][0].updates else ()
        for which in ("updates", "aligned")
    )
    of_updates = (width_slope(rows, widths) for rows in (updates, aligned))
    update_slope = min(of_updates, key=lambda slope: abs(slope.value or 0.0))
    output_slope = width_slope(outputs[0], widths)
    if traces[0][0].head_size and output_slope.value is not None:
        heads = np.log([row[0].head_size for row in traces])
        half = float(np.polyfit(np.log(widths), heads, 1)[0]) / 2
        output_slope = output_slope.map(lambda slope: slope + half)
    slopes = output_slope, width_slope(changes[-1], widths), update_slope
    # a change is not a number where the shape of an output differs from update to update
    is_infinite = any(np.isinf(rows).any() for rows in changes)
    verdict, exponent = STABLE, None
    if is_infinite or not all(np.isfinite(rows).all() for rows in (*outputs, updates)):
        verdict = UNBOUNDED
    elif not any(map(any, changes[-1])):
        verdict = STILL
    if verdict != UNBOUNDED:
        # outputs and their changes may vanish: a readout starts smaller the wider it is
        beyond = [(_beyond(slopes[2]), slopes[2])]
        beyond += [(max(_beyond(slope), 0), slope) for slope in (slopes[0], slopes[1])]
        side, slope = next(((side, slope) for side, slope in beyond if side), (0, Measure()))
        if side:
            verdict, exponent = (GROWS if side > 0 else VANISHES), slope.value
        elif verdict == STABLE and _is_unclear(*slopes):
            verdict = UNCLEAR
    is_judged = len(widths) >= LEAST_WIDTHS or verdict == UNBOUNDED
    return Coordinate(
        name=name,
        outputs=outputs,
        changes=changes,
        updates=updates,
        aligned=aligned,
        output_slope=slopes[0],
        change_slope=slopes[1],
        update_slope=slopes[2],
        verdict=verdict if is_judged else None,
        exponent=exponent if is_judged else None,
    )


def width_slope(rows: Rows, widths: Sequence[int]) -> Measure:
    """Slope of log values on log width with Student's interval, whose degrees count widths.

    Values scatter about a line because it bends at small widths, more than seeds do. The variance
    of a mean over seeds is the least that residuals count for: a few may be small by chance.

    Args:
        rows: A row per width, a column per seed; no slope unless all are positive and finite.
        widths: At least two.
    """
    values = np.array(rows)
    if not (values.size and np.isfinite(values).all() and (values > 0).all()):
        return Measure()
    logs, x = np.log(values), np.log(widths) - np.log(widths).mean()
    means, spread, dof = logs.mean(axis=1), float(x @ x), len(widths) - 2
    slope = float(x @ means) / spread
    if dof < 1:
        return Measure(value=slope)
    variance = float(((means - means.mean() - slope * x) ** 2).sum()) / dof
    if logs.shape[1] > 1:
        variance = max(variance, float(logs.var(axis=1, ddof=1).mean()) / logs.shape[1])
    half = float(t_quantile(0.5 + SLOPE_LEVEL / 2, dof)) * math.sqrt(variance / spread)
    return Measure(value=slope, ci=Interval(slope - half, slope + half))


def _beyond(slope: Measure) -> int:
    """On which side of the stable slopes an interval lies wholly; 0 on none."""
    lower, upper = slope.ci
    if lower is None or upper is None:
        return 0
    return int(lower > STABLE_SLOPE) - int(upper < -STABLE_SLOPE)


def _is_unclear(start: Measure, change: Measure, update: Measure) -> bool:
    """Whether an interval leaves a fault possible: growth, of an update vanishing as well."""
    uppers = [slope.ci.upper for slope in (start, change, update)]
    grows = any(upper is not None and upper > UNCLEAR_SLOPE for upper in uppers)
    lower = update.ci.lower
    return grows or (lower is not None and lower < -UNCLEAR_SLOPE)


def _rows(traces: Sequence[Sequence[Trace]], name: str, step: int) -> Rows:
    return tuple(tuple(getattr(trace, name)[step] for trace in row) for row in traces)
