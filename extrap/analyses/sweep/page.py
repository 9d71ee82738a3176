"""What is shown of a forecast and of its larger runs, as blocks: on a page and in a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Unpack

from extrap.analyses.sweep.answer import (
    AnswerRow,
    answer_row,
    answer_rows,
    forecast_answer,
    is_reached,
    leading_row,
)
from extrap.analyses.sweep.backtest_page import (
    backtest_answer,
    backtested_rules_tables,
    failure_sentences,
    holdouts_table,
    summary_table,
    tuned_sentences,
)
from extrap.analyses.sweep.charts import (
    backtest_chart,
    curve_charts,
    fixed_law_blocks,
    loss_chart,
    optimum_chart,
    sweep_charts,
)
from extrap.analyses.sweep.flags import MEANINGS
from extrap.analyses.sweep.horizon_page import (
    rules_tables,
    timescale_sentences,
)
from extrap.analyses.sweep.judged_groups import RunGroup, group_verdicts
from extrap.analyses.sweep.sizes import SizeAxis, size_axis
from extrap.analyses.sweep.statements import (
    composition_sentence,
    curvature_sentences,
    divergence_sentence,
    law_equations,
    noise_sentence,
    pins_of,
    recommendation_sentence,
    runs_sentence,
)
from extrap.analyses.sweep.tables import (
    answer_table,
    optima_table,
    parameter_table,
    straight_line_blocks,
    verdict_table,
    verdicts_table,
)
from extrap.errors import ExtrapError
from extrap.fitting.one_thread import one_thread
from extrap.forecasting import AnySizes, Forecast
from extrap.forecasting.backtesting import backtest
from extrap.forecasting.documents import as_forecast
from extrap.reading.reader import ReadingKeywords
from extrap.records import Point, Runs, Verdict
from extrap.records.numbers import (
    counted,
    format_level,
    format_quantity,
    name_size,
)
from extrap.records.outcomes import Outcome
from extrap.reporting.blocks import (
    Block,
    Columns,
    Details,
    Equation,
    Figure,
    Page,
    Paragraph,
    Warnings,
)
from extrap.reporting.charts import Chart
from extrap.reporting.flags import explain_flags
from extrap.reporting.study_page import About, study_page
from extrap.reporting.tables import Colored, Table

LIMITS = (
    "The laws may not hold much further than the sizes fitted: an interval covers the laws it "
    "mixes, not a new regime.",
    "The forecast holds for this recipe only. Schedule, depth, initialisation, precision, data "
    "order and batch size were held fixed.",
    "A lower loss does not guarantee better downstream results.",
    "Causes of deviations are hypotheses to test, not findings.",
)
"""Caveats of every forecast."""
LIBRARIES = ("numpy", "pandas", "scipy", "statsmodels", "seaborn", "jinja2")
"""Packages whose versions the page names."""
Metric = Forecast | tuple[Forecast, Sequence[Verdict]]
"""A forecast, alone or with the verdicts on its larger runs."""


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
    from extrap.reporting.html import write_page  # matplotlib, which a terminal does without

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


@one_thread
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
    # of the page alone: a terminal does without
    from extrap.analyses.sweep.cost_page import cost_tables

    groups = group_verdicts(verdicts, contrasts)
    above = [group for group in groups if is_reached(forecast, group.size)]
    rows, tuned = answer_rows(forecast, groups, forecast.unchecked_sizes(at)), forecast.runs.tuned
    axis, lead = size_axis(forecast, [row.size for row in rows]), leading_row(rows)
    first = [optimum_chart(forecast, above, axis, name, rows) for name in tuned[:1]]
    further = {
        name: metric if isinstance(metric, tuple) else (metric, ())
        for name, metric in (metrics or {}).items()
    }
    blocks: list[Block] = [
        forecast_answer(forecast, rows, groups),
        Columns(
            [
                *_figures(first),
                Figure(loss_chart(forecast, above, axis), _legend(forecast, axis, rows)),
            ]
        ),
        forecast_warnings(forecast, rows),
        verdicts_table(forecast, groups) if groups else answer_table(forecast, rows),
        *_rules_over_horizons(rows),
        _forecasts(forecast, rows),
        _backtest(forecast),
        Details(
            "Sweep",
            [Paragraph(axis.note, is_small=True), Columns(_figures(sweep_charts(forecast, axis)))],
        ),
        Details(
            "Keeping a value",
            fixed_law_blocks(forecast, lead.size, above, axis),
        ),
        _laws(forecast, lead),
        Details("Straight line", straight_line_blocks(forecast, rows)),
        Details(
            "Training curves",
            [Columns(_figures(curve_charts(forecast, verdicts, runs, contrasts)))],
        ),
        Details(
            f"Cost of a mistuned value at {name_size(lead.size)}",
            cost_tables(forecast, lead, price=price),
        ),
        *(_metric(name, *metric) for name, metric in further.items()),
        _tables(forecast, groups),
    ]
    what = f"Which {', '.join(tuned)} should a larger run use, and what" if tuned else "What"
    outcomes = [v.on_law for g in groups if g.outcome is not Outcome.CONTRAST for v in g.verdicts]
    judged = [on_law for on_law in outcomes if on_law is not None]
    return study_page(
        "report",
        About(
            title or forecast.runs.source or "a sweep",
            question or f"{what} loss will it reach?",
            origin or {},
            created=forecast.created,
        ),
        blocks,
        caveats=LIMITS,
        counts=_origin(forecast, groups),
        status=_status(lead, outcomes),
        ok=all(judged) if judged else None,
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
        *_rules_over_horizons(rows),
        forecast_warnings(forecast, rows),
        _forecasts(forecast, rows),
        _laws(forecast, rows[-1]),
        _tables(forecast),
    ]


def _rules_over_horizons(rows: Sequence[AnswerRow]) -> list[Table]:
    """What rules say at each size whose horizon was never varied."""
    return rules_tables([row.point for row in rows if row.point.is_never_varied])


def _figures(charts: Iterable[Chart]) -> list[Figure]:
    return [Figure(chart) for chart in charts]


def _status(lead: AnswerRow, outcomes: Sequence[bool | None]) -> Colored:
    """What became of the forecast: on law only where every run is."""
    if not outcomes:
        return Colored("forecast", "muted")
    counts = {Outcome.OFF_LAW: outcomes.count(False), Outcome.UNDECIDED: outcomes.count(None)}
    others = [outcome for outcome, n in counts.items() if n]
    if others and (lead.group is None or lead.group.outcome is not Outcome.ON_LAW):
        return Colored(others[0].word, others[0].color)
    listed = [f"{counted(counts[outcome], 'run')} {outcome.word}" for outcome in others]
    return Colored("; ".join([Outcome.ON_LAW.word, *listed]), "warn" if others else "good")


def _legend(forecast: Forecast, axis: SizeAxis, rows: Sequence[AnswerRow]) -> str:
    """What both figures share, said once."""
    level = format_level(forecast.level)
    kept_note = (
        " Dashed: the value tuned at the smallest size, kept." if forecast.runs.tuned else ""
    )
    text = f"Grey: sizes of the sweep. Bands: {level} prediction intervals.{kept_note}"
    if forecast.horizon is not None and any(row.point.is_never_varied for row in rows):
        text += f" All at the {forecast.horizon.column} of the sweep."
    return f"{text} {axis.note}".strip()


def _backtest(forecast: Forecast) -> Details:
    """The sweep's own backtest, made as the forecast was."""
    try:
        pins, prior = pins_of(forecast), forecast.prior
        tested = backtest(forecast.runs, band=forecast.band, fix=pins, prior=prior)
    except ExtrapError as error:
        return Details("Backtest", [Paragraph(f"No backtest: {error}")])
    text = [backtest_answer(tested).text, *failure_sentences(tested), *tuned_sentences(tested)]
    figure = Figure(backtest_chart(tested))
    rules = backtested_rules_tables(tested)
    tables = (summary_table(tested), *rules, holdouts_table(tested))
    return Details("Backtest", [Paragraph(" ".join(text)), figure, *tables])


def _metric(name: str, forecast: Forecast, seen: Sequence[Verdict]) -> Details:
    """The answer, law, table and warnings of a further metric."""
    groups = group_verdicts(seen)
    rows = answer_rows(forecast, groups)
    axis = size_axis(forecast, [row.size for row in rows])
    return Details(
        f"Metric {name}",
        [
            forecast_answer(forecast, rows, groups, metric=name),
            Figure(loss_chart(forecast, groups, axis, metric=name)),
            answer_table(forecast, rows, metric=name),
            forecast_warnings(forecast, rows),
        ],
    )


def _origin(forecast: Forecast, groups: Sequence[RunGroup]) -> dict[str, object]:
    """Where the numbers come from."""
    frame = forecast.runs.to_frame()
    seeds = sorted({str(s) for s in frame["seed"]}, key=lambda s: (len(s), s))
    more = f", … ({len(seeds)} in all)" if len(seeds) > 12 else ""
    columns = (*forecast.runs.sizes, *forecast.runs.tuned)
    values = {name: sorted(frame[name].dropna().astype(float).unique()) for name in columns}
    return {
        "forecast made": forecast.created,
        "source of the runs": forecast.runs.source or "not recorded",
        "data hash (SHA-256)": forecast.runs.data_hash(),
        "seeds": ", ".join(seeds[:12]) + more,
        **{
            name: f"{len(of)} values, {format_quantity(of[0])} to {format_quantity(of[-1])}"
            for name, of in values.items()
        },
        "judged runs": sum(len(g.verdicts) for g in groups),
        "libraries": ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES),
    }


def forecast_warnings(forecast: Forecast, rows: Sequence[AnswerRow]) -> Warnings:
    """The flags of a forecast and of its points in words."""
    flags = [*forecast.flags, *(flag for row in rows for flag in row.point.flags)]
    return Warnings(explain_flags(flags, MEANINGS))


def _forecasts(forecast: Forecast, rows: Sequence[AnswerRow]) -> Details:
    """The forecasts with both of their intervals, and why these values are recommended."""
    lead = rows[-1].point
    reason = recommendation_sentence(forecast, lead.recommendation)
    rules = [] if lead.is_never_varied else rules_tables([lead])
    table = answer_table(forecast, rows, with_laws=True)
    return Details("Forecasts", [table, Paragraph(reason), *rules])


def _laws(forecast: Forecast, lead: AnswerRow) -> Details:
    """The laws with their parameters, how sure their form is, noise and divergence."""
    axis, best = size_axis(forecast), lead.point.recommended
    is_known = forecast.runs.tuned and not lead.point.is_never_varied
    timescale = forecast.timescale(**lead.size) if is_known else None
    text = [
        composition_sentence(forecast),
        noise_sentence(forecast),
        *curvature_sentences(forecast),
        divergence_sentence(forecast, lead.size, {n: v for n, v in best.items() if v is not None}),
        *timescale_sentences(timescale),
    ]
    others = [optimum_chart(forecast, (), axis, name) for name in forecast.runs.tuned[1:]]
    equations = (Equation(pieces, note) for pieces, note in law_equations(forecast))
    return Details(
        "Laws",
        [*equations, *map(Paragraph, text), *_figures(others), parameter_table(forecast)],
    )


def _tables(forecast: Forecast, groups: Sequence[RunGroup] = ()) -> Details:
    """The numbers behind the page: judged runs, optima, counts, how runs were read."""
    path = "" if forecast.path is None else f"Size path: {forecast.path}"
    notes = map(Paragraph, (path, runs_sentence(forecast), *forecast.runs.notes))
    return Details("Tables", [verdict_table(groups), optima_table(forecast), *notes])
