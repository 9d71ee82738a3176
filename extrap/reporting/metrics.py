"""Further metrics of the same runs: for each the answer, the law, a table, a backtest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from extrap.forecasting import Forecast
from extrap.records import Verdict
from extrap.reporting.answer import answer_rows, headline, leading_row
from extrap.reporting.figures import law_story_info
from extrap.reporting.glossary import Explanation, explain_flags
from extrap.reporting.groups import group_verdicts, judged_sizes
from extrap.reporting.history import history
from extrap.reporting.plates import Plate, story_plate
from extrap.reporting.sizes import size_axis
from extrap.reporting.tables import Table, answer_table

__all__ = ["Metric", "MetricSection", "metric_sections"]

Metric = Forecast | tuple[Forecast, Sequence[Verdict]]
"""A forecast, alone or with the verdicts on its larger runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSection:
    """What the page shows of a further metric.

    Attributes:
        name: Of the metric.
        kind: How its leading size did; decides the colour.
        headline: The answer in one line.
        table: Forecasts, and what was seen.
        plate: The law.
        backtest: A sentence.
        flags: Reasons to doubt it.
    """

    name: str
    kind: str
    headline: str
    table: Table
    plate: Plate
    backtest: str
    flags: tuple[Explanation, ...]


def metric_sections(metrics: Mapping[str, Metric]) -> tuple[MetricSection, ...]:
    """One section a metric, in the order given."""
    return tuple(
        _section(i, name, *(metric if isinstance(metric, tuple) else (metric, ())))
        for i, (name, metric) in enumerate(metrics.items())
    )


def _section(i: int, name: str, forecast: Forecast, verdicts: Sequence[Verdict]) -> MetricSection:
    groups = group_verdicts(verdicts)
    rows = answer_rows(forecast, groups)
    info = law_story_info(forecast, groups, size_axis(forecast, judged_sizes(groups)), None)
    lead = leading_row(rows).group
    flags = [*forecast.flags, *(flag for row in rows for flag in row.point.flags)]
    return MetricSection(
        name=name,
        kind=lead.kind if lead else "forecast",
        headline=headline(forecast, rows, metric=name),
        table=answer_table(forecast, rows, metric=name),
        plate=story_plate(info, key=f"metric{i}", metric=name),
        backtest=history(forecast, picture=False).words,
        flags=tuple(explain_flags(flags)),
    )
