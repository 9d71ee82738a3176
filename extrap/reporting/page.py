"""The page: one self-contained HTML file from a forecast and its verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from extrap.backtesting import backtest
from extrap.errors import ExtrapError
from extrap.forecasting import Forecast
from extrap.records import Verdict
from extrap.reporting.answer import (
    AnswerRow,
    answer_rows,
    answer_sentences,
    headline,
    leading_row,
    name_size,
)
from extrap.reporting.backtests import backtest_sentence, failure_sentences, pins_of
from extrap.reporting.cards import verdict_card
from extrap.reporting.equations import Piece, equation
from extrap.reporting.figures import (
    FixedLaw,
    fixed_law_info,
    law_story_info,
    local_sweeps_info,
    style_sheet,
)
from extrap.reporting.glossary import LIMITS, Explanation, explain_flag
from extrap.reporting.groups import RunGroup, group_verdicts, judged_sizes
from extrap.reporting.numbers import (
    format_percent,
)
from extrap.reporting.plates import (
    Plate,
    backtest_plate,
    local_plates,
    story_plate,
    sweep_plates,
)
from extrap.reporting.provenance import provenance_rows
from extrap.reporting.sizes import SizeAxis, size_axis
from extrap.reporting.story import fixed_law_sentences
from extrap.reporting.tables import (
    answer_table,
    cost_table,
    optima_table,
    parameter_table,
    points_table,
    runs_table,
    verdict_table,
)

__all__ = ["environment", "render", "report"]

MAX_CARDS = 24


def report(
    forecast: Forecast,
    verdicts: Sequence[Verdict] = (),
    *,
    path: str | Path,
    title: str | None = None,
    question: str | None = None,
    provenance: Mapping[str, str] | None = None,
) -> Path:
    """Write the report of a forecast as one HTML file that loads nothing else.

    Args:
        forecast: The forecast.
        verdicts: The judged larger runs, from `check`.
        path: Where to write; missing folders are made.
        title: Heading; by default the source of the runs.
        question: The question the study asks, one sentence.
        provenance: Further rows of the provenance table, such as commit or storage.

    Returns:
        The path written.
    """
    path = Path(path)
    html = render(forecast, verdicts, title=title, question=question, provenance=provenance or {})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html, encoding="utf-8")
    return path


def render(
    forecast: Forecast,
    verdicts: Sequence[Verdict],
    *,
    title: str | None,
    question: str | None,
    provenance: Mapping[str, str],
) -> str:
    """The page as text; see `report`."""
    groups = group_verdicts(verdicts)
    axis = size_axis(forecast, judged_sizes(groups))
    rows = answer_rows(forecast, groups)
    fixed = fixed_law_info(forecast, axis)
    story = story_plate(law_story_info(forecast, groups, axis, fixed))
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            title=title or f"Forecast from {forecast.runs.source or 'a sweep'}",
            question=question or _default_question(forecast),
            created=forecast.created,
            headline=headline(forecast, rows),
            kind=lead.kind if (lead := leading_row(rows).group) else "forecast",
            answer=answer_sentences(forecast, rows, groups, fixed),
            answer_table=answer_table(forecast, rows),
            history=_history(forecast),
            story=story,
            story_words=_story_words(forecast, rows, groups, axis, fixed),
            panels=sweep_plates(forecast, groups, axis),
            axis_note=axis.note,
            equations=_equations(forecast),
            parameters=parameter_table(forecast),
            cost=cost_table(forecast, rows[-1]),
            cost_size=name_size(rows[-1].size),
            noise=_noise_words(forecast),
            flags=_flags(forecast, [flag for row in rows for flag in row.point.flags]),
            cards=[verdict_card(forecast, group) for group in groups[:MAX_CARDS]],
            n_more=max(0, len(groups) - MAX_CARDS),
            judged=verdict_table(groups) if groups else None,
            local=local_plates(local_sweeps_info(forecast, groups)),
            tables=(optima_table(forecast), points_table(forecast, rows), runs_table(forecast)),
            notes=forecast.runs.notes,
            provenance=provenance_rows(forecast, groups, provenance),
            limits=LIMITS,
            light=style_sheet("light"),
            dark=style_sheet("dark"),
        )
    )


def environment() -> Environment:
    """The templates, with everything escaped that is not a picture of ours."""
    return Environment(
        loader=PackageLoader("extrap.reporting"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _History:
    """The sweep's own backtest: what it says, and its picture where there is one."""

    words: str
    plate: Plate | None


def _history(forecast: Forecast) -> _History:
    try:
        found = backtest(forecast.runs, band=forecast.band, fix=pins_of(forecast))
    except ExtrapError as error:
        return _History(words=f"No backtest: {error}", plate=None)
    words = " ".join([backtest_sentence(found), *failure_sentences(found)])
    return _History(words=words, plate=backtest_plate(found))


def _story_words(
    forecast: Forecast,
    rows: Sequence[AnswerRow],
    groups: Sequence[RunGroup],
    axis: SizeAxis,
    fixed: FixedLaw | None,
) -> list[str]:
    """The story at the largest size that is drawn."""
    drawn = [row for row in rows if axis.holds(row.size)]
    if fixed is None or not drawn:
        return []
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


def _flags(forecast: Forecast, of_points: Sequence[str]) -> list[Explanation]:
    return [explain_flag(f) for f in dict.fromkeys([*forecast.flags, *of_points])]
