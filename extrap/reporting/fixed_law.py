"""A law fitted at one fixed value of the tuned columns: it looks perfect, then fails.

References:
    Metz (2022), On the difficulty of extrapolation with NN scaling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from extrap.errors import ExtrapError
from extrap.fitting import fit, predict_log, relative_sizes
from extrap.forecasting import Forecast
from extrap.records.numbers import (
    compared,
    format_percent,
    format_quantity,
    format_value,
    name_size,
    name_tuned,
)
from extrap.reporting.blocks import Block, Figure, Paragraph
from extrap.reporting.charts import points, series
from extrap.reporting.forecast_charts import judged_series, size_chart
from extrap.reporting.judged_groups import RunGroup, group_near
from extrap.reporting.sizes import SizeAxis

FIXED_SPAN = 4.0
"""The law is fitted to sizes within this factor of the smallest."""


def fixed_law_blocks(
    forecast: Forecast, size: Mapping[str, float], groups: Sequence[RunGroup], axis: SizeAxis
) -> list[Block]:
    """The law at the value tried nearest to the smallest size's best, and its error at a size."""
    frame, names = axis.select(forecast.runs.complete().to_frame()), list(forecast.runs.tuned)
    best = next((o for o in forecast.optima if axis.holds(o.size)), None)
    if not names or best is None or not best.bracketed or not axis.holds(size):
        return []
    tried = frame[np.isclose(frame[axis.column], axis.low)][names].astype(float)
    away = np.log2(tried / [best.tuned[name].value for name in names])
    tuned = {name: float(v) for name, v in tried.loc[(away**2).sum(axis=1).idxmin()].items()}
    here = frame[np.logical_and.reduce([np.isclose(frame[n], v) for n, v in tuned.items()])]
    losses = here.groupby(axis.column)["loss"].mean().rename_axis("x").reset_index().astype(float)
    is_fitted = losses["x"] <= FIXED_SPAN * axis.low * (1 + 1e-9)
    fitted, others = losses[is_fitted], losses[~is_fitted]
    try:
        law = fit("power", {axis.column: list(fitted["x"])}, list(fitted["loss"]))
    except ExtrapError:
        return []

    def at(x: float) -> float:
        return float(np.exp(predict_log(law, relative_sizes(law, {axis.column: x}))[0][0]))

    predicted = at(size[axis.column])
    worst = max(abs(loss / at(x) - 1) for x, loss in fitted.itertuples(index=False))
    text = (
        f"A law fitted at {name_tuned(tuned)}, the value tried that is nearest to the best of the "
        f"smallest size, follows the {len(fitted)} sizes within "
        f"{format_quantity(FIXED_SPAN)} times that size to {format_percent(worst, signed=False)}. "
        f"At {name_size(size)} it predicts {format_value(predicted)}."
    )
    kept = group_near(groups, size, tuned)
    if kept is not None and kept.mean_loss is not None:
        seen = format_value(kept.mean_loss, kept.loss_se(forecast.noise.log_sd))
        above = compared(kept.mean_loss / predicted - 1)
        text += f" Runs at {name_tuned(kept.tuned)} reached {seen}, {above} it."
    drawn = {"ink": "warn", "marker": "s"}
    larger = [g for g in groups if axis.holds(g.size) and group_near([g], g.size, tuned)]
    shown = [
        points([(x, at(x)) for x in axis.values()], ink="warn", line="--", label="law at it"),
        series(fitted, **drawn),
        series(others, **drawn, is_open=True, label="not fitted"),
        *judged_series(larger, lambda group: group.size[axis.column]),
    ]
    chart = size_chart(f"Loss at {name_tuned(tuned)}", axis, "loss", shown)
    return [Paragraph(text), Figure(chart)]
