"""What a terminal shows of forecasts, verdicts, backtests and running jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from extrap.backtesting import Backtest
from extrap.documents import SHOWN, content_hash
from extrap.forecasting import Forecast
from extrap.monitoring import Reading
from extrap.records import Point, Verdict, Verdicts
from extrap.records.numbers import (
    counted,
    format_interval,
    format_p_value,
    format_percent,
    format_quantity,
    format_value,
    name_size,
    name_tuned,
)
from extrap.reporting.backtests import backtest_answer, failure_sentences, summary_table
from extrap.reporting.blocks import Answer, Block, Details, Equation, Paragraph, Warnings
from extrap.reporting.choices import recommendation_sentence
from extrap.reporting.equations import law_equations
from extrap.reporting.forecast_answer import (
    answer_row,
    answer_rows,
    forecast_answer,
    leading_row,
    outcome,
)
from extrap.reporting.forecast_tables import answer_table, optima_table, verdicts_table
from extrap.reporting.glossary import explain_flags
from extrap.reporting.groups import group_verdicts
from extrap.reporting.statements import composition_sentence, curvature_sentences

SEALS = {
    "sealed-first": "begun after it",
    "begun-before": "begun BEFORE it",
    "in-sweep": "among its own runs",
}
"""How runs stand to the forecast in time."""
UNDECIDED = (
    "UNDECIDED: no run is off the law, and none is shown to be on it; see what each run lacks."
)
"""What an exit code of 0 does not say."""
FAR = 0.1
"""Relative distance of a recommended value from the optimum that needs a reason."""


def forecast_blocks(made: Forecast, points: Sequence[Point] | None = None) -> list[Block]:
    """The answer, the points asked for, warnings; closed, the optima and laws they rest on."""
    if points is None:
        points = [made.at(**size) for size in made.default_targets()]
    rows = [answer_row(made, point) for point in points]
    flags = [flag for point in points for flag in point.flags]
    return [
        forecast_answer(made, rows),
        answer_table(made, rows),
        Paragraph(recommendation_sentence(made, rows[-1].point.recommendation, by=FAR)),
        Warnings(explain_flags(flags)),
        Details(
            "Details",
            (
                optima_table(made),
                *(Equation(pieces, text) for pieces, text in law_equations(made)),
                Paragraph("\n".join([composition_sentence(made), *curvature_sentences(made)])),
                Paragraph("" if made.path is None else f"path: {made.path}"),
                Paragraph("\n".join([_counts(made), *(f"note: {n}" for n in made.runs.notes)])),
            ),
        ),
    ]


def verdicts_blocks(
    verdicts: Sequence[Verdict], made: Forecast, *, familywise: bool = False
) -> list[Block]:
    """The answer, one row per configuration with advice where it is off, when it was forecast."""
    seals = Counter(verdict.seal for verdict in verdicts if verdict.seal)
    seal = "".join(f"; {counted(n, 'run')} {SEALS[state]}" for state, n in seals.items())
    groups = group_verdicts(verdicts)
    sealed = f"content hash {content_hash(made)[:SHOWN]}"
    return [
        check_answer(verdicts, made, familywise=familywise),
        verdicts_table(made, groups),
        Paragraph(f"forecast of {made.created}, {sealed}{seal}"),
    ]


def check_answer(
    verdicts: Sequence[Verdict], made: Forecast, *, familywise: bool = False
) -> Answer:
    """How many configurations are off, how many would be by chance, and how surprising it is."""
    found = Verdicts(verdicts)
    n, n_off = len(found.configurations), found.n_off
    n_undecided = n - found.n_judged
    text = f"{n_off} of {counted(n, 'configuration')} off the law"
    text += f", {n_undecided} undecided" if n_undecided else ""
    if found.n_tested > 1 and found.joint_p is not None:
        alpha = 1 - made.level
        by_chance = format_quantity(alpha if familywise else alpha * found.n_tested, digits=2)
        text += f"; {'at most ' * familywise}{by_chance} expected by chance, and the smallest "
        text += f"p-value among all is {format_p_value(found.joint_p)}"
    sentences = [f"{text}." if found.n_judged else UNDECIDED]
    lead = leading_row(answer_rows(made, group_verdicts(found)))
    if lead.group is not None:
        where = ", ".join(filter(None, [name_size(lead.size), name_tuned(lead.group.tuned)]))
        sentences.append(f"At {where}: {outcome(lead)}")
    kind = "off" if n_off else "mixed" if n_undecided or not n else "on"
    return Answer(text=" ".join(sentences), kind=kind)


def backtest_blocks(found: Backtest) -> list[Block]:
    """The answer and the scores by extrapolation ratio."""
    failures = map(Paragraph, failure_sentences(found))
    return [backtest_answer(found), summary_table(found), *failures]


def reading_text(reading: Reading) -> str:
    """Where a running job stands, on one line."""
    alarm = f"; alarm: {reading.cause or 'unknown'}" if reading.alarm else ""
    return (
        f"step {format_quantity(reading.step)} "
        f"({format_percent(reading.fraction, signed=False)}): loss {format_value(reading.loss)}, "
        f"expected {format_value(reading.expected)} ({format_interval(reading.band)}), "
        f"e-value {format_quantity(reading.e_value)}{alarm}"
    )


def _counts(made: Forecast) -> str:
    counts = made.runs.counts()
    others = [
        f"{n} {name}" for name, n in counts.items() if n and name not in ("runs", "complete")
    ]
    return ", ".join([f"{counts['runs']} runs", f"{counts['complete']} complete", *others])
