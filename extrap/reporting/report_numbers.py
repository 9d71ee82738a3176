"""The numbers of a report as JSON: what the page carries, and what others make of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from extrap.documents import forecast_document, verdicts_document
from extrap.forecasting import Forecast
from extrap.records import Verdict
from extrap.records.codec import encode
from extrap.records.numbers import rounded
from extrap.reporting.forecast_answer import AnswerRow, answer_rows
from extrap.reporting.glossary import explain_flags
from extrap.reporting.judged_groups import group_verdicts
from extrap.reporting.sizes import SizeAxis

Metric = Forecast | tuple[Forecast, Sequence[Verdict]]
"""A forecast, alone or with the verdicts on its larger runs."""

DIGITS = 8
"""Significant digits of a curve."""


def report_numbers(
    forecast: Forecast,
    verdicts: Sequence[Verdict],
    rows: Sequence[AnswerRow],
    axis: SizeAxis,
    *,
    metrics: Mapping[str, Metric] | None = None,
    contrasts: Collection[int] = (),
) -> dict[str, Any]:
    """What `extrap forecast --json` and `extrap check --json` print, and the curves drawn.

    Args:
        forecast: The forecast.
        verdicts: On its larger runs.
        rows: The sizes of the answer.
        axis: Along which the curve runs.
        metrics: Further metrics, as `report` takes them.
        contrasts: `Verdict.configuration` of the larger runs that were mistuned on purpose.

    Returns:
        `forecast`, `verdicts` (null without larger runs), `contrasts`, `curve` (column → values
        along the drawn sizes), `flags` in words, and `metrics`.
    """
    flags = [*forecast.flags, *(flag for row in rows for flag in row.point.flags)]
    return encode(
        {
            "kind": "extrap-report",
            "schema_version": 1,
            "sizes": forecast.runs.sizes,
            "tuned": forecast.runs.tuned,
            **_judged(forecast, verdicts, rows),
            "contrasts": sorted(contrasts),
            "curve": _curve(forecast, axis),
            "flags": [asdict(found) for found in explain_flags(flags)],
            "metrics": {
                name: _judged(made, seen, answer_rows(made, group_verdicts(seen)))
                for name, metric in (metrics or {}).items()
                for made, seen in [metric if isinstance(metric, tuple) else (metric, ())]
            },
        }
    )


def _judged(
    forecast: Forecast, verdicts: Sequence[Verdict], rows: Sequence[AnswerRow]
) -> dict[str, Any]:
    made = forecast_document(forecast, [row.point for row in rows])
    if not verdicts:
        return {"forecast": made, "verdicts": None}
    judged = verdicts_document(verdicts, level=forecast.level, forecast=forecast)
    return {"forecast": made, "verdicts": judged}


def _curve(forecast: Forecast, axis: SizeAxis) -> dict[str, list[float | None]]:
    """The forecast along the drawn sizes; empty without a law of the loss."""
    if not forecast.loss_laws:
        return {}
    sizes = [axis.at(value) for value in axis.values()]
    frame = forecast.frame(sizes).select_dtypes("number")
    return {
        str(column): [rounded(value, DIGITS) for value in frame[column].astype(float)]
        for column in frame
    }
