"""Tables of the tuned values one might use instead: known rules, and values that are kept."""

from __future__ import annotations

from collections.abc import Mapping

from extrap.fitting import RULES
from extrap.forecasting import Forecast
from extrap.reporting.forecast_tables import stacked
from extrap.reporting.glossary import RULE_NAMES
from extrap.reporting.numbers import (
    NBSP,
    format_cost,
    format_cost_interval,
    format_quantity,
    name_size,
)
from extrap.reporting.tables import Table

__all__ = ["rules_table", "transfer_table"]


def rules_table(forecast: Forecast, size: Mapping[str, float]) -> Table | None:
    """What known rules say at a size and what following them is expected to cost; or None."""
    known = {rule.key: rule for rule in RULES}
    rows = [
        (
            RULE_NAMES.get(row.rule, row.rule),
            f"{row.tuned}{NBSP}= {format_quantity(row.value)}",
            f"{row.octaves:+.2f}".replace("-", "−"),
            format_cost(row.expected_regret),
            f"{known[row.rule].formula.replace('-', '−')}\n{known[row.rule].reference}",
        )
        for row in forecast.rules(**size)
    ]
    if not rows:
        return None
    return Table(
        caption=f"Known rules at {name_size(size)}, the cheapest first",
        columns=(
            "rule",
            "value",
            "octaves from forecast",
            "expected regret",
            "formula and source",
        ),
        rows=tuple(rows),
        note=(
            "Expected regret: extra loss over that of a tuned run, averaged over the uncertainty "
            "of the optimum. v_0 is the optimum at the smallest size."
        ),
    )


def transfer_table(forecast: Forecast, size: Mapping[str, float]) -> Table | None:
    """How well the values of the largest swept size would do at a size untuned; or None."""
    level = f"{100 * forecast.level:g}{NBSP}%"
    rows = [
        (
            f"{q.tuned}{NBSP}= {format_quantity(q.kept)}",
            name_size(q.kept_from),
            f"{q.octaves:+.2f}".replace("-", "−"),
            f"{format_cost(q.penalty)}\n{format_cost_interval(q.penalty_pi)}",
            stacked(q.robustness, q.robustness_pi),
            stacked(q.fit_error, q.fit_error_ci),
        )
        for q in forecast.transfer(**size)
    ]
    if not rows:
        return None
    return Table(
        caption=f"Values of the largest swept size, kept at {name_size(size)} ({level} intervals)",
        columns=(
            "kept",
            "tuned at",
            "octaves from forecast",
            "extra loss",
            f"octaves within 1{NBSP}% of loss",
            "scatter of optima, octaves",
        ),
        rows=tuple(rows),
        note=(
            "Three measures of transfer (Kalra, Barkeshli 2026, arXiv 2605.21486): what keeping "
            "the value costs, how wide the range of harmless values is, and how far one optimum "
            "lies from its law. An octave is a factor of two."
        ),
    )
