"""The report's charts on axes of your own, for notebooks and papers.

A new figure is made with pyplot, which a notebook shows. `rcParams` are the user's own and stay as
they are; colours of marks are those of a light page.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from extrap.analyses.sweep.charts import backtest_chart, loss_chart, optimum_chart
from extrap.analyses.sweep.sizes import size_axis
from extrap.errors import DataError
from extrap.forecasting import Forecast
from extrap.forecasting.backtesting import Backtest
from extrap.reporting.drawing import plot_charts


def plot_forecast(forecast: Forecast, ax: Axes | Sequence[Axes] | None = None) -> Figure:
    """What `Forecast.plot` draws."""
    axis = size_axis(forecast)
    charts = [loss_chart(forecast, (), axis)]
    if isinstance(ax, Axes):
        return plot_charts(charts, [ax])
    charts = [optimum_chart(forecast, (), axis, name) for name in forecast.runs.tuned] + charts
    if ax is None:
        return plot_charts(charts)
    axes = np.asarray(ax, dtype=object).ravel().tolist()
    if len(axes) != len(charts):
        raise ValueError(
            f"ax must be one of matplotlib's axes, which shows the loss, or {len(charts)} of "
            f"them, got {len(axes)}."
        )
    return plot_charts(charts, axes)


def plot_backtest(backtest: Backtest, *, ax: Axes | None = None) -> Axes:
    """Draw held-out sizes against their forecasts: how far off, by distance.

    Args:
        backtest: The backtest.
        ax: Where to draw; by default on a new figure.

    Returns:
        The axes.

    Raises:
        TypeError: It is no backtest.
        DataError: No size could be predicted.
    """
    if not isinstance(backtest, Backtest):
        raise TypeError(
            f"this chart is drawn of what extrap.backtest returns, got {type(backtest).__name__}; "
            "write extrap.backtest(runs)."
        )
    if not backtest.holdouts:
        raise DataError(
            "a backtest is drawn from its predictions, none could be made "
            f"({'; '.join(why for why, _ in backtest.failures) or 'no reason known'}); add sizes."
        )
    return plot_charts([backtest_chart(backtest)], None if ax is None else [ax]).axes[0]
