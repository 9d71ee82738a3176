"""The report's charts on axes of your own, for notebooks and papers.

Each function draws charts and returns the figure or the axes. Where it makes a figure it does so
with pyplot, which a notebook shows; it closes nothing, saves nothing and leaves `rcParams` alone.
Colours are those of a light page.
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from extrap.backtesting import Backtest
from extrap.errors import DataError
from extrap.forecasting import Forecast
from extrap.reporting.drawing import plot_chart
from extrap.reporting.forecast_charts import backtest_chart, loss_chart, optimum_chart
from extrap.reporting.sizes import size_axis


def plot_forecast(forecast: Forecast) -> Figure:
    """What `Forecast.plot` draws."""
    from matplotlib import pyplot as plt

    axis = size_axis(forecast)
    charts = [optimum_chart(forecast, (), axis, name) for name in forecast.runs.tuned]
    charts.append(loss_chart(forecast, (), axis))
    figure, axes = plt.subplots(
        1, len(charts), figsize=(5.6 * len(charts), 4.2), layout="constrained", squeeze=False
    )
    for chart, ax in zip(charts, axes[0], strict=True):
        plot_chart(chart, ax)
    return figure


def plot_backtest(found: Backtest, *, ax: Axes | None = None) -> Axes:
    """Draw held-out sizes against their forecasts: how far off, by distance.

    Args:
        found: The backtest.
        ax: Where to draw; by default on a new figure.

    Returns:
        The axes.

    Raises:
        TypeError: It is no backtest.
        DataError: No size could be predicted.
    """
    if not isinstance(found, Backtest):
        raise TypeError(
            f"this chart is drawn of what extrap.backtest returns, got {type(found).__name__}; "
            "write extrap.backtest(runs)."
        )
    if not found.holdouts:
        raise DataError(
            "a backtest is drawn from its predictions, none could be made "
            f"({'; '.join(why for why, _ in found.failures) or 'no reason known'}); add sizes."
        )
    return plot_chart(backtest_chart(found), ax)
