"""Sensitivity of fixed values: the answer, the ranking, and their page."""

from __future__ import annotations

from extrap.analyses.sensitivity import SMALL_COST, Sensitivity, Setting
from extrap.analyses.sensitivity.flags import MEANINGS
from extrap.records import Measure
from extrap.records.flags import Flag
from extrap.records.numbers import (
    beside,
    format_given,
    format_level,
    format_percent,
    format_quantity,
    name_size,
    stacked,
)
from extrap.records.recipe import ONE_MINUS
from extrap.reporting.blocks import Answer, Block, Figure, Page, Paragraph, Warnings
from extrap.reporting.charts import Axis, Row, RowsChart
from extrap.reporting.flags import confidence, explain_flags
from extrap.reporting.study_page import About, in_percent, measured, study_page
from extrap.reporting.tables import tabulated

SETTING_ADVICE = {
    "leave": "Leave it fixed.",
    "tune-once": "Tune it once at a small size; the best value serves all sizes.",
    "tune-and-scale": "Tune it at each size, or scale it by the exponent.",
    "extend": "Try values beyond {better} at small sizes until the loss rises.",
    "change": "Change it to {better}.",
    "add-runs": "Add seeds or a size: its cost is not significant.",
    "repeat": "Repeat its runs: too few seeds have a loss in all of them.",
}
"""Advice on a setting → what to do, a sentence."""
LIMITS = (
    "One value is changed at a time: interactions are not measured.",
    "The log loss is taken as a parabola with one curvature for all sizes, whose gradient is a "
    "line over log size. The intervals hold if that is so.",
    "A lower loss may not be worth a change that makes an update dearer, such as more depth.",
)


def sensitivity_answer(sensitivity: Sensitivity) -> Answer:
    """Which fixed value to tune first and what it costs, or that all can stay."""
    first, small = sensitivity.settings[0], format_percent(SMALL_COST, signed=False)
    where = f"of the loss at {name_size({sensitivity.column: sensitivity.target})}"
    cost = f"kept at {_level(first.base)}, it costs {in_percent(first.cost)} {where}"
    flags = [Flag(code, first.name) for code in first.flags]
    ratio = format_quantity(sensitivity.target / sensitivity.sizes[-1], digits=2)
    certain = f"high; no warnings at {ratio} times the largest size"
    if all(setting.advice == "leave" for setting in sensitivity.settings):
        text, color = f"Keep all fixed values: each costs less than {small} {where}.", "good"
    elif first.cost.ci.lower:
        best = (
            "" if first.best == Measure() else f"; its best value there is {beside(_best(first))}"
        )
        text, color = f"Tune {first.name} first: {cost}{best}.", "warn"
    else:
        text = f"No cost is significant. {first.name} is the first candidate: {cost}."
        color, flags, certain = "warn", [], "low; its interval includes 0 or is open"
    sure = confidence(flags, MEANINGS, grave=("far",), otherwise=f"Confidence: {certain}.")
    return Answer(text=text, confidence=sure, color=color)


def sensitivity_blocks(sensitivity: Sensitivity) -> list[Block]:
    """What the page shows and the command prints."""
    target = name_size({sensitivity.column: sensitivity.target})
    rows = tuple(
        Row(label=s.name, value=s.cost.value, interval=s.cost.ci) for s in sensitivity.settings
    )
    axis = Axis("extra loss", is_log=False, is_percent=True)
    chart = RowsChart(title=f"Cost at {target}", axis=axis, rows=rows, reference=SMALL_COST)
    ranking = tabulated(
        f"Cost of fixed values at {target}, {format_level(sensitivity.level)} intervals",
        sensitivity.settings,
        {
            "fixed value": lambda s: s.name,
            "fixed at": lambda s: _level(s.base),
            "cost, % of the loss": lambda s: in_percent(s.cost),
            "best value there": _best,
            f"exponent of {sensitivity.column}": lambda s: measured(s.drift),
            "what to do": lambda s: SETTING_ADVICE[s.advice].format(better=_better(s)),
        },
        note="Cost: loss at the fixed value over that at the best one, minus 1; where none is "
        "bracketed, what the best value tried gains. Exponents of momentum and β are those of the "
        "distance from 1.",
    )
    flags = (Flag(code, s.name) for s in sensitivity.settings for code in s.flags)
    notes = (Paragraph(f"note: {note}", is_small=True) for note in sensitivity.notes)
    figure = Figure(chart, "Line: too little for a sweep.")
    warnings = Warnings(explain_flags(flags, MEANINGS))
    return [sensitivity_answer(sensitivity), figure, warnings, ranking, *notes]


def sensitivity_page(sensitivity: Sensitivity, about: About) -> Page:
    """The page of the sensitivity of fixed values."""
    sizes = ", ".join(map(format_given, sensitivity.sizes))
    blocks = sensitivity_blocks(sensitivity)
    counts = {"runs": sensitivity.n_runs, sensitivity.column: sizes}
    return study_page("sensitivity", about, blocks, caveats=LIMITS, counts=counts)


def _best(setting: Setting) -> str:
    """The best value with its interval: of a distance from 1 as exact as that."""
    write = None if setting.name in ONE_MINUS else format_quantity
    return stacked(setting.best.value, setting.best.ci, write)


def _better(setting: Setting) -> str:
    """The value tried that has the lowest loss at the target."""
    pairs = zip(setting.changes, setting.values, strict=False)
    best = min(pairs, key=lambda pair: pair[0].value or 0.0, default=(Measure(), ""))
    return _level(best[1])


def _level(value: float | str) -> str:
    return value if isinstance(value, str) else format_given(value)
