"""The numbers behind the pictures of a batch study."""

from __future__ import annotations

import math

import pandas as pd

from extrap.records import Interval, Measure
from extrap.reporting.batch_tables import counted
from extrap.reporting.figures import BatchFront, BatchRates, BatchSteps, NoiseCourses, NoisePairs
from extrap.reporting.numbers import format_quantity, format_value, name_size
from extrap.reporting.tables import Table, capped_table

__all__ = [
    "batch_front_tables",
    "batch_steps_table",
    "noise_courses_table",
    "noise_pairs_table",
    "rates_points_table",
]

THINNED = 8


def batch_steps_table(info: BatchSteps) -> Table:
    """Steps counted, the hyperbola there, and what was held out or not reached."""
    rows = []
    for target in info.targets:
        curve = _own(info.curve, target)
        for row in _own(info.points, target).itertuples():
            near = curve.iloc[(curve["x"] - row.x).abs().argmin()]
            fitted = f"{_count(near['steps'])}" if abs(near["x"] / row.x - 1) < 0.1 else "–"
            seeds = f"{_count(row.lower)} to {_count(row.upper)}"
            rows.append((f"{target:g}", format_quantity(row.x), _count(row.steps), seeds, fitted))
        for row in _own(info.held, target).itertuples():
            shown = f"predicted {_measured(row.predicted, row.lower, row.upper)}"
            rows.append((f"{target:g}", f"{row.x:g}, kept out", _count(row.steps), "–", shown))
        for row in _own(info.bounds, target).itertuples():
            more = f"more than {_count(row.steps)}"
            rows.append((f"{target:g}", format_quantity(row.x), more, "–", "–"))
    columns = ("loss", "batch", "steps", "seeds from, to", "curve nearby")
    return capped_table(f"Steps at {name_size(info.size)}", columns, rows)


def batch_front_tables(info: BatchFront) -> tuple[Table, ...]:
    """The curves at some batches, and their corners."""
    rows = []
    for target in info.targets:
        curve = _own(info.curve, target)
        for row in curve.iloc[:: max(1, len(curve) // THINNED)].itertuples():
            steps = _measured(row.steps, row.lower, row.upper)
            examples = _count(row.steps * row.batch)
            rows.append((f"{target:g}", _count(row.batch), steps, examples))
    corners = [
        (f"{r.target:g}", *(_count(v) for v in (r.s_min, r.e_min, r.b_crit)))
        for r in info.corners.itertuples()
    ]
    return (
        capped_table("The curves", ("loss", "batch", "steps", "examples"), rows),
        capped_table(
            "Their limits and bends",
            ("loss", "fewest steps", "fewest examples", "bend at batch"),
            corners,
        ),
    )


def rates_points_table(info: BatchRates) -> Table:
    """Best rates with their standard errors."""
    rows = [
        (
            name_size(info.sizes[row.size]),
            f"{row.target:g}",
            format_quantity(row.x),
            format_quantity(float(f"{row.lr:.3g}")),
            f"{math.log2(row.upper / row.lr):.2f}",
        )
        for row in info.points.itertuples()
    ]
    columns = ("size", "loss", "batch", "best rate", "standard error, octaves")
    return capped_table("Best rates", columns, rows)


def noise_courses_table(info: NoiseCourses) -> Table:
    """Windows of every training."""
    rows = [
        (
            info.names[row.line],
            _count(row.step),
            format_value(row.loss),
            _measured(row.noise_scale, row.lower, row.upper),
        )
        for row in info.windows.itertuples()
    ]
    return capped_table("Noise scales", (info.column, "step", "loss", "noise scale"), rows)


def noise_pairs_table(info: NoisePairs) -> Table:
    """Both numbers of every pair, and their ratio."""
    rows = []
    for row in info.pairs.itertuples():
        ratio = row.b_crit / row.noise_scale
        rows.append(
            (
                f"{row.task}, {row.size}",
                f"{row.target:g}",
                _measured(row.noise_scale, row.lower, row.upper),
                _measured(row.b_crit, row.b_lower, row.b_upper),
                f"{ratio:.2g}" if math.isfinite(ratio) else "–",
            )
        )
    columns = ("where", "loss", "mean noise scale", "critical batch", "batch / noise scale")
    return capped_table("Noise scales and critical batches", columns, rows)


def _own(frame: pd.DataFrame, target: float) -> pd.DataFrame:
    return frame[frame["target"] == target]


def _count(value: float) -> str:
    return format_quantity(float(f"{value:.3g}")) if math.isfinite(value) else "–"


def _measured(value: float, lower: float, upper: float) -> str:
    known = [x if math.isfinite(x) else None for x in (value, lower, upper)]
    return counted(Measure(value=known[0], ci=Interval(known[1], known[2])))
