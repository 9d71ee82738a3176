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
    from extrap.analyses.coordinates import coordinate_check
    from extrap.analyses.landing import Landing, judge_landing, land, save_landing
    from extrap.analyses.selection import choose_next, select
    from extrap.analyses.sweep.page import report
    from extrap.analyses.sweep.plots import plot_backtest
    from extrap.analyses.sweep.verdicts import check
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
    from extrap.study.driver import tune
    from extrap.training import NoiseMeter

__all__ = [
    "Command",
    "DataError",
    "ExtrapError",
    "FitError",
    "Forecast",
    "Interval",
    "Landing",
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
    "judge_landing",
    "land",
    "load_forecast",
    "noise_scale",
    "plan",
    "plot_backtest",
    "read_runs",
    "report",
    "save_forecast",
    "save_landing",
    "select",
    "tune",
]

__version__: str

_HOMES = {
    "fit": "fitting.loss_law",
    "LawRegressor": "fitting.regressor",
    "Monitor": "checking.monitoring",
    "backtest": "forecasting.backtesting",
    "cost": "forecasting.mistuning_cost",
    "noise_scale": "noise",
    "plan": "forecasting.planning",
    "read_runs": "reading",
    "tune": "study.driver",
    "NoiseMeter": "training",
    **dict.fromkeys(("Forecast", "forecast"), "forecasting"),
    **dict.fromkeys(("load_forecast", "save_forecast"), "forecasting.documents"),
    **dict.fromkeys(("DataError", "ExtrapError", "FitError", "StudyError"), "errors"),
}
"""Name → where it is, of the engines; a name without an entry is a record or of an analysis."""


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "__version__":
        value: object = _installed_version()
    else:
        try:
            value = getattr(import_module(f"{__name__}.{_home_of(name)}"), name)
        except ModuleNotFoundError as error:  # help() and inspect pass over an AttributeError
            from extrap import installing

            raise AttributeError(
                f"{__name__}.{name} needs {error.name}, which is not installed; "
                f"{installing.how_to_install(error.name or '')}"
            ) from error
    globals()[name] = value
    return value


def _home_of(name: str) -> str:
    """The module of a public name."""
    if name in _HOMES:
        return _HOMES[name]
    if name in import_module(f"{__name__}.records").__all__:
        return "records"
    from extrap import registry

    return registry.home_of(name)


def __dir__() -> list[str]:
    return sorted(__all__)


def _installed_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("extrap-hp")
    except PackageNotFoundError:  # a source tree that was never installed
        return "0+unknown"
