"""The numbers behind each picture, as tables."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from extrap.records import Interval
from extrap.reporting.figures import (
    CurvesAtSize,
    KnobPaths,
    LawStory,
    LocalSweep,
    OptimumPair,
    OptimumTrend,
    Sweep,
)
from extrap.reporting.numbers import NBSP, format_percent, format_quantity, format_value, name_size
from extrap.reporting.tables import Table, capped_table, stacked

__all__ = [
    "cells_table",
    "knob_paths_table",
    "law_table",
    "local_table",
    "pair_tables",
    "progress_table",
    "story_tables",
    "trend_table",
]

Rows = list[tuple[str, ...]]

MOST_LISTED = 6
"""Runs whose distances stand in one cell."""


def story_tables(info: LawStory) -> list[Table]:
    """The curves of the story at some sizes, and its points."""
    x, level = info.axis.column, f"{100 * info.level:g}{NBSP}%"
    tables = []
    rows: Rows
    if not info.curve.empty:
        rows = [
            (
                format_quantity(float(f"{r.x:.3g}")),
                format_value(r.loss),
                f"{format_value(r.loss_ci_lower)} to {format_value(r.loss_ci_upper)}",
                f"{format_value(r.loss_pi_lower)} to {format_value(r.loss_pi_upper)}",
            )
            for r in _thin(info.curve).itertuples()
        ]
        columns = (x, "loss", f"{level}: the law", f"{level}: one new run")
        tables.append(capped_table("The law of the optimum", columns, rows))
    if info.fixed is not None:
        rows = [
            (format_quantity(r.x), format_value(r.loss), "yes" if r.fitted else "no")
            for r in info.fixed.points.itertuples()
        ]
        heads = (x, "mean loss", "used in the dashed law")
        tables.append(capped_table("The sweep at fixed tuned values", heads, rows))
        rows = [
            (format_quantity(float(f"{r.x:.3g}")), format_value(r.loss))
            for r in _thin(info.fixed.line).itertuples()
        ]
        tables.append(capped_table("The law at fixed tuned values", (x, "loss"), rows))
        rows = [
            (
                format_quantity(float(f"{r.x:.3g}")),
                format_value(r.loss),
                f"{format_value(r.lower)} to {format_value(r.upper)}",
            )
            for r in (_thin(info.fixed.expected).itertuples() if len(info.fixed.expected) else ())
        ]
        if rows:
            heads = (x, "expected loss", f"{level}: one new run")
            tables.append(capped_table("A run at fixed tuned values, as expected", heads, rows))
    return tables


def law_table(info: LawStory) -> Table:
    """Optimal losses the law was fitted to."""
    rows = [
        (format_quantity(r.x), format_value(r.loss, r.loss_se)) for r in info.optima.itertuples()
    ]
    return capped_table("Loss at the optimum", (info.axis.column, "loss ± se"), rows)


def trend_table(info: OptimumTrend) -> Table:
    """The law of an optimum at some sizes."""
    rows = [
        (
            format_quantity(float(f"{r.x:.3g}")),
            format_value(r.value),
            f"{format_value(r.ci_lower)} to {format_value(r.ci_upper)}",
            f"{format_value(r.pi_lower)} to {format_value(r.pi_upper)}",
        )
        for r in (_thin(info.curve).itertuples() if not info.curve.empty else ())
    ]
    level = f"{100 * info.level:g}{NBSP}%"
    columns = (
        info.axis.column,
        f"best {info.tuned}",
        f"{level}: the law",
        f"{level}: the optimum",
    )
    return capped_table(f"The law of the best {info.tuned}", columns, rows)


def pair_tables(info: OptimumPair, *, names: tuple[str, str]) -> list[Table]:
    """The optima of two sweeps beside each other, then both laws at some sizes."""
    trends = (info.sweep, info.baseline)
    level = f"{100 * info.sweep.level:g}{NBSP}%"
    found = [
        {r.x: _estimate_cell(r.value, r.lower, r.upper) for r in trend.optima.itertuples()}
        for trend in trends
    ]
    rows = [
        (format_quantity(x), *(optima.get(x, "–") for optima in found))
        for x in sorted({*found[0], *found[1]})
    ]
    caption = f"Best {info.tuned} of each size ({level} intervals)"
    laws = [
        replace(table, caption=f"{name}: {table.caption[0].lower()}{table.caption[1:]}")
        for name, trend in zip(names, trends, strict=True)
        if (table := trend_table(trend)).rows
    ]
    return [capped_table(caption, (info.axis.column, *names), rows), *laws]


def _estimate_cell(value: float, lower: float, upper: float) -> str:
    """A value above its interval; open sides are NaN."""
    sides = (None if math.isnan(side) else side for side in (lower, upper))
    return stacked(None if math.isnan(value) else value, Interval(*sides))


def cells_table(info: Sweep) -> Table:
    """Mean loss by tuned value and size."""
    cells = info.cells
    rows: Rows
    if info.tuned is None:
        rows = [(format_quantity(r.x), format_value(r.loss)) for r in cells.itertuples()]
        return capped_table("Mean loss of each size", (info.axis.column, "loss"), rows)
    grid = cells.pivot(index="v", columns="x", values="loss")
    if grid.shape[1] > 40:
        rows = [
            (format_quantity(r.v), format_quantity(r.x), format_value(r.loss))
            for r in cells.itertuples()
        ]
        return capped_table("Mean loss of each cell", (info.tuned, info.axis.column, "loss"), rows)
    columns = (info.tuned, *(f"{info.axis.column} {format_quantity(float(x))}" for x in grid))
    rows = [
        (format_quantity(float(v)), *("–" if pd.isna(x) else format_value(x) for x in line))
        for v, line in zip(grid.index, grid.to_numpy(), strict=True)
    ]
    return capped_table("Mean loss over seeds", columns, rows)


def progress_table(info: CurvesAtSize) -> Table:
    """The band along the training, and how far each run was from its middle."""
    at = info.reference
    runs = [run.set_index("x")["loss"] for _, run in info.runs.groupby("run")]
    rows = []
    for row in _thin(at).itertuples():
        off = [
            format_percent(float(run[x]) / row.loss - 1)
            for run in runs
            for x in [run.index[np.argmin(np.abs(run.index - row.x))]]
        ]
        band = f"{format_value(row.lower)} to {format_value(row.upper)}"
        line = (format_percent(row.x, signed=False), format_value(row.loss), band)
        rows.append((*line, ", ".join(off[:MOST_LISTED]) + " …" * (len(off) > MOST_LISTED)))
    return Table(
        caption=f"Curves at {name_size(info.size)}",
        columns=("of training", "expected", "band", "runs off by"),
        rows=tuple(rows),
    )


def local_table(info: LocalSweep) -> Table:
    """Losses of a local sweep."""
    rows = [
        (
            format_quantity(r.x),
            f"{math.log2(r.x / info.forecast):+.2f}".replace("-", "−"),
            format_value(r.loss),
        )
        for r in info.means.itertuples()
    ]
    return capped_table(
        "The local sweep", (info.tuned, "octaves from forecast", "mean loss"), rows
    )


def _thin(frame: pd.DataFrame) -> pd.DataFrame:
    """About ten rows, both ends among them."""
    step = max(1, (len(frame) - 1) // 9)
    return pd.concat([frame.iloc[:-1:step], frame.iloc[-1:]])


def knob_paths_table(info: KnobPaths) -> Table:
    """The optima seen of each knob, size by size and at the target."""
    ends = info.at_target.assign(x=info.span[2])
    rows = [
        (
            str(r.name),
            format_quantity(r.x),
            stacked(r.octaves, Interval(_side(r.lower), _side(r.upper))),
        )
        for frame in (info.optima, ends)
        for r in frame[["name", "x", "octaves", "lower", "upper"]].itertuples(index=False)
    ]
    columns = ("knob", info.column, "best value, octaves from the fixed")
    return capped_table("Where the best value of each knob lies", columns, sorted(rows, key=_name))


def _name(row: tuple[str, ...]) -> str:
    return row[0]


def _side(value: float) -> float | None:
    return value if math.isfinite(value) else None
