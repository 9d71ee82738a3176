"""What a notebook shows of a result: the text that its command prints."""

from __future__ import annotations

from html import escape

from extrap.backtesting import Backtest
from extrap.comparing import Comparison
from extrap.files import as_written
from extrap.forecasting import Forecast
from extrap.planning import Allocation, Cost, Plan
from extrap.reporting.allocations_page import allocation_text
from extrap.reporting.comparisons_page import comparison_text
from extrap.reporting.costs import cost_text
from extrap.reporting.plans import plan_text
from extrap.reporting.terminal import backtest_text, forecast_text


def notebook_html(result: object) -> str:
    """The text of a result as HTML: all of it is escaped, hidden characters are spelled out."""
    return f"<pre>{escape(as_written(_text(result)))}</pre>"


def _text(result: object) -> str:
    match result:
        case Forecast():
            return forecast_text(result, [result.at(**size) for size in result.default_targets()])
        case Backtest():
            return backtest_text(result)
        case Comparison():
            return comparison_text(result)
        case Allocation():
            return allocation_text(result)
        case Plan():
            return plan_text(result)
        case Cost():
            return cost_text(result)
    return repr(result)
