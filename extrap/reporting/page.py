"""The page: one self-contained HTML file from a forecast and its verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from extrap.forecasting import Forecast
from extrap.records import Runs, Verdict
from extrap.reporting.answer import (
    AnswerRow,
    answer_rows,
    answer_sentences,
    headline,
    leading_row,
)
from extrap.reporting.baselines import baseline_section
from extrap.reporting.cards import verdict_card
from extrap.reporting.choice_tables import rules_table, transfer_table
from extrap.reporting.choices import transfer_sentence
from extrap.reporting.costs import cost_table
from extrap.reporting.divergence import divergence_sentence
from extrap.reporting.envelopes import PageHead, page_document
from extrap.reporting.equations import Piece, equation
from extrap.reporting.figures import (
    FixedLaw,
    curves_info,
    fixed_law_info,
    law_story_info,
    local_sweeps_info,
)
from extrap.reporting.glossary import LIMITS, explain_flags
from extrap.reporting.groups import RunGroup, group_verdicts, judged_sizes
from extrap.reporting.history import history
from extrap.reporting.metrics import Metric, metric_sections
from extrap.reporting.numbers import (
    format_percent,
    name_size,
)
from extrap.reporting.pages import render_page, write_page
from extrap.reporting.plates import (
    local_plates,
    progress_plates,
    story_plate,
    sweep_plates,
)
from extrap.reporting.provenance import provenance_rows
from extrap.reporting.report_numbers import report_numbers
from extrap.reporting.sizes import SizeAxis, size_axis
from extrap.reporting.statements import composition_sentence, curvature_sentences
from extrap.reporting.story import fixed_law_sentences
from extrap.reporting.tables import (
    answer_table,
    optima_table,
    parameter_table,
    points_table,
    runs_table,
    verdict_table,
)

__all__ = ["render", "report", "report_document"]

MAX_CARDS = 24
_NO_FIXED_LAW = (
    "The sweep has too few sizes at one fixed value to draw the law that a fixed value would "
    "suggest."
)
_OFF_PATH = (
    "The forecast sizes lie off the path that is drawn, so the law at a fixed value is not "
    "compared there."
)


def report(
    forecast: Forecast,
    verdicts: Sequence[Verdict] = (),
    *,
    path: str | Path,
    title: str | None = None,
    question: str | None = None,
    provenance: Mapping[str, str] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    baseline: Forecast | None = None,
    runs: Runs | None = None,
    price: float | None = None,
) -> Path:
    """Write the report of a forecast as one HTML file that loads nothing else.

    Args:
        forecast: The forecast.
        verdicts: The judged larger runs, from `check`.
        path: Where to write; missing folders are made.
        title: Heading; by default the source of the runs.
        question: The question the study asks, one sentence.
        provenance: Further rows of the provenance table, such as commit or storage.
        metrics: Name → forecast of a further metric of the same runs, lower is better, alone or
            with the verdicts on its larger runs; each gets a short section.
        baseline: Forecast from another sweep over the same columns, such as one under another
            width rule; a section compares how the optima move and what loss they reach. It goes
            by the source of its runs.
        runs: The judged runs, one a verdict; their curves are drawn if they have any.
        price: Of an hour of training, in whatever currency, for what a deviation costs.

    Returns:
        The path written.

    Raises:
        ValueError: The baseline has other size or tuned columns, or another level.
    """
    html = render(
        forecast,
        verdicts,
        title=title,
        question=question,
        provenance=provenance or {},
        metrics=metrics or {},
        baseline=baseline,
        runs=runs,
        price=price,
    )
    return write_page(html, path)


def render(
    forecast: Forecast,
    verdicts: Sequence[Verdict],
    *,
    title: str | None,
    question: str | None,
    provenance: Mapping[str, str],
    metrics: Mapping[str, Metric],
    baseline: Forecast | None,
    runs: Runs | None = None,
    price: float | None = None,
) -> str:
    """The page as text; see `report`."""
    groups = group_verdicts(verdicts)
    axis = size_axis(forecast, judged_sizes(groups))
    rows = answer_rows(forecast, groups)
    fixed = fixed_law_info(forecast, axis)
    lead = leading_row(rows)
    flags = [*forecast.flags, *(flag for row in rows for flag in row.point.flags)]
    story = story_plate(law_story_info(forecast, groups, axis, fixed))
    numbers = report_numbers(forecast, verdicts, rows, axis, metrics=metrics, baseline=baseline)
    return render_page(
        "report.html.j2",
        _head(forecast, verdicts, rows, title=title, question=question),
        numbers=numbers,
        kind=lead.group.kind if lead.group else "forecast",
        answer=answer_sentences(forecast, rows, groups, fixed),
        answer_table=answer_table(forecast, rows),
        baseline=None
        if baseline is None
        else baseline_section(forecast, baseline, axis, rows, title=title),
        history=history(forecast),
        story=story,
        story_words=_story_words(forecast, rows, groups, axis, fixed),
        panels=sweep_plates(forecast, groups, axis),
        axis_note=axis.note,
        **_laws(forecast, lead),
        cost=cost_table(forecast, rows[-1], price=price),
        cost_size=name_size(rows[-1].size),
        flags=explain_flags(flags),
        metrics=metric_sections(metrics),
        cards=[verdict_card(forecast, group, price=price) for group in groups[:MAX_CARDS]],
        n_more=max(0, len(groups) - MAX_CARDS),
        judged=verdict_table(groups) if groups else None,
        progress=progress_plates(curves_info(forecast, verdicts, runs)),
        local=local_plates(local_sweeps_info(forecast, groups)),
        tables=(optima_table(forecast), points_table(forecast, rows), runs_table(forecast)),
        notes=forecast.runs.notes,
        provenance=provenance_rows(forecast, groups, provenance),
        limits=LIMITS,
    )


def report_document(
    forecast: Forecast,
    verdicts: Sequence[Verdict] = (),
    *,
    title: str | None = None,
    question: str | None = None,
    metrics: Mapping[str, Metric] | None = None,
) -> dict[str, Any]:
    """The numbers that a report would carry, without the report: what `read_report` returns.

    Args:
        forecast: The forecast.
        verdicts: The judged larger runs.
        title: As for `report`.
        question: As for `report`.
        metrics: As for `report`.
    """
    groups = group_verdicts(verdicts)
    rows = answer_rows(forecast, groups)
    axis = size_axis(forecast, judged_sizes(groups))
    head = _head(forecast, verdicts, rows, title=title, question=question)
    return page_document(head, report_numbers(forecast, verdicts, rows, axis, metrics=metrics))


def _head(
    forecast: Forecast,
    verdicts: Sequence[Verdict],
    rows: Sequence[AnswerRow],
    *,
    title: str | None,
    question: str | None,
) -> PageHead:
    """What the page says about itself."""
    judged = [verdict.on_law for verdict in verdicts if verdict.on_law is not None]
    return PageHead(
        kind="report",
        title=title or f"Forecast from {forecast.runs.source or 'a sweep'}",
        question=question or _default_question(forecast),
        answer=headline(forecast, rows),
        created=forecast.created,
        status=_status(leading_row(rows), judged),
        ok=all(judged) if judged else None,
    )


def _status(lead: AnswerRow, judged: Sequence[bool]) -> str:
    """What became of the forecast: on law only where every judged run is."""
    if not judged:
        return "forecast"
    if all(judged):
        return "on law"
    if lead.group is None or lead.group.kind != "on":
        return "deviates"
    n_off = judged.count(False)
    return f"on law; {n_off} run{'s' * (n_off > 1)} off"


def _laws(forecast: Forecast, lead: AnswerRow) -> dict[str, Any]:
    """The section on the laws, and on what else might be used at the leading size."""
    return {
        "equations": _equations(forecast),
        "parameters": parameter_table(forecast),
        "noise": _noise_words(forecast),
        "composition": composition_sentence(forecast),
        "curvature": curvature_sentences(forecast),
        "divergence": _divergence(forecast, lead),
        "rules": rules_table(forecast, lead.size),
        "kept": transfer_table(forecast, lead.size),
        "kept_words": transfer_sentence(forecast, lead.size),
    }


def _story_words(
    forecast: Forecast,
    rows: Sequence[AnswerRow],
    groups: Sequence[RunGroup],
    axis: SizeAxis,
    fixed: FixedLaw | None,
) -> list[str]:
    """The story at the largest size that is drawn; else why there is none."""
    drawn = [row for row in rows if axis.holds(row.size)]
    if fixed is None:
        return [_NO_FIXED_LAW]
    if not drawn:
        return [_OFF_PATH]
    return fixed_law_sentences(forecast, drawn[-1], groups, fixed)


def _default_question(forecast: Forecast) -> str:
    tuned = ", ".join(forecast.runs.tuned)
    what = f"Which {tuned} should a larger run use, and what" if tuned else "What"
    return f"{what} loss will it reach?"


def _equations(forecast: Forecast) -> list[tuple[tuple[Piece, ...], str]]:
    """Each law written out, and what it counts for."""
    found = []
    for fit, weight in sorted(forecast.loss_laws, key=lambda pair: -pair[1]):
        words = f"weight {weight:.2g}" if weight else "rejected by the data (F-test), weight 0"
        found.append((equation(fit, "loss"), f"{words}; {fit.n_points} sizes"))
    for name, law in forecast.tuned_laws.items():
        if law is not None:
            off = format_percent(law.scatter, signed=False)
            words = f"{law.n_points} sizes; optima scatter by {off} about it"
            found.append((equation(law, f"best {name}"), words))
    return found


def _noise_words(forecast: Forecast) -> str:
    noise = forecast.noise
    if noise.log_sd is None:
        return "No run was repeated with another seed."
    text = (
        "Runs that differ only in their seed scatter by "
        f"{format_percent(noise.log_sd, signed=False)} of their loss (standard deviation)"
    )
    if noise.shared_sd > 0:
        shared = format_percent(noise.shared_sd, signed=False)
        text += f"; a part of that, {shared}, is alike at all sizes and only shifts a law"
    return f"{text}."


def _divergence(forecast: Forecast, row: AnswerRow) -> str:
    """How likely a run at the recommended or else the optimal values diverges."""
    tuned = {name: e.value for name, e in row.point.tuned.items() if e.value is not None}
    if row.recommended is not None:
        tuned = dict(row.recommended.tuned)
    return divergence_sentence(forecast, row.size, tuned)
