"""What a mistuned value costs: the table of the page, and what `extrap cost` prints."""

from __future__ import annotations

import math
from collections.abc import Callable

from extrap.errors import DataError
from extrap.fitting.run_costs import SECONDS, SECONDS_PER_HOUR
from extrap.forecasting import Forecast
from extrap.planning import Cost, Penalty, PricedValue, cost
from extrap.records import Interval, Measure
from extrap.records.numbers import (
    NBSP,
    TableCell,
    format_given,
    format_level,
    format_percent,
    format_quantity,
    format_scientific,
    format_value,
    name_size,
    name_tuned,
    stacked,
)
from extrap.reporting.blocks import Answer, Block, Warnings
from extrap.reporting.forecast_answer import AnswerRow
from extrap.reporting.glossary import confidence, explain_flags
from extrap.reporting.tables import Table, tabulated

LEAST_HOURS = 0.01
"""GPU-hours of a run from which they are written."""
GRAVE = ("far-off", "far-extrapolation", "lack-of-fit")
"""Flags that make the confidence low."""
BELOW = "below the law's range"
"""Of a tuned run that does as well but is smaller than the smallest swept size."""


def cost_tables(forecast: Forecast, row: AnswerRow, *, price: float | None = None) -> list[Table]:
    """What values off the forecast's cost at one size; nothing where the sweep does not say."""
    if forecast.excess_curve is None or not forecast.runs.tuned:
        return []
    try:
        found = cost(forecast, at=row.size, price=price)
    except DataError:
        return []
    spread = forecast.excess_curve.relative_sd
    note = ""
    if spread is not None:
        off = format_percent(spread, signed=False)
        note = f"Observed costs scatter by {off} about these values."
    return [_table(found, note=note)]


def cost_blocks(found: Cost) -> list[Block]:
    """The answer, the cost of other values, warnings."""
    warnings = Warnings(explain_flags(found.flags))
    return [cost_answer(found), _run_table(found), _table(found), warnings]


def cost_answer(found: Cost) -> Answer:
    """How much higher the loss is expected, and which share of the compute would do."""
    chosen, level = found.chosen, format_level(found.level)
    whose = "the recommended " if found.is_recommended else ""
    text = (
        f"At {name_size(found.size)}, {whose}{name_tuned(chosen.tuned)} costs "
        f"{_sentence(chosen.relative, _percent, level)} in loss"
    )
    if found.knows_compute:
        share = chosen.equivalent_compute
        doing = "less than the smallest swept size needs"
        if share.value is not None:
            doing = f"{_sentence(share, _percent)} of its compute"
        text += f"; a smaller tuned run reaches the same loss with {doing}"
    text += "."
    if chosen.chance_of_divergence is not None:
        text += f" It diverges with a chance of {_percent(chosen.chance_of_divergence)}."
    certain = "Confidence: high; no warnings."
    return Answer(text=text, confidence=confidence(found.flags, grave=GRAVE, otherwise=certain))


def _run_table(found: Cost) -> Table:
    """What the run costs, and what of it a smaller tuned run would not need."""
    chosen = found.chosen
    rows: list[tuple[str, ...]] = [
        ("loss if tuned", format_value(found.loss), _cell(chosen.nats, _number))
    ]
    if found.flops is not None:
        rows.append(("FLOPs", _number(found.flops), _cell(chosen.wasted_flops, _number)))
    if unit := _unit_of_time(found):
        rows.append((unit, _time(found.gpu_hours or 0.0, unit), _wasted_time(chosen, unit)))
    if found.money is not None:
        rows.append(("money", _number(found.money), _cell(chosen.wasted_money, _number)))
    return Table("This run", ("", "run", "lost by this choice"), rows)


def _table(found: Cost, *, note: str = "") -> Table:
    """What each other value costs."""
    columns: dict[str, Callable[[PricedValue], str]] = {
        "tuned value": _what,
        "extra loss": lambda each: _cell(each.penalty.relative, _percent),
        "in nats": lambda each: _cell(each.penalty.nats, _number),
        "equivalent compute": lambda each: _share(each.penalty.equivalent_compute, found),
    }
    if unit := _unit_of_time(found):
        columns[f"{unit} wasted"] = lambda each: _wasted_time(each.penalty, unit)
    if found.money is not None:
        columns["money wasted"] = lambda each: _cell(each.penalty.wasted_money, _number)
    return tabulated(
        f"Expected cost of other values at {name_size(found.size)}, with "
        f"{format_level(found.level)} intervals",
        (*found.around, *found.kept),
        columns,
        note="Equivalent compute: of a tuned, smaller run that reaches the same loss, as a share "
        f"of this run's. {note}".strip(),
    )


def _unit_of_time(found: Cost) -> str:
    """What the time of a run is told in; of a short run only where nothing else is known."""
    if found.gpu_hours is None:
        return ""
    short = SECONDS if found.flops is None else ""
    return "GPU-hours" if found.gpu_hours >= LEAST_HOURS else short


def _time(hours: float, unit: str) -> str:
    return _number(SECONDS_PER_HOUR * hours if unit == SECONDS else hours)


def _wasted_time(penalty: Penalty, unit: str) -> str:
    return _cell(penalty.wasted_gpu_hours, lambda hours: _time(hours, unit))


def _what(each: PricedValue) -> str:
    value = format_quantity(each.penalty.tuned[each.name])
    if each.kept_from is not None:
        return f"{each.name} {value}, best at {name_size(each.kept_from)}"
    factor = each.factor or 1.0
    words = {0.25: "¼ ×", 0.5: "½ ×", 1.0: "recommended"}.get(factor, f"{format_given(factor)} ×")
    return f"{each.name} {value}, {words}"


def _share(share: Measure, found: Cost) -> str:
    if share.value is None and share.ci.upper is None:
        return BELOW if found.knows_compute else "not known"
    sides = Interval(share.ci.lower, 1.0 if share.ci.upper is None else share.ci.upper)
    return stacked(share.value, sides, _percent)


def _percent(share: float) -> TableCell:
    if 0 < share < 5e-4:
        return TableCell(f"<{NBSP}0.1{NBSP}%", share)
    return format_percent(share, signed=False)


def _number(value: float) -> TableCell:
    """Two digits; what is below a thousandth is not told apart from nothing."""
    if 0 < abs(value) < 1e-3:
        return TableCell(f"<{NBSP}0.001", value)
    return format_scientific(value, digits=2)


def _cell(measure: Measure, write: Callable[[float], str]) -> TableCell:
    """A value above its interval."""
    sides = (None if side is None or math.isinf(side) else side for side in measure.ci)
    return stacked(measure.value, Interval(*sides), write)


def _sentence(measure: Measure, write: Callable[[float], str], level: str = "") -> str:
    """The same on one line."""
    value, line, sides = _cell(measure, write).partition("\n")
    return f"{value} ({f'{level}: ' if level else ''}{sides})" if line else value
