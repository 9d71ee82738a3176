"""Plates: a picture with its words and the tables behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from extrap.backtesting import Backtest
from extrap.forecasting import Forecast
from extrap.reporting.backtests import holdouts_table, summary_table, tuned_sentences
from extrap.reporting.figure_tables import (
    cells_table,
    law_table,
    local_table,
    pair_tables,
    progress_table,
    story_tables,
    trend_table,
)
from extrap.reporting.figures import (
    CurvesAtSize,
    HeldOut,
    LawStory,
    LocalSweep,
    OptimumPair,
    OptimumTrend,
    draw_curves,
    draw_heat_map,
    draw_held_out,
    draw_law_story,
    draw_local_sweep,
    draw_loss_by_size,
    draw_loss_by_tuned,
    draw_optimum_pair,
    draw_optimum_trend,
    draw_svg,
    held_out_info,
    optimum_trend_info,
    sweep_info,
)
from extrap.reporting.groups import RunGroup
from extrap.reporting.numbers import NBSP, format_quantity, name_size, name_tuned
from extrap.reporting.sizes import SizeAxis
from extrap.reporting.tables import Table

__all__ = [
    "Plate",
    "backtest_plate",
    "local_plates",
    "pair_plate",
    "progress_plates",
    "story_plate",
    "sweep_plates",
]

PANEL = (480, 360)
MANY_VALUES = 3
"""Tuned values that tell where the best of a larger size lies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plate:
    """A picture, or two drawings of the same for wide and narrow pages.

    Attributes:
        title: A heading; may be empty.
        svg: Inline SVG.
        narrow_svg: The same for narrow pages; empty if one serves all.
        text: What to see in it.
        tables: The numbers behind it.
    """

    title: str
    svg: str
    narrow_svg: str = ""
    text: str = ""
    tables: tuple[Table, ...] = ()


def story_plate(info: LawStory, *, key: str = "story", metric: str = "loss") -> Plate:
    """The law of the optimum, beside the law at fixed values where there is one.

    Args:
        info: What to draw.
        key: Prefix of the pictures' ids, unique within the page.
        metric: What the loss is called.
    """
    fixed = name_tuned(info.fixed.tuned) if info.fixed else ""
    label = (
        f"{metric.capitalize()} against {info.axis.column}: the law of the optimum with its bands"
        + (f", the law at {fixed}" if fixed else "")
        + f", and {len(info.judged)} judged runs."
    )

    def draw(width: int, height: int, columns: int, own_key: str) -> str:
        return draw_svg(
            lambda ax: draw_law_story(ax, info, columns=columns, fixed_label=fixed, metric=metric),
            width=width,
            height=height,
            key=own_key,
            label=label,
        )

    text = "Shaded: the sizes the sweep covers. Right of it everything is extrapolated."
    return Plate(
        title="",
        svg=draw(880, 540, 3, key),
        narrow_svg=draw(390, 560, 1, f"{key}narrow"),
        text=f"{text} {info.axis.note}".strip(),
        tables=(law_table(info), *story_tables(info)),
    )


def pair_plate(i: int, info: OptimumPair, *, names: tuple[str, str]) -> Plate:
    """The optima of a tuned column in two sweeps; `i` keeps its ids apart from others."""
    title = f"Best {info.tuned} against {info.axis.column}"

    def draw(width: int, height: int, columns: int, own_key: str) -> str:
        return draw_svg(
            lambda ax: draw_optimum_pair(ax, info, names=names, columns=columns),
            width=width,
            height=height,
            key=own_key,
            label=f"{title} in {names[0]} and {names[1]}: optima and laws with their bands.",
        )

    level = f"{100 * info.sweep.level:g}{NBSP}%"
    words = [
        f"Shaded: sizes of the sweep. Bands ({level}): dark, the law; light, the optimum of one "
        f"size. Bars: {level} of each fitted optimum."
    ]
    if any(trend.optima["value"].isna().any() for trend in (info.sweep, info.baseline)):
        words.append("Triangles point to where an optimum lies that the grid does not enclose.")
    for name, trend in zip(names, (info.sweep, info.baseline), strict=True):
        if trend.curve.empty:
            words.append(f"{name} has no law of the best {info.tuned} to draw.")
    words.append(info.axis.note)
    return Plate(
        title=title,
        svg=draw(880, 440, 2, f"baseline{i}"),
        narrow_svg=draw(390, 440, 1, f"baseline{i}narrow"),
        text=" ".join(filter(None, words)),
        tables=tuple(pair_tables(info, names=names)),
    )


def backtest_plate(found: Backtest) -> Plate:
    """The held-out sizes against their forecasts."""
    info = held_out_info(found)
    width, height = PANEL
    svg = draw_svg(
        lambda ax: draw_held_out(ax, info),
        width=width,
        height=height,
        key="backtest",
        label="Held-out sizes: how far off the forecast and the last value, by distance.",
    )
    words = " ".join([*_held_out_words(info), *tuned_sentences(found)])
    return Plate(
        title="", svg=svg, text=words, tables=(summary_table(found), holdouts_table(found))
    )


def _held_out_words(info: HeldOut) -> list[str]:
    level = f"{100 * info.level:g}{NBSP}%"
    sentences = [
        "Zero is the forecast made without the held-out size.",
        f"Bars: where it expected that size's loss ({level}: the law's uncertainty, and the noise "
        "of the loss it is held against).",
        "Dots: what the whole sweep shows there.",
        "Diamonds: the same loss against the last value, that of the largest size fitted.",
    ]
    if len(info.points) > info.points["ratio"].nunique():
        sentences.append("Marks at equal distances stand side by side.")
    if info.n_cut:
        n = info.n_cut
        what = "bars reach" if n > 1 else "bar reaches"
        sentences.append(f"{n} {what} beyond the picture, with an arrow at that end.")
    return sentences


def sweep_plates(
    forecast: Forecast, groups: Sequence[RunGroup], axis: SizeAxis
) -> tuple[Plate, ...]:
    """Metz' four panels; those that need a tuned value only where one was tuned."""
    tuned = forecast.runs.tuned
    info = sweep_info(forecast, axis, tuned[0] if tuned else None)
    column, name = axis.column, tuned[0] if tuned else ""
    behind = (cells_table(info),)
    words = "Thick line: at the fitted optima." if tuned else "Thick line: the mean."
    words = f"{words} {info.note}".strip()
    plates = [_panel("a", f"Loss against {column}", draw_loss_by_size, info, behind, words)]
    if not tuned:
        return tuple(plates)
    same = "The numbers are those of (a)."
    diverged = " Crosses: diverged." if len(info.diverged) else ""
    if len(info.limits):
        diverged += " Dashed: where one run in ten and one in two diverges."
    plates += [
        _panel(
            "b",
            f"Loss against {name}",
            draw_loss_by_tuned,
            info,
            (),
            f"Diamonds: fitted optima. {same}",
        ),
        _panel(
            "c",
            f"Loss over {name} and {column}",
            draw_heat_map,
            info,
            (),
            f"Line: fitted optima.{diverged} {same}",
        ),
    ]
    for i, each in enumerate(tuned):
        trend = optimum_trend_info(forecast, groups, axis, each)
        letter = "d" if len(tuned) == 1 else f"d{i + 1}"
        title = f"Best {each} against {column}"
        words = _trend_words(trend)
        plates.append(
            _panel(letter, title, draw_optimum_trend, trend, (trend_table(trend),), words)
        )
    return tuple(plates)


def _trend_words(info: OptimumTrend) -> str:
    words = "Shaded: sizes of the sweep."
    if not info.curve.empty:
        level = f"{100 * info.level:g}{NBSP}%"
        words += f" Bands ({level}): dark, the law; light, the optimum of one size."
        words += f" Bars: {level} of each fitted optimum, its grid's spacing allowed for."
    if not info.rules.empty:
        words += " Thin dashed lines: known rules, of which those without a constant of their own "
        words += "start at the smallest size's optimum."
    if info.optima["value"].isna().any():
        words += " Triangles point to where an optimum lies that the grid does not enclose."
    if len(info.judged):
        words += " Crosses: values larger runs were made at."
    if info.judged["best"].any():
        words += " Star: the best of at least three."
    return words


def _panel(
    letter: str,
    title: str,
    draw: Callable[[Any, Any], None],
    info: Any,
    tables: tuple[Table, ...],
    text: str = "",
) -> Plate:
    width, height = PANEL
    svg = draw_svg(
        lambda ax: draw(ax, info),
        width=width,
        height=height,
        key=f"panel{letter}",
        label=f"{title}.",
    )
    return Plate(title=f"({letter}) {title}", svg=svg, text=text, tables=tables)


def _swap(draw: Callable[[Any, Any], None], info: Any, ax: Any) -> None:
    draw(ax, info)


def local_plates(sweeps: Sequence[LocalSweep]) -> tuple[Plate, ...]:
    """One plate for each larger size that was tried at several values."""
    width, height = PANEL
    plates = []
    for i, info in enumerate(sweeps):
        title = f"{info.tuned} at {name_size(info.size)}"
        svg = draw_svg(
            partial(_swap, draw_local_sweep, info),
            width=width,
            height=height + 40,
            key=f"local{i}",
            label=f"Loss against {title}, with the valley the forecast expected.",
        )
        plates.append(
            Plate(title=title, svg=svg, text=_local_words(info), tables=(local_table(info),))
        )
    return tuple(plates)


def progress_plates(sizes: Sequence[CurvesAtSize]) -> tuple[Plate, ...]:
    """One plate for each size whose judged runs have curves."""
    width, height = PANEL
    plates = []
    for i, info in enumerate(sizes):
        title = f"On the way at {name_size(info.size)}"
        svg = draw_svg(
            partial(_swap, draw_curves, info),
            width=width,
            height=height,
            key=f"progress{i}",
            label=f"{title}: loss curves of the runs on the band of tuned ones.",
        )
        plates.append(
            Plate(title=title, svg=svg, text=_progress_words(info), tables=(progress_table(info),))
        )
    return tuple(plates)


def _progress_words(info: CurvesAtSize) -> str:
    shown = info.runs["run"].nunique()
    level = f"{100 * info.level:g}{NBSP}%"
    words = f"Band: where a tuned run's curve lies ({level} at each point)."
    if shown < info.n_runs:
        words += f" The {shown} of {info.n_runs} runs that end farthest from the forecast."
    return words


def _local_words(info: LocalSweep) -> str:
    n_values = info.means["x"].nunique()
    tried = f"{n_values} value{'s' * (n_values > 1)} of {info.tuned} tried here."
    if n_values < MANY_VALUES:
        return (
            f"{tried} Dotted: the loss expected at each value; shaded: where the forecast expects "
            "the best."
        )
    if info.octaves is None:
        best = format_quantity(info.best)
        return (
            f"{tried} The lowest mean loss, at {best}, lies at an end of them or in no clear "
            "valley, so the distance from the forecast cannot be told."
        )
    error = "" if info.octaves_se is None else f" ± {info.octaves_se:.2f}"
    side = "below" if info.octaves < 0 else "above"
    factor = 2 ** abs(info.octaves)
    return (
        f"{tried} The best lies {abs(info.octaves):.2f}{error} octaves {side} the forecast, a "
        f"factor of {factor:.2f} (vertex of a parabola through the mean log losses near the "
        "lowest; an octave is a factor of two). Shaded: where the forecast expected it."
    )
