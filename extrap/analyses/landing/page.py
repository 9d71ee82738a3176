"""What `extrap land` prints: where the loss ends, and a figure of the way there."""

from __future__ import annotations

from datetime import UTC, datetime

from extrap.analyses.landing import JudgedLanding, Landing
from extrap.records.numbers import (
    counted,
    format_estimate,
    format_interval,
    format_percent,
    format_quantity,
    format_value,
)
from extrap.reporting.blocks import Answer, Block, Figure, Page, Paragraph
from extrap.reporting.charts import BAND, Axis, XYChart, points

SLIGHT_DROP = 0.002
"""A drop of less than this share of the loss is not worth a sentence."""


def landing_blocks(landing: Landing) -> list[Block]:
    """The answer, a figure, what was assumed."""
    notes = [Paragraph(note, is_small=True) for note in landing.notes]
    return [_answer(landing), *_figures(landing), *notes]


def landing_page(landing: Landing, log: str) -> Page:
    """The page of a landing; `log` is the name of the log."""
    return Page(
        kind="landing",
        title=log,
        question="Where does the loss of this run end?",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        blocks=landing_blocks(landing),
    )


def judged_blocks(judged: JudgedLanding) -> list[Block]:
    """Whether a run ended where it was said to."""
    what = "inside" if judged.is_inside else "outside"
    text = (
        f"Ended at {format_value(judged.end)}, {what} the interval "
        f"{format_interval(judged.landing.interval)} that was forecast at step "
        f"{format_quantity(judged.landing.step)}: {format_percent(judged.error)} from "
        f"{format_value(judged.landing.loss)}."
    )
    if not judged.is_finished:
        text = (
            f"The run is at step {format_quantity(judged.step)} of "
            f"{format_quantity(judged.landing.total_steps)}; it is judged when it has ended."
        )
        return [Answer(text=text)]
    return [Answer(text=text, color="good" if judged.is_inside else "bad")]


def _answer(landing: Landing) -> Answer:
    if landing.refusal or landing.loss is None:
        return Answer(text=f"No forecast. {landing.refusal}", color="warn")
    if landing.step >= landing.total_steps:
        return Answer(text=f"The run has ended, at {format_value(landing.present)}.")
    end = format_estimate(landing.loss, landing.interval, landing.level)
    text = f"Ends at {end}, now {format_value(landing.present)}.{_drop(landing)}"
    return Answer(text=text, confidence=_confidence(landing))


def _drop(landing: Landing) -> str:
    """What the rate's fall adds, and whether the log shows it."""
    if landing.drop is None or landing.drop < SLIGHT_DROP * (landing.loss or 0):
        return ""
    drop = f" A drop of {format_quantity(landing.drop, digits=2)} is due to the falling rate"
    if landing.width_with_like is None:
        return f"{drop}."
    share = format_percent(landing.width_with_like, signed=False)
    return (
        f"{drop}, which this log cannot show yet: a finished run of the recipe (--like) would "
        f"make it about ± {share}."
    )


def _confidence(landing: Landing) -> str:
    if landing.method == "ratio":
        runs = counted(landing.n_like, "finished run")
        return f"From the ratio of {runs}, whose ends it told better than the law."
    if landing.n_like:
        return f"From the log and {counted(landing.n_like, 'finished run')}."
    return ""


def _figures(landing: Landing) -> list[Block]:
    """The log and the forecast above the rate."""
    if not landing.log:
        return []
    x = Axis("step", is_log=False, limits=(0.0, landing.total_steps))
    series = [points(landing.log, label="log, means", ink="law", marker="o")]
    if landing.path:
        series.append(points(landing.path, label="forecast", ink="good", **BAND))
    loss = XYChart(title="Loss", x=x, y=Axis("loss"), series=series, shaded=(0.0, landing.step))
    rates = XYChart(
        title="Learning rate",
        x=x,
        y=Axis("rate over its peak", is_log=False, limits=(0.0, 1.0)),
        series=[points(landing.rates, ink="law", line="-")],
        shaded=(0.0, landing.step),
    )
    return [Figure(loss), Figure(rates)]
