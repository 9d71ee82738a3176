"""What a mistuned value costs: the table of the page, and what `extrap cost` prints."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from extrap.analyses.sweep.answer import AnswerRow
from extrap.analyses.sweep.flags import MEANINGS
from extrap.errors import DataError
from extrap.fitting.run_costs import IN_SECONDS, SECONDS_PER_HOUR
from extrap.forecasting import Forecast
from extrap.forecasting.mistuning_cost import Cost, Penalty
from extrap.forecasting.mistuning_cost import cost as price_values
from extrap.records import Measure
from extrap.records.confidence import LOW_CHANCE
from extrap.records.numbers import (
    NBSP,
    beside,
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
from extrap.reporting.flags import confidence, explain_flags
from extrap.reporting.tables import Table, tabulated

LEAST_HOURS = 0.01
"""GPU-hours of a run from which they are written."""
GRAVE = ("far-off", "far-extrapolation", "lack-of-fit")
"""Flags that make the confidence low."""
FACTOR_NAMES = {0.25: "¼ ×", 0.5: "½ ×", 1.0: "recommended"}
"""Multiple of the recommended value → how it is written; others as numbers."""


def cost_tables(forecast: Forecast, row: AnswerRow, *, price: float | None = None) -> list[Table]:
    """What values off the forecast's cost at one size; nothing where the sweep does not say."""
    if forecast.surface is None or row.point.is_never_varied:
        return []
    try:
        return [_table(price_values(forecast, at=row.size, price=price))]
    except DataError:
        return []


def cost_blocks(cost: Cost) -> list[Block]:
    """The answer, the cost of other values, warnings."""
    chosen, level = cost.chosen, cost.level
    whose = "the recommended " if cost.is_recommended else ""
    text = (
        f"At {name_size(cost.size)}, {whose}{name_tuned(chosen.tuned)} costs "
        f"{beside(_cell(chosen.relative, _percent), level)} in loss"
    )
    if cost.knows_compute:
        share = _cell(chosen.equivalent_compute, _percent)
        doing = f"{beside(share)} of its compute" if share else "less than the smallest size needs"
        text += f"; a smaller tuned run reaches the same loss with {doing}"
    if chosen.chance_of_divergence is not None:
        text += f". It diverges with a chance of {_percent(chosen.chance_of_divergence)}"
    certain = "Confidence: high; no warnings."
    sure = confidence(cost.flags, MEANINGS, grave=GRAVE, otherwise=certain)
    if (chosen.chance_of_divergence or 0.0) > LOW_CHANCE:
        sure = "Confidence: low; the cost is that of runs that do not diverge."
    rows: list[tuple[str, ...]] = [
        ("loss if tuned", format_value(cost.loss), _cell(chosen.nats, _number))
    ]
    for name, (unit, write) in _units(cost).items():
        rows.append((unit, write(cost.run[name]), _cell(chosen.wasted[name], write)))
    run = Table("This run", ("", "run", "lost by this choice"), rows)
    warnings = Warnings(explain_flags(cost.flags, MEANINGS))
    return [Answer(text=f"{text}.", confidence=sure), run, _table(cost), warnings]


def _table(cost: Cost) -> Table:
    """What each other value costs."""
    columns: dict[str, Callable[[Penalty], str]] = {
        "tuned value": _what,
        "extra loss": lambda penalty: _cell(penalty.relative, _percent),
        "in nats": lambda penalty: _cell(penalty.nats, _number),
    }
    if cost.chosen.chance_of_divergence is not None:
        columns["chance of divergence"] = lambda penalty: _percent(
            penalty.chance_of_divergence or 0.0
        )
    if cost.knows_compute:
        columns["equivalent compute"] = lambda penalty: (
            _cell(penalty.equivalent_compute, _percent) or "below the law's range"
        )
    for name, (unit, write) in _units(cost).items():
        if name != "flops":
            columns[f"{unit} wasted"] = partial(_wasted, name=name, write=write)
    return tabulated(
        f"Expected cost of other values at {name_size(cost.size)}, with "
        f"{format_level(cost.level)} intervals",
        (*cost.around, *cost.kept),
        columns,
        note="Equivalent compute: of a tuned, smaller run that reaches the same loss, as a share "
        "of this run's.",
    )


def _units(cost: Cost) -> dict[str, tuple[str, Callable[[float], str]]]:
    """What is known of a run → its unit and how it is written; a short time is in seconds."""
    units: dict[str, tuple[str, Callable[[float], str]]] = {
        "flops": ("FLOPs", _number),
        "gpu_hours": ("GPU-hours", _number),
    }
    if cost.run.get("gpu_hours", 1.0) < LEAST_HOURS:
        units["gpu_hours"] = (IN_SECONDS, lambda hours: _number(SECONDS_PER_HOUR * hours))
    units["money"] = ("money", _number)
    return {name: unit for name, unit in units.items() if name in cost.run}


def _wasted(penalty: Penalty, *, name: str, write: Callable[[float], str]) -> str:
    return _cell(penalty.wasted[name], write)


def _what(penalty: Penalty) -> str:
    value = f"{penalty.column} {format_quantity(penalty.tuned[penalty.column or ''])}"
    if penalty.kept_from is not None:
        return f"{value}, best at {name_size(penalty.kept_from)}"
    factor = penalty.factor or 1.0
    return f"{value}, {FACTOR_NAMES.get(factor, f'{format_given(factor)} ×')}"


def _percent(share: float) -> str:
    if 0 < share < 5e-4:
        return f"<{NBSP}0.1{NBSP}%"
    return format_percent(share, signed=False)


def _number(value: float) -> str:
    """Two digits; what is below a thousandth is not distinguished from nothing."""
    if 0 < abs(value) < 1e-3:
        return f"<{NBSP}0.001"
    return format_scientific(value, digits=2)


def _cell(measure: Measure, write: Callable[[float], str]) -> str:
    """A value above its interval; empty where neither is known."""
    if measure == Measure():
        return ""
    return stacked(measure.value, measure.ci, write)
