"""Tune hyperparameters at small model sizes, forecast the large run, and check it.

Each public name is imported on first use, so
`import extrap` takes milliseconds and a forecast from a table needs no training library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from extrap.analyses.allocation import allocate
    from extrap.analyses.batch_size import critical_batch
    from extrap.analyses.best_values import best_values
    from extrap.analyses.cascade import cascade
    from extrap.analyses.comparison import compare
    from extrap.analyses.selection import choose_next, select
    from extrap.checking.monitoring import Monitor
    from extrap.errors import DataError, ExtrapError, FitError, StudyError
    from extrap.fitting.loss_law import fit
    from extrap.fitting.regressor import LawRegressor
    from extrap.forecasting import Forecast, forecast
    from extrap.forecasting.backtesting import backtest
    from extrap.forecasting.documents import load_forecast, save_forecast
    from extrap.forecasting.mistuning_cost import cost
    from extrap.forecasting.planning import plan
    from extrap.noise import noise_scale
    from extrap.reading import read_runs
    from extrap.records import (
        Command,
        Interval,
        Point,
        Recipe,
        Runs,
        StudySpec,
        Target,
        TunedRange,
        Verdict,
        Workload,
    )
    from extrap.reporting.forecast_page import report
    from extrap.reporting.plots import plot_backtest
    from extrap.reporting.verdicts import check
    from extrap.study.driver import tune
    from extrap.training import NoiseMeter, coordinate_check

__all__ = [
    "Command",
    "DataError",
    "ExtrapError",
    "FitError",
    "Forecast",
    "Interval",
    "LawRegressor",
    "Monitor",
    "NoiseMeter",
    "Point",
    "Recipe",
    "Runs",
    "StudyError",
    "StudySpec",
    "Target",
    "TunedRange",
    "Verdict",
    "Workload",
    "__version__",
    "allocate",
    "backtest",
    "best_values",
    "cascade",
    "check",
    "choose_next",
    "compare",
    "coordinate_check",
    "cost",
    "critical_batch",
    "fit",
    "forecast",
    "load_forecast",
    "noise_scale",
    "plan",
    "plot_backtest",
    "read_runs",
    "report",
    "save_forecast",
    "select",
    "tune",
]

__version__: str

_HOMES = {
    "allocate": "analyses.allocation",
    "backtest": "forecasting.backtesting",
    "best_values": "analyses.best_values",
    "cascade": "analyses.cascade",
    "check": "reporting.verdicts",
    "compare": "analyses.comparison",
    "cost": "forecasting.mistuning_cost",
    "critical_batch": "analyses.batch_size",
    "LawRegressor": "fitting.regressor",
    "fit": "fitting.loss_law",
    "Monitor": "checking.monitoring",
    "noise_scale": "noise",
    "plan": "forecasting.planning",
    "plot_backtest": "reporting.plots",
    "read_runs": "reading",
    "report": "reporting.forecast_page",
    "tune": "study.driver",
    **dict.fromkeys(("NoiseMeter", "coordinate_check"), "training"),
    **dict.fromkeys(("Forecast", "forecast"), "forecasting"),
    **dict.fromkeys(("choose_next", "select"), "analyses.selection"),
    **dict.fromkeys(("load_forecast", "save_forecast"), "forecasting.documents"),
    **dict.fromkeys(("DataError", "ExtrapError", "FitError", "StudyError"), "errors"),
}


def __getattr__(name: str) -> object:
    """Import a public name on first use; a name without an entry is a record."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "__version__":
        value: object = _installed_version()
    else:
        try:
            value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'records')}"), name)
        except ModuleNotFoundError as error:  # help() and inspect pass over an AttributeError
            from extrap import installing

            raise AttributeError(
                f"{__name__}.{name} needs {error.name}, which is not installed; "
                f"{installing.how_to_install(error.name or '')}"
            ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def _installed_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("extrap-hp")
    except PackageNotFoundError:  # a source tree that was never installed
        return "0+unknown"
