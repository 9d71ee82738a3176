"""The report's charts on axes of your own, for notebooks and papers.

Each function draws one chart of a forecast or backtest and returns the axes. Without `ax` it
makes a figure with pyplot, which a notebook shows; it closes nothing, saves nothing and leaves
`rcParams` alone. Colours are those of a light page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from extrap.backtesting import Backtest
from extrap.errors import DataError
from extrap.forecasting import Forecast
from extrap.records import Verdict
from extrap.reporting.drawing import plot_chart
from extrap.reporting.forecast_charts import (
    backtest_chart,
    loss_chart,
    optimum_chart,
    sweep_chart,
)
from extrap.reporting.judged_groups import group_verdicts, judged_sizes
from extrap.reporting.sizes import size_axis

T = TypeVar("T")


def plot_forecast(forecast: Forecast, verdicts: Sequence[Verdict] = ()) -> Figure:
    """Draw the two figures of a report: the best value and the loss against size, side by side.

    Args:
        forecast: The forecast.
        verdicts: What `check` said of larger runs; they are drawn too.

    Returns:
        The matplotlib figure.
    """
    from matplotlib import pyplot as plt

    names = _checked(forecast, Forecast).runs.tuned
    figure, axes = plt.subplots(
        1,
        1 + len(names),
        figsize=(5.6 * (1 + len(names)), 4.2),
        layout="constrained",
        squeeze=False,
    )
    for name, ax in zip(names, axes[0], strict=False):
        plot_optimum(forecast, name, verdicts, ax=ax)
    plot_law(forecast, verdicts, ax=axes[0][-1])
    return figure


def plot_law(
    forecast: Forecast,
    verdicts: Sequence[Verdict] = (),
    *,
    fixed: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the law of the loss with its band, the optima it was fitted to, and judged runs.

    Args:
        forecast: The forecast.
        verdicts: What `check` said of larger runs; they are drawn, and the axis reaches to them.
        fixed: Whether to draw the loss expected at the smallest size's tuned values too.
        ax: Where to draw; by default on a new figure.

    Returns:
        The axes.

    Example:
        >>> import extrap
        >>> ax = extrap.plot_law(extrap.forecast("examples/sweep.csv"))  # doctest: +SKIP
    """
    groups = group_verdicts(verdicts)
    _checked(forecast, Forecast)
    chart = loss_chart(forecast, groups, size_axis(forecast, judged_sizes(groups)))
    if not fixed:
        chart = replace(chart, series=tuple(s for s in chart.series if s.label != "kept"))
    return plot_chart(chart, ax)


def plot_optimum(
    forecast: Forecast,
    tuned: str | None = None,
    verdicts: Sequence[Verdict] = (),
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw how the optimum of a tuned value moves with size, with its band.

    Args:
        forecast: The forecast.
        tuned: The tuned column; the first by default.
        verdicts: What `check` said of larger runs; the values they were made at are marked.
        ax: Where to draw; by default on a new figure.

    Raises:
        ValueError: Nothing was tuned, or not that column.
    """
    name = _tuned_column(forecast, tuned)
    if name is None:
        raise ValueError(
            "an optimum needs a tuned column, this forecast has none; read the runs with tune=…."
        )
    groups = group_verdicts(verdicts)
    axis = size_axis(forecast, judged_sizes(groups))
    return plot_chart(optimum_chart(forecast, groups, axis, name), ax)


def plot_sweep(
    forecast: Forecast,
    tuned: str | None = None,
    *,
    against: str = "tuned",
    ax: Axes | None = None,
) -> Axes:
    """Draw the sweep behind a forecast: the loss of its runs, and the fitted optima.

    Args:
        forecast: The forecast.
        tuned: The tuned column; the first by default.
        against: `"tuned"`, one line per size; `"size"`, one line per tuned value; `"both"`, a map
            of the loss over the two.
        ax: Where to draw; by default on a new figure. A colour bar takes room from it.

    Raises:
        ValueError: `against` is another word, or no such column was tuned.
        DataError: No run of the sweep has a loss on the path that is drawn.
    """
    name = _tuned_column(forecast, tuned)
    allowed = ["size", "tuned", "both"] if name else ["size"]
    if against not in allowed:
        raise ValueError(
            f"a sweep is drawn against one of {', '.join(allowed)}, got {against!r}"
            f"{'' if name else '; nothing was tuned'}."
        )
    return plot_chart(sweep_chart(forecast, size_axis(forecast), name, against=against), ax)


def plot_backtest(found: Backtest, *, ax: Axes | None = None) -> Axes:
    """Draw held-out sizes against their forecasts: how far off, by distance.

    Args:
        found: The backtest.
        ax: Where to draw; by default on a new figure.

    Raises:
        DataError: No size could be predicted.
    """
    if not _checked(found, Backtest).holdouts:
        raise DataError(
            "a backtest is drawn from its predictions, none could be made "
            f"({'; '.join(why for why, _ in found.failures) or 'no reason known'}); add sizes."
        )
    return plot_chart(backtest_chart(found), ax)


def _checked(value: T, kind: type[T]) -> T:
    """What a chart is drawn of.

    Raises:
        TypeError: It is of another kind.
    """
    if not isinstance(value, kind):
        made_by = f"extrap.{kind.__name__.lower()}"
        raise TypeError(
            f"this chart is drawn of what {made_by} returns, got {type(value).__name__}; write "
            f"{made_by}(runs)."
        )
    return value


def _tuned_column(forecast: Forecast, tuned: str | None) -> str | None:
    names = _checked(forecast, Forecast).runs.tuned
    if tuned is not None and tuned not in names:
        raise ValueError(
            f"the tuned columns are {', '.join(names) or 'none'}, got {tuned!r}; name one of them."
        )
    return tuned or (names[0] if names else None)
