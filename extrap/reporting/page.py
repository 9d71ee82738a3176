"""The page: one self-contained HTML file from a forecast and its verdicts."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from extrap import __version__
from extrap.forecasting import Forecast
from extrap.records import Verdict
from extrap.reporting.answer import (
    answer_rows,
    answer_sentences,
    fixed_law_sentences,
    headline,
    name_size,
    name_tuned,
)
from extrap.reporting.equations import Piece, equation
from extrap.reporting.figures import (
    fixed_law_info,
    law_story_info,
    local_sweeps_info,
    style_sheet,
)
from extrap.reporting.glossary import CAUSES, LIMITS, Explanation, explain_flag
from extrap.reporting.groups import RunGroup, group_verdicts, judged_sizes
from extrap.reporting.numbers import (
    NBSP,
    format_estimate,
    format_p_value,
    format_percent,
    format_quantity,
    format_value,
)
from extrap.reporting.plates import local_plates, story_plate, sweep_plates
from extrap.reporting.sizes import size_axis
from extrap.reporting.tables import (
    VERDICT_WORDS,
    answer_table,
    cost_table,
    optima_table,
    parameter_table,
    points_table,
    runs_table,
    verdict_table,
)

__all__ = ["Card", "environment", "render", "report", "verdict_card"]

MAX_CARDS = 24
LIBRARIES = ("numpy", "pandas", "scipy", "statsmodels", "matplotlib", "seaborn", "jinja2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A verdict in words, for one run or a group of replicates.

    Attributes:
        kind: Decides shape and colour.
        verdict: The verdict, shape and words.
        title: Which runs.
        facts: Pairs of name and value.
        advice: What to do.
    """

    kind: str
    verdict: str
    title: str
    facts: tuple[tuple[str, str], ...]
    advice: tuple[str, ...]


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
    html = render(
        forecast, verdicts, title=title, question=question, provenance=provenance or {}
    )
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
    return environment().get_template("report.html.j2").render(
        title=title or f"Forecast from {forecast.runs.source or 'a sweep'}",
        question=question or _default_question(forecast),
        created=forecast.created,
        headline=headline(forecast, rows),
        answer=answer_sentences(forecast, rows, groups, fixed),
        answer_table=answer_table(forecast, rows),
        story=story,
        story_words=fixed_law_sentences(forecast, rows, groups, fixed) if fixed else [],
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
        provenance=_provenance(forecast, groups, provenance),
        limits=LIMITS,
        light=style_sheet("light"),
        dark=style_sheet("dark"),
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


def verdict_card(forecast: Forecast, group: RunGroup) -> Card:
    """Everything the checker said about a group of replicates."""
    first, n = group.verdicts[0], len(group.verdicts)
    where = ", ".join(filter(None, [name_size(group.size), name_tuned(group.tuned)]))
    seen = "none (" + ", ".join(sorted({v.status for v in group.verdicts})) + ")"
    if group.mean_loss is not None:
        seen = format_value(group.mean_loss, group.loss_se(forecast.noise.log_sd))
    facts = [("observed" if n == 1 else f"observed, mean of {len(group.losses)}", seen)]
    level = f"{100 * forecast.level:g}{NBSP}%"
    facts.append((f"forecast ({level})", format_estimate(first.predicted, first.predicted_pi)))
    if group.deviation is not None:
        facts.append(("deviation from it", format_percent(group.deviation)))
    if first.expected is not None and first.expected != first.predicted:
        facts.append(("expected at its own values", format_value(first.expected)))
    p_values = sorted(v.p_value for v in group.verdicts if v.p_value is not None)
    if p_values:
        both = dict.fromkeys(format_p_value(p) for p in (p_values[0], p_values[-1]))
        facts.append(("p-value" if n == 1 else "p-values", " … ".join(both)))
    causes = dict.fromkeys(v.cause for v in group.verdicts if v.cause)
    if causes:
        facts.append(("likely cause", "; ".join(CAUSES.get(c, c) for c in causes)))
    return Card(
        kind=group.kind,
        verdict=VERDICT_WORDS[group.kind],
        title=f"{where} · {n} run{'s' if n > 1 else ''}",
        facts=tuple(facts),
        advice=tuple(dict.fromkeys(v.advice for v in group.verdicts if v.advice)),
    )


def _default_question(forecast: Forecast) -> str:
    tuned = ", ".join(forecast.runs.tuned)
    what = f"Which {tuned} should a larger run use, and what" if tuned else "What"
    return f"{what} loss will it reach?"


def _equations(forecast: Forecast) -> list[tuple[tuple[Piece, ...], str]]:
    """Each law written out, and what it counts for."""
    found = []
    for fit, weight in forecast.loss_laws:
        words = f"weight {weight:.2g}" if weight else "rejected by the data (F-test), weight 0"
        found.append((equation(fit, "loss"), f"{words}; {fit.n_points} sizes"))
    for name, fit in forecast.tuned_laws.items():
        if fit is not None:
            off = format_percent(fit.scatter, signed=False)
            words = f"{fit.n_points} sizes; optima scatter by {off} about it"
            found.append((equation(fit, f"best {name}"), words))
    return found


def _noise_words(forecast: Forecast) -> str:
    noise = forecast.noise
    if noise.log_sd is None:
        return "No run was repeated with another seed."
    return (
        f"Runs that differ only in their seed scatter by {format_percent(noise.log_sd, signed=False)} "
        f"of their loss (standard deviation)."
    )


def _flags(forecast: Forecast, of_points: Sequence[str]) -> list[Explanation]:
    of_laws = [flag for fit, _ in forecast.loss_laws for flag in fit.flags]
    of_laws += [flag for fit in forecast.tuned_laws.values() if fit for flag in fit.flags]
    return [explain_flag(f) for f in dict.fromkeys([*forecast.flags, *of_points, *of_laws])]


def _provenance(
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
        rows.append(
            (column, f"{len(values)} values, {format_quantity(values[0])} to "
             f"{format_quantity(values[-1])}")
        )
    rows.append(("judged runs", str(sum(len(g.verdicts) for g in groups))))
    rows.append(("extrap", __version__))
    rows.append(("Python", platform.python_version()))
    rows.append(("libraries", ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)))
    return [*rows, *((str(k), str(v)) for k, v in extra.items())]
