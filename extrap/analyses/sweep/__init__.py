"""The main question: which values and which loss for a larger run, and is it on course?

* `check` — larger runs against the forecast.
* `report` — all of it on one page.
* `plot_backtest` — held-out sizes against their forecasts.

The numbers are in `extrap.forecasting` and `extrap.checking`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extrap.on_first_use import on_first_use
from extrap.registry import Analysis

if TYPE_CHECKING:
    from extrap.analyses.sweep.page import report
    from extrap.analyses.sweep.plots import plot_backtest
    from extrap.analyses.sweep.verdicts import check

__all__ = [
    "ANALYSIS",
    "check",
    "plot_backtest",
    "report",
]

ANALYSIS = Analysis(
    package=__name__,
    blocks={
        "Backtest": "backtest_page.backtest_blocks",
        "Cost": "cost_page.cost_blocks",
        "Forecast": "page.forecast_blocks",
        "Plan": "plan_page.plan_blocks",
        "Timescale": "horizon_page.timescale_blocks",
    },
    kinds={"STUDY": "study"},
    commands={
        "Forecast": "command.forecast_command command.plan_command command.cost_command",
        "Check": "command.backtest_command command.check_command command.watch_command",
        "Reports": "report_command.report_command",
    },
    pages={"report": "forecast"},
    meanings="flags.MEANINGS",
)

__getattr__ = on_first_use(
    __name__,
    {
        "page": "report",
        "plots": "plot_backtest",
        "verdicts": "check",
    },
)
