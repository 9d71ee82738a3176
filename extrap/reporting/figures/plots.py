"""The report's pictures on axes of your own, for notebooks and papers.

Each function draws one picture of a forecast or backtest and returns the axes. Without `ax` it
makes a figure with pyplot, which a notebook shows; it closes nothing, saves nothing and leaves
`rcParams` alone. Colours are for the paper the axes have, light or dark; names of columns are
never read as mathematics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.text import Text

from extrap.backtesting import Backtest
from extrap.errors import DataError
from extrap.forecasting import Forecast
from extrap.records import Verdict
from extrap.reporting.figures.backtests import draw_held_out, held_out_info
from extrap.reporting.figures.canvas import inked
from extrap.reporting.figures.laws import draw_law_story, fixed_law_info, law_story_info
from extrap.reporting.figures.sweep import (
    draw_heat_map,
    draw_loss_by_size,
    draw_loss_by_tuned,
    sweep_info,
)
from extrap.reporting.figures.trend import draw_optimum_trend, optimum_trend_info
from extrap.reporting.groups import group_verdicts, judged_sizes
from extrap.reporting.numbers import name_tuned
from extrap.reporting.sizes import size_axis

__all__ = ["plot_backtest", "plot_law", "plot_optimum", "plot_sweep"]

WIDE_IN = 8.0
"""Inches of axes above which a legend has room in columns above them."""
SIZE_IN = {"law": (9.0, 5.5), "panel": (6.4, 4.8)}
PANELS: dict[str, Callable[..., None]] = {
    "size": draw_loss_by_size,
    "tuned": draw_loss_by_tuned,
    "both": draw_heat_map,
}
"""What the loss of a sweep is drawn against."""


def plot_law(
    forecast: Forecast,
    verdicts: Sequence[Verdict] = (),
    *,
    fixed: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the law of the loss with its bands, the optima under it, and judged runs.

    Args:
        forecast: The forecast.
        verdicts: What `check` said of larger runs; they are drawn, and the axis reaches to them.
        fixed: Whether to draw the law at the smallest size's tuned values beside it.
        ax: Where to draw; by default on a new figure.

    Returns:
        The axes.

    Example:
        >>> import extrap
        >>> runs = extrap.read_runs("examples/sweep.csv", size="width", tune="lr")
        >>> ax = extrap.plot_law(extrap.forecast(runs))  # doctest: +SKIP
    """
    groups = group_verdicts(verdicts)
    axis = size_axis(forecast, judged_sizes(groups))
    law = fixed_law_info(forecast, axis) if fixed else None
    info = law_story_info(forecast, groups, axis, law)
    label = name_tuned(law.tuned) if law else ""

    def draw(own: Axes) -> None:
        draw_law_story(own, info, columns=3, fixed_label=label)
        if _width(own) < WIDE_IN:
            own.legend(fontsize="x-small", loc="best")

    return _drawn(draw, ax, "law")


def plot_optimum(
    forecast: Forecast,
    tuned: str | None = None,
    verdicts: Sequence[Verdict] = (),
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw how the optimum of a tuned value moves with size, with its bands and known rules.

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
    info = optimum_trend_info(forecast, groups, axis, name)
    return _drawn(lambda own: draw_optimum_trend(own, info), ax, "panel")


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
        against: `"tuned"`, one line a size; `"size"`, one line a tuned value; `"both"`, a map of
            the loss over the two.
        ax: Where to draw; by default on a new figure. A colour bar takes room from it.

    Raises:
        ValueError: `against` is another word, or no such column was tuned.
        DataError: No run of the sweep has a loss on the path that is drawn.
    """
    name = _tuned_column(forecast, tuned)
    allowed = list(PANELS) if name else ["size"]
    if against not in allowed:
        raise ValueError(
            f"a sweep is drawn against one of {', '.join(allowed)}, got {against!r}"
            f"{'' if name else '; nothing was tuned'}."
        )
    info = sweep_info(forecast, size_axis(forecast), name)
    if info.cells.empty:
        raise DataError("a sweep is drawn from runs with a loss, got none; look at forecast.runs.")
    return _drawn(lambda own: PANELS[against](own, info), ax, "panel")


def plot_backtest(found: Backtest, *, ax: Axes | None = None) -> Axes:
    """Draw sizes that were held out against what was said of them: how far off, by distance.

    Args:
        found: The backtest.
        ax: Where to draw; by default on a new figure.

    Raises:
        DataError: No size could be predicted.
    """
    if not found.holdouts:
        raise DataError(
            "a backtest is drawn from its predictions, none could be made "
            f"({'; '.join(why for why, _ in found.failures) or 'no reason known'}); add sizes."
        )
    info = held_out_info(found)
    return _drawn(lambda own: draw_held_out(own, info), ax, "panel")


def _tuned_column(forecast: Forecast, tuned: str | None) -> str | None:
    names = forecast.runs.tuned
    if tuned is not None and tuned not in names:
        raise ValueError(
            f"the tuned columns are {', '.join(names) or 'none'}, got {tuned!r}; name one of them."
        )
    return tuned or (names[0] if names else None)


def _drawn(draw: Callable[[Axes], None], ax: Axes | None, size: str) -> Axes:
    """Run a draw function on these axes or new ones."""
    if ax is None:
        from matplotlib import pyplot as plt

        _, ax = plt.subplots(figsize=SIZE_IN[size], layout="constrained")
    before = {id(axes) for axes in ax.figure.axes} - {id(ax)}
    with inked("dark" if _is_dark(ax) else "light"):
        draw(ax)
    for axes in ax.figure.axes:
        if id(axes) not in before:  # these, and a colour bar beside them
            for text in axes.findobj(Text):
                text.set_parse_math(False)
    return ax


def _is_dark(ax: Axes) -> bool:
    """Whether the paper is dark: Rec. 601 luma below one half."""
    red, green, blue, alpha = to_rgba(ax.get_facecolor())
    if alpha == 0:
        red, green, blue, _ = to_rgba(ax.figure.get_facecolor())
    return 0.299 * red + 0.587 * green + 0.114 * blue < 0.5


def _width(ax: Axes) -> float:
    """Width in inches."""
    return float(ax.get_window_extent().width / ax.figure.dpi)
