"""What a terminal, a notebook and a page show of a forecast but its figures, as blocks."""

from __future__ import annotations

from collections.abc import Sequence

from extrap.forecasting import Forecast
from extrap.records import Point
from extrap.records.numbers import format_percent
from extrap.reporting.blocks import Block, Details, Equation, Figure, Paragraph, Warnings
from extrap.reporting.equations import law_equations
from extrap.reporting.forecast_answer import AnswerRow, answer_row, forecast_answer
from extrap.reporting.forecast_charts import optimum_chart
from extrap.reporting.forecast_tables import (
    answer_table,
    optima_table,
    parameter_table,
    points_table,
    runs_table,
    verdict_table,
)
from extrap.reporting.glossary import explain_flags
from extrap.reporting.judged_groups import RunGroup
from extrap.reporting.sizes import size_axis
from extrap.reporting.statements import (
    composition_sentence,
    curvature_sentences,
    divergence_sentence,
    recommendation_sentence,
)


def forecast_blocks(forecast: Forecast, points: Sequence[Point] | None = None) -> list[Block]:
    """What a page shows of a forecast but its figures; closed, the laws and tables behind it.

    Args:
        forecast: The forecast.
        points: The sizes it is about; by default 2, 4 and 8 times the largest of the sweep.
    """
    if points is None:
        points = [forecast.at(**size) for size in forecast.default_targets()]
    rows = [answer_row(forecast, point) for point in points]
    return [
        forecast_answer(forecast, rows),
        answer_table(forecast, rows),
        forecast_warnings(forecast, rows),
        recommendation_details(forecast, rows),
        laws_details(forecast, rows[-1]),
        tables_details(forecast, rows),
    ]


def forecast_warnings(forecast: Forecast, rows: Sequence[AnswerRow]) -> Warnings:
    """The flags of a forecast and of its points in words."""
    flags = [*forecast.flags, *(flag for row in rows for flag in row.point.flags)]
    return Warnings(explain_flags(flags))


def recommendation_details(
    forecast: Forecast, rows: Sequence[AnswerRow], groups: Sequence[RunGroup] = ()
) -> Details:
    """Why these values are recommended; the forecasts, where verdicts stand in their place."""
    reason = Paragraph(recommendation_sentence(forecast, rows[-1].point.recommendation))
    return Details("Forecasts", [answer_table(forecast, rows), reason] if groups else [reason])


def laws_details(forecast: Forecast, lead: AnswerRow) -> Details:
    """The laws with their parameters, how sure their form is, noise and divergence."""
    text = [
        composition_sentence(forecast),
        _noise(forecast),
        *curvature_sentences(forecast),
        _divergence(forecast, lead),
    ]
    axis = size_axis(forecast)
    others = [optimum_chart(forecast, (), axis, name) for name in forecast.runs.tuned[1:]]
    return Details(
        "Laws",
        [
            *(Equation(*each) for each in law_equations(forecast)),
            *map(Paragraph, text),
            *map(Figure, others),
            parameter_table(forecast),
        ],
    )


def _noise(forecast: Forecast) -> str:
    noise = forecast.noise
    if noise.log_sd is None:
        return "No run was repeated with another seed."
    text = (
        "Runs that differ only in their seed scatter by "
        f"{format_percent(noise.log_sd, signed=False)} of their loss (standard deviation)"
    )
    if noise.shared_sd > 0:
        shared = format_percent(noise.shared_sd, signed=False)
        text += f"; {shared} of it is common to all sizes and only shifts a law"
    return f"{text}."


def _divergence(forecast: Forecast, row: AnswerRow) -> str:
    """How likely a run at the recommended values diverges."""
    tuned = {name: value for name, value in row.point.recommended.items() if value is not None}
    return divergence_sentence(forecast, row.size, tuned)


def tables_details(
    forecast: Forecast, rows: Sequence[AnswerRow], groups: Sequence[RunGroup] = ()
) -> Details:
    """The numbers behind the page: judged runs, optima, forecasts, counts, how runs were read."""
    path = "" if forecast.path is None else f"Size path: {forecast.path}"
    tables = [optima_table(forecast), points_table(forecast, rows), runs_table(forecast)]
    notes = map(Paragraph, (path, *forecast.runs.notes))
    return Details("Tables", [verdict_table(groups), *tables, *notes])
