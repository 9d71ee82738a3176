"""The blocks of any result: what its command prints and what a notebook shows."""

from __future__ import annotations

from html import escape
from importlib import import_module

from extrap.files import as_written
from extrap.reporting.blocks import Block
from extrap.reporting.text import blocks_text

BLOCKS = {
    "Allocation": "allocations_page.allocation_blocks",
    "Backtest": "backtests.backtest_blocks",
    "Cascade": "cascades.cascade_blocks",
    "Comparison": "comparisons_page.comparison_blocks",
    "Cost": "costs.cost_blocks",
    "CriticalBatches": "critical_batches.critical_blocks",
    "Forecast": "forecast_page.forecast_blocks",
    "Plan": "plans.plan_blocks",
    "Sensitivity": "sensitivity_page.sensitivity_blocks",
}
"""Class of a result → the function that makes its blocks, imported when it is needed."""


def blocks_of(result: object) -> list[Block]:
    """The blocks of a result, the answer first.

    Raises:
        KeyError: Nothing says what is shown of such an object.
    """
    module, _, function = BLOCKS[type(result).__name__].partition(".")
    found: list[Block] = getattr(import_module(f"extrap.reporting.{module}"), function)(result)
    return found


def result_text(result: object) -> str:
    """What the command prints of a result; hidden characters are spelled out."""
    return as_written(blocks_text(blocks_of(result)))


def notebook_html(result: object) -> str:
    """The same as HTML, all of it escaped."""
    return f"<pre>{escape(result_text(result))}</pre>"
