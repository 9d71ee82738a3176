"""Tables of sensitivity figures."""

from __future__ import annotations

import math

from extrap.records import Interval
from extrap.reporting.figures import KnobPaths
from extrap.reporting.forecast_tables import stacked
from extrap.reporting.numbers import format_quantity
from extrap.reporting.tables import Table, capped_table

__all__ = ["knob_paths_table"]


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
    return capped_table(
        "Where the best value of each knob lies", columns, sorted(rows, key=lambda row: row[0])
    )


def _side(value: float) -> float | None:
    return value if math.isfinite(value) else None
