"""What a mistuned value costs: the table of the page, and the text of `extrap cost`."""

from __future__ import annotations

import math

from extrap.errors import DataError
from extrap.forecasting import Forecast
from extrap.planning import Cost, Penalty, PricedValue, cost
from extrap.records import Measure
from extrap.reporting.forecast_answer import AnswerRow
from extrap.reporting.numbers import (
    NBSP,
    format_percent,
    format_quantity,
    name_size,
    name_tuned,
)
from extrap.reporting.tables import Table
from extrap.reporting.text import text_columns

__all__ = ["cost_table", "cost_text"]

BELOW = "below the law's reach"
"""Of a tuned run that does as well but lies below the smallest swept size."""


def cost_table(forecast: Forecast, row: AnswerRow, *, price: float | None = None) -> Table | None:
    """What values off the forecast's cost at one size; None without a valley."""
    if forecast.valley is None or not forecast.runs.tuned:
        return None
    try:
        found = cost(forecast, at=row.size, price=price)
    except DataError:
        return None
    rows = [_cells(_what(each), each.penalty, found) for each in (*found.around, *found.kept)]
    spread = forecast.valley.relative_sd
    scatter = (
        ""
        if spread is None
        else f" Observed costs scatter by {format_percent(spread, signed=False)} about these."
    )
    return Table(
        caption=f"Expected extra loss for a value off the forecast's, with "
        f"{100 * forecast.level:g}{NBSP}% intervals",
        columns=tuple(_header(found)),
        rows=tuple(tuple(cells) for cells in rows),
        note="Compute is that of a tuned, smaller run that reaches the same loss, in shares of "
        f"this run's.{scatter}",
    )


def cost_text(found: Cost) -> str:
    """The choice, what it costs, what others would, and every doubt."""
    run = [f"loss {found.loss:.4g} if tuned"]
    if found.flops is not None:
        run.append(f"{found.flops:.3g} FLOPs")
    if found.gpu_hours is not None:
        run.append(f"{format_quantity(found.gpu_hours)} GPU-hours")
    if found.money is not None:
        run.append(f"price {format_quantity(found.money)}")
    whose = "as recommended" if found.is_recommended else "as chosen"
    lines = [
        f"a run at {name_size(found.size)}: {', '.join(run)}",
        f"{name_tuned(found.chosen.tuned)}, {whose}: {_sentence(found.chosen, found)}",
        "",
        f"expected cost of other values, {found.level:.0%} intervals",
    ]
    priced = [*found.around, *found.kept]
    lines += text_columns(
        _header(found),
        [[_one_line(c) for c in _cells(_what(e), e.penalty, found)] for e in priced],
    )
    lines += [""] * bool(found.flags)
    lines += ["flag: " + flag for flag in found.flags]
    return "\n".join(lines).replace(NBSP, " ")


def _sentence(penalty: Penalty, found: Cost) -> str:
    parts = [
        f"loss {_one_line(_signed(penalty.relative))} higher",
        f"nats {_one_line(_number(penalty.nats))}",
    ]
    share = penalty.equivalent_compute
    if found.knows_compute:
        parts.append(f"compute of a tuned run that does as well {_one_line(_share(share, found))}")
    wasted = [
        f"{unit} {_one_line(_number(measure))}"
        for measure, unit in (
            (penalty.wasted_flops, "FLOPs"),
            (penalty.wasted_gpu_hours, "GPU-hours"),
            (penalty.wasted_money, "money"),
        )
        if measure.value is not None or measure.ci.lower is not None
    ]
    if wasted:
        parts.append(f"wasted {', '.join(wasted)}")
    if penalty.chance_of_divergence is not None:
        parts.append(f"chance of divergence {penalty.chance_of_divergence:.1%}")
    return "; ".join(parts)


def _one_line(cell: str) -> str:
    """A value, and what stands below it in brackets."""
    value, line, sides = cell.partition("\n")
    return f"{value} ({sides})" if line else cell


def _header(found: Cost) -> list[str]:
    header = ["tuned value", "extra loss", "nats", "compute that would do"]
    header += ["GPU-hours wasted"] * (found.gpu_hours is not None)
    return header + ["money wasted"] * (found.money is not None)


def _cells(what: str, penalty: Penalty, found: Cost) -> list[str]:
    cells = [
        what,
        _signed(penalty.relative),
        _number(penalty.nats),
        _share(penalty.equivalent_compute, found),
    ]
    cells += [_number(penalty.wasted_gpu_hours)] * (found.gpu_hours is not None)
    return cells + [_number(penalty.wasted_money)] * (found.money is not None)


def _what(each: PricedValue) -> str:
    value = format_quantity(each.penalty.tuned[each.name])
    if each.kept_from is not None:
        return f"{each.name} {value}, best at {name_size(each.kept_from)}"
    factor = {0.25: "¼ ×", 0.5: "½ ×", 1.0: "forecast"}.get(each.factor or 1.0)
    return f"{each.name} {value}, {factor or f'{each.factor:g} ×'}"


def _signed(measure: Measure) -> str:
    return _with_sides(measure, lambda v: format_percent(v, signed=False))


def _share(measure: Measure, found: Cost) -> str:
    def told(share: float) -> str:
        return f"{100 * share:.{0 if share >= 0.0995 else 1}f}{NBSP}%"

    lower, upper = measure.ci
    if measure.value is None:
        unknown = BELOW if found.knows_compute else "not known"
        return unknown if upper is None else f"at most {told(upper)}"
    sides = f"{'…' if lower is None else told(lower)} to {told(upper if upper else 1.0)}"
    return f"{told(measure.value)}\n{sides}"


def _number(measure: Measure) -> str:
    return _with_sides(measure, lambda v: f"{v:.2g}")


def _with_sides(measure: Measure, told: object) -> str:
    assert callable(told)
    lower, upper = measure.ci
    if measure.value is None:
        return "not known" if lower is None else f"at least {told(lower)}"
    if lower is None and upper is None:
        return str(told(measure.value))
    sides = ["…" if side is None or math.isinf(side) else told(side) for side in (lower, upper)]
    return f"{told(measure.value)}\n{sides[0]} to {sides[1]}"
