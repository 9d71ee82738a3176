"""A law fitted at one fixed value of the tuned columns: it looks perfect, then fails.

References:
    Metz (2022), On the difficulty of extrapolation with NN scaling.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.errors import DataError, ExtrapError
from extrap.fitting import fit, predict_log, relative_sizes
from extrap.forecasting import Forecast
from extrap.records import Fit, Interval
from extrap.reporting.charts import XYChart, points, series
from extrap.reporting.forecast_charts import LOSS_BAND, judged_series, losses_at, size_chart
from extrap.reporting.groups import RunGroup, group_near
from extrap.reporting.numbers import (
    compared,
    format_estimate,
    format_percent,
    format_value,
    name_size,
    name_tuned,
)
from extrap.reporting.sizes import SizeAxis

FIXED_SPAN = 4.0
"""The law is fitted to sizes within this factor of the smallest."""
WIDEST = 100.0
"""Upper over lower end of an interval from which on its forecast is not stated."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FixedLaw:
    """A law of the loss at tuned values that never change.

    Attributes:
        tuned: The tuned values: of the sweep's grid, nearest to the optimum of the smallest size.
        fit: Power law through the smallest sizes.
        points: `x`, `loss` (mean over seeds), `fitted`: what the sweep shows at these values.
    """

    tuned: Mapping[str, float]
    fit: Fit
    points: pd.DataFrame

    @property
    def fitted(self) -> pd.DataFrame:
        """The points that it was fitted to."""
        return self.points[self.points["fitted"]]

    def at(self, size: Mapping[str, float]) -> float:
        """The loss that this law predicts at a size."""
        return float(np.exp(predict_log(self.fit, relative_sizes(self.fit, size))[0][0]))


def fixed_law(forecast: Forecast, axis: SizeAxis) -> FixedLaw | None:
    """The law at the values tuned at the smallest size, or None where the sweep cannot show it."""
    names = list(forecast.runs.tuned)
    frame = axis.select(forecast.runs.complete().to_frame())
    if not names or frame.empty:
        return None
    tuned = _nearest_cell(forecast, frame, names, axis)
    if tuned is None:
        return None
    here = frame[np.logical_and.reduce([np.isclose(frame[n], v) for n, v in tuned.items()])]
    points = here.groupby(axis.column, as_index=False)["loss"].mean()
    points = points.rename(columns={axis.column: "x"}).astype(float)
    points["fitted"] = points["x"] <= FIXED_SPAN * axis.low * (1 + 1e-9)
    fitted = points[points["fitted"]]
    try:
        law = fit("power", {axis.column: list(fitted["x"])}, list(fitted["loss"]))
    except ExtrapError:
        return None
    return FixedLaw(tuned=tuned, fit=law, points=points)


def _nearest_cell(
    forecast: Forecast, frame: pd.DataFrame, names: list[str], axis: SizeAxis
) -> dict[str, float] | None:
    """The values tried at the smallest size that lie nearest to its optimum."""
    smallest = frame[np.isclose(frame[axis.column], axis.low)]
    if smallest.empty:
        return None
    optimum = next(o for o in forecast.optima if axis.holds(o.size))
    cells = smallest.groupby(names)["loss"].mean().reset_index()
    best = {name: optimum.tuned[name].value for name in names}
    if any(value is None for value in best.values()):
        nearest = cells.loc[cells["loss"].idxmin()]
    else:
        distance = sum(np.log2(cells[n] / (best[n] or 1.0)) ** 2 for n in names)
        nearest = cells.loc[pd.Series(distance).idxmin()]
    return {name: float(nearest[name]) for name in names}


def fixed_law_chart(
    forecast: Forecast, groups: Sequence[RunGroup], axis: SizeAxis, law: FixedLaw
) -> XYChart:
    """The law at fixed values, what it was fitted to, what the forecast expects, larger runs."""
    line = [(x, law.at({axis.column: x})) for x in axis.values()]
    kept = [g for g in groups if axis.holds(g.size) and group_near([g], g.size, law.tuned)]
    seen, ours = law.points[~law.points["fitted"]], {"ink": "fixed", "marker": "s"}
    expected = {"ink": "fixed", "label": "forecast for it", **LOSS_BAND, "line": ":"}
    return size_chart(
        f"Loss at {name_tuned(law.tuned)}",
        axis,
        "loss",
        [
            series(losses_at(forecast, law.tuned, axis), **expected),
            points(line, ink="fixed", line="--", label="law at it"),
            series(law.fitted, **ours),
            series(seen, **ours, is_open=True, label="not fitted"),
            *judged_series(kept, lambda group: group.size[axis.column]),
        ],
    )


def fixed_law_text(
    forecast: Forecast, size: Mapping[str, float], groups: Sequence[RunGroup], law: FixedLaw
) -> str:
    """How far off the law at fixed values is at one size."""
    fitted = zip(law.fitted["x"], law.fitted["loss"], strict=True)
    worst = max(abs(loss / law.at({law.fit.columns[0]: x}) - 1) for x, loss in fitted)
    predicted = law.at(size)
    text = [
        f"A law fitted at {name_tuned(law.tuned)}, the value tried that is nearest to the best of "
        f"the smallest size, follows the {len(law.fitted)} sizes within {FIXED_SPAN:g} times that "
        f"size to {format_percent(worst, signed=False)}. At {name_size(size)} it predicts "
        f"{format_value(predicted)}."
    ]
    with suppress(DataError):  # no law of the loss or of an optimum, or no excess-loss curve
        expected = forecast.frame_at_values([size], tuned=law.tuned).iloc[0]
        loss, *sides = map(float, expected[["loss", "loss_pi_lower", "loss_pi_upper"]])
        if math.isfinite(loss) and sides[1] < WIDEST * sides[0]:  # it is not refused there
            text.append(
                f"The forecast for this value is {format_estimate(loss, Interval(*sides))}, "
                f"{compared(loss / predicted - 1)} that."
            )
    kept = group_near(groups, size, law.tuned)
    if kept is not None and kept.mean_loss is not None:
        seen = format_value(kept.mean_loss, kept.loss_se(forecast.noise.log_sd))
        above = compared(kept.mean_loss / predicted - 1)
        text.append(f"Runs at {name_tuned(kept.tuned)} reached {seen}, {above} it.")
    return " ".join(text)
