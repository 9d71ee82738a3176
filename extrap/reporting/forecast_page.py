"""The page of a forecast and of its larger runs, as blocks."""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import metadata
from itertools import starmap
from pathlib import Path
from typing import Any, Unpack

from extrap import __version__
from extrap.backtesting import backtest
from extrap.documents import as_forecast
from extrap.errors import ExtrapError
from extrap.forecasting import AnySizes, Forecast
from extrap.reading.reader import ReadingKeywords
from extrap.records import Runs, Verdict
from extrap.records.numbers import (
    counted,
    format_level,
    format_quantity,
    name_size,
)
from extrap.reporting.backtests import (
    backtest_answer,
    failure_sentences,
    holdouts_table,
    summary_table,
    tuned_sentences,
)
from extrap.reporting.blocks import (
    Block,
    Columns,
    Details,
    Figure,
    Page,
    Paragraph,
)
from extrap.reporting.charts import Chart
from extrap.reporting.costs import cost_tables
from extrap.reporting.fixed_law import fixed_law_blocks
from extrap.reporting.forecast_answer import (
    AnswerRow,
    answer_rows,
    forecast_answer,
    is_reached,
    leading_row,
)
from extrap.reporting.forecast_blocks import (
    forecast_warnings,
    laws_details,
    recommendation_details,
    tables_details,
)
from extrap.reporting.forecast_charts import (
    backtest_chart,
    curve_charts,
    loss_chart,
    optimum_chart,
    sweep_charts,
)
from extrap.reporting.forecast_tables import (
    answer_table,
    transfer_table,
    verdicts_table,
)
from extrap.reporting.glossary import LIMITS
from extrap.reporting.html import write_page
from extrap.reporting.judged_groups import RunGroup, group_verdicts
from extrap.reporting.report_numbers import Metric, report_numbers
from extrap.reporting.sizes import SizeAxis, size_axis
from extrap.reporting.statements import (
    pins_of,
)
from extrap.reporting.tables import Table

LIBRARIES = ("numpy", "pandas", "scipy", "statsmodels", "matplotlib", "jinja2")


def report(
    source: Any,
    verdicts: Sequence[Verdict] = (),
    *,
    path: str | Path,
    at: AnySizes = (),
    title: str | None = None,
    question: str | None = None,
    provenance: Mapping[str, str] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    runs: Runs | None = None,
    price: float | None = None,
    contrasts: Collection[int] = (),
    **columns: Unpack[ReadingKeywords],
) -> Path:
    """Write the report of a forecast as one HTML file that loads nothing else.

    Args:
        source: The forecast, the file it was sealed in, or runs as `extrap.forecast` takes them.
        verdicts: The judged larger runs, from `check`.
        path: Where to write; missing folders are made.
        at: One or several sizes the answer is about; by default those of the larger runs, else 2,
            4 and 8 times the largest size of the sweep.
        title: Name of the study; by default the source of the runs.
        question: The question the study asks, one sentence.
        provenance: Further rows of the provenance table, such as commit or storage.
        metrics: Name → forecast of a further metric of the same runs, lower is better, alone or
            with the verdicts on its larger runs.
        runs: The judged runs, one per verdict; their curves are drawn if they have any.
        price: Of an hour of training, in any currency, for what a deviation costs.
        contrasts: `Verdict.configuration` of larger runs that were mistuned on purpose, which are
            shown as such and not as faults.
        columns: How runs are read, as for `extrap.forecast`.

    Returns:
        The path written.

    Raises:
        TypeError: Verdicts are none; or as `extrap.read_runs`.
    """
    page = forecast_page(
        as_forecast(source, columns),
        verdicts,
        at=at,
        title=title,
        question=question,
        origin=provenance,
        metrics=metrics,
        runs=runs,
        price=price,
        contrasts=contrasts,
    )
    return write_page(page, path)


def forecast_page(
    forecast: Forecast,
    verdicts: Sequence[Verdict] = (),
    *,
    at: AnySizes = (),
    title: str | None = None,
    question: str | None = None,
    origin: Mapping[str, str] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    runs: Runs | None = None,
    price: float | None = None,
    contrasts: Collection[int] = (),
) -> Page:
    """The page as blocks; see `report`."""
    groups = group_verdicts(verdicts, contrasts)
    above = [group for group in groups if is_reached(forecast, group.size)]
    rows = answer_rows(forecast, groups, forecast.sizes(at))
    axis = size_axis(forecast, [row.size for row in rows])
    lead = leading_row(rows)
    first = [optimum_chart(forecast, above, axis, name, rows) for name in forecast.runs.tuned[:1]]
    law = Figure(loss_chart(forecast, above, axis), _legend(forecast, axis))
    blocks: list[Block] = [
        forecast_answer(forecast, rows, groups),
        Columns([*map(Figure, first), law]),
        forecast_warnings(forecast, rows),
        verdicts_table(forecast, groups) if groups else answer_table(forecast, rows),
    ]
    cost = f"Cost of a mistuned value at {name_size(lead.size)}"
    blocks += [
        recommendation_details(forecast, rows, groups),
        _backtest(forecast),
        _sweep(forecast, axis),
        _kept(forecast, above, axis, lead),
        laws_details(forecast, lead),
        Details("Training curves", [_beside(curve_charts(forecast, verdicts, runs, contrasts))]),
        Details(cost, cost_tables(forecast, lead, price=price)),
        *starmap(_metric, (metrics or {}).items()),
        tables_details(forecast, rows, groups),
        provenance(_origin_rows(forecast, groups, origin or {})),
        limits(LIMITS),
    ]
    return Page(
        **_about(forecast, groups, rows, title=title, question=question),
        blocks=blocks,
        numbers=report_numbers(
            forecast,
            verdicts,
            rows,
            axis,
            metrics=metrics,
            contrasts=contrasts,
        ),
    )


def _about(
    forecast: Forecast,
    groups: Sequence[RunGroup],
    rows: Sequence[AnswerRow],
    *,
    title: str | None,
    question: str | None,
) -> dict[str, Any]:
    """What a page says about itself."""
    outcomes = [v.on_law for g in groups if g.kind != "contrast" for v in g.verdicts]
    judged = [on_law for on_law in outcomes if on_law is not None]
    return {
        "kind": "report",
        "title": title or forecast.runs.source or "a sweep",
        "question": question or _question(forecast),
        "created": forecast.created,
        "status": _status(leading_row(rows), outcomes),
        "ok": all(judged) if judged else None,
    }


def _beside(charts: Iterable[Chart]) -> Columns:
    return Columns([Figure(chart) for chart in charts])


def _status(lead: AnswerRow, outcomes: Sequence[bool | None]) -> str:
    """What became of the forecast: on law only where every run is."""
    others = {"off": outcomes.count(False), "undecided": outcomes.count(None)}
    if not outcomes:
        return "forecast"
    if any(others.values()) and (lead.group is None or lead.group.kind != "on"):
        return "deviates" if others["off"] else "undecided"
    return "; ".join(["on law", *(f"{counted(n, 'run')} {w}" for w, n in others.items() if n)])


def _question(forecast: Forecast) -> str:
    tuned = ", ".join(forecast.runs.tuned)
    what = f"Which {tuned} should a larger run use, and what" if tuned else "What"
    return f"{what} loss will it reach?"


def _legend(forecast: Forecast, axis: SizeAxis) -> str:
    """What both figures share, said once."""
    level = format_level(forecast.level)
    kept = " Dashed: the value tuned at the smallest size, kept." if forecast.runs.tuned else ""
    text = f"Grey: sizes of the sweep. Bands: {level} prediction intervals.{kept}"
    return f"{text} {axis.note}".strip()


def _backtest(forecast: Forecast) -> Details:
    """The sweep's own backtest, made as the forecast was."""
    try:
        found = backtest(forecast.runs, band=forecast.band, fix=pins_of(forecast))
    except ExtrapError as error:
        return Details("Backtest", [Paragraph(f"No backtest: {error}")])
    text = [backtest_answer(found).text, *failure_sentences(found), *tuned_sentences(found)]
    figure = Figure(backtest_chart(found))
    tables = (summary_table(found), holdouts_table(found))
    return Details("Backtest", [Paragraph(" ".join(text)), figure, *tables])


def _sweep(forecast: Forecast, axis: SizeAxis) -> Details:
    note = Paragraph(axis.note, is_small=True)
    return Details("Sweep", [note, _beside(sweep_charts(forecast, axis))])


def _kept(
    forecast: Forecast, groups: Sequence[RunGroup], axis: SizeAxis, lead: AnswerRow
) -> Details:
    """What keeping the smallest size's values gives, by a law at them and by the forecast."""
    blocks = fixed_law_blocks(forecast, lead.size, groups, axis)
    return Details("Keeping a value", [*blocks, transfer_table(lead.point, forecast.level)])


def _metric(name: str, metric: Metric) -> Details:
    """The answer, law, table and warnings of a further metric."""
    made, seen = metric if isinstance(metric, tuple) else (metric, ())
    groups = group_verdicts(seen)
    rows = answer_rows(made, groups)
    axis = size_axis(made, [row.size for row in rows])
    return Details(
        f"Metric {name}",
        [
            forecast_answer(made, rows, groups, metric=name),
            Figure(loss_chart(made, groups, axis, metric=name)),
            answer_table(made, rows, metric=name),
            forecast_warnings(made, rows),
        ],
    )


def provenance(rows: Sequence[tuple[str, str]]) -> Details:
    """Where a page comes from, as a closed table."""
    return Details("Provenance", [Table("Provenance", ("what", "value"), rows)])


def limits(sentences: Iterable[str]) -> Details:
    """What a page cannot tell."""
    return Details("Limits", [Paragraph(text) for text in sentences])


def _origin_rows(
    forecast: Forecast, groups: Sequence[RunGroup], extra: Mapping[str, str]
) -> list[tuple[str, str]]:
    frame = forecast.runs.to_frame()
    seeds = sorted({str(s) for s in frame["seed"]}, key=lambda s: (len(s), s))
    shown = ", ".join(seeds[:12]) + (f", … ({len(seeds)} in all)" if len(seeds) > 12 else "")
    rows = [
        ("forecast made", forecast.created),
        ("source of the runs", forecast.runs.source or "not recorded"),
        ("data hash (SHA-256)", forecast.runs.data_hash()),
        ("seeds", shown),
    ]
    for column in (*forecast.runs.sizes, *forecast.runs.tuned):
        values = sorted(frame[column].dropna().astype(float).unique())
        span = f"{format_quantity(values[0])} to {format_quantity(values[-1])}"
        rows.append((column, f"{len(values)} values, {span}"))
    rows.append(("judged runs", str(sum(len(g.verdicts) for g in groups))))
    rows.append(("extrap", __version__))
    rows.append(("Python", platform.python_version()))
    rows.append(("libraries", ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)))
    return [*rows, *((str(k), str(v)) for k, v in extra.items())]
