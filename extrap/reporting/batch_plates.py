"""The plates of a batch study: pictures with their words and the tables behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from extrap.batching import BatchFindings
from extrap.reporting.batch_figure_tables import (
    batch_front_tables,
    batch_steps_table,
    noise_courses_table,
    noise_pairs_table,
    rates_points_table,
)
from extrap.reporting.figures import (
    batch_rates_info,
    batch_steps_info,
    draw_batch_front,
    draw_batch_steps,
    draw_noise_by_loss,
    draw_noise_course,
    draw_noise_pairs,
    draw_rate_rules,
    draw_rates_by_size,
    draw_svg,
    forecast_front_info,
    measured_front_info,
    noise_courses_info,
    noise_pairs_info,
)
from extrap.reporting.numbers import NBSP, name_size
from extrap.reporting.plates import Plate

__all__ = [
    "course_plate",
    "front_plates",
    "loss_plates",
    "pairs_plate",
    "rate_plates",
    "steps_plates",
]

Draw = Callable[..., None]
PANEL = (480, 380)
NARROW_COLUMNS = 3
WIDE, NARROW = (880, 440), (390, 420)


def steps_plates(findings: Sequence[BatchFindings]) -> tuple[Plate, ...]:
    """Steps against batch size, a plate a task and size."""
    plates = []
    for i, found in enumerate(findings):
        for j, size in enumerate(found.result.task.study.size_points()):
            info = batch_steps_info(found.result, size)
            if info is None:
                continue
            title = _titled(found, name_size(size), several=len(findings) > 1)
            words = [f"Band: {_level(info.level)} of the curve; bars: fastest and slowest seed."]
            if None not in info.regimes:
                words.append(f"Shaded: the regimes at a loss of {info.targets[-1]:g}.")
            if len(info.held):
                words.append("Open marks: kept from the fit, with the interval predicted there.")
            if len(info.bounds):
                words.append("Triangles: not reached within so many steps.")
            plates.append(
                Plate(
                    title=title,
                    svg=_panel(draw_batch_steps, info, f"steps{i}x{j}", f"Steps: {title}."),
                    text=" ".join(words),
                    tables=(batch_steps_table(info),),
                )
            )
    return tuple(plates)


def front_plates(findings: Sequence[BatchFindings]) -> tuple[Plate, ...]:
    """Time against compute: of each task at its largest size, and where it was forecast."""
    plates = []
    for i, found in enumerate(findings):
        result, several = found.result, len(findings) > 1
        told = [measured_front_info(result, size) for size in result.task.study.size_points()]
        for j, info in enumerate([each for each in told if each is not None][-1:]):
            title = _titled(found, f"{name_size(info.size)}, counted", several=several)
            plates.append(
                Plate(
                    title=title,
                    svg=_panel(draw_batch_front, info, f"front{i}x{j}", f"Front: {title}."),
                    text="Small batches to the upper left, large ones to the lower right. Cross: "
                    "the bend, at the critical batch; dashed: fewest examples, fewest steps. "
                    f"Band: {_level(info.level)} of the curve.",
                    tables=batch_front_tables(info),
                )
            )
        if found.front is not None:
            info = forecast_front_info(found.front, found.checked, level=result.critical.level)
            title = _titled(found, f"{name_size(info.size)}, forecast", several=several)
            seen = "Marks: what was counted there afterwards, at the forecast rates."
            plates.append(
                Plate(
                    title=title,
                    svg=_panel(draw_batch_front, info, f"forecast{i}", f"Front: {title}."),
                    text="Curves: forecast before anything was trained there; band: "
                    f"{_level(info.level)} for one new measurement. "
                    f"{seen if len(info.points) else 'Nothing was counted there yet.'}",
                    tables=batch_front_tables(info),
                )
            )
    return tuple(plates)


def rate_plates(findings: Sequence[BatchFindings]) -> tuple[Plate, ...]:
    """Best rates: of all sizes of a task, and the rules at the largest."""
    plates = []
    for i, found in enumerate(findings):
        info = batch_rates_info(found.result)
        if info is None:
            continue
        task, behind = found.result.task.study.name, (rates_points_table(info),)
        if len(info.sizes) > 1:
            plates.append(
                Plate(
                    title=f"{task}: by size",
                    svg=_panel(draw_rates_by_size, info, f"rates{i}", f"Best rates of {task}."),
                    text="Lines: a power law each. Bars: one standard error of an optimum.",
                    tables=behind,
                )
            )
        where = name_size(info.sizes[-1])
        plates.append(
            Plate(
                title=f"{task}: the rules at {where}",
                svg=_panel(draw_rate_rules, info, f"rules{i}", f"Rules of the rate of {task}."),
                text=f"Band: {_level(info.level)} of the free power law. Dashed: each rule at its "
                "best fit, ✗ rejected. Bars: one standard error.",
                tables=behind if len(info.sizes) == 1 else (),
            )
        )
    return tuple(plates)


def course_plate(findings: Sequence[BatchFindings]) -> Plate | None:
    """The noise scale over training, a line a size or task; None if it was not measured."""
    info = noise_courses_info(findings)
    if info is None:
        return None
    level = _level(findings[0].result.critical.level)
    told = set(info.windows.loc[info.windows["noise_scale"] > 0, "line"])
    blank = [name for i, name in enumerate(info.names) if i not in told]
    missing = f" No window tells it from infinite: {', '.join(blank)}." if blank else ""
    return _plate(
        draw_noise_course,
        info,
        "course",
        label="The noise scale over training, a line a size or task.",
        text=f"Each mark pools a window of the training over all seeds; bands: {level}. Both axes "
        f"are logarithmic.{missing}",
        table=noise_courses_table(info),
    )


def loss_plates(findings: Sequence[BatchFindings]) -> tuple[tuple[BatchFindings, Plate], ...]:
    """The noise scale over the loss, for each task of several sizes."""
    plates = []
    for i, found in enumerate(findings):
        info = noise_courses_info([found])
        if info is None or len(info.names) < 2:
            continue
        plate = _plate(
            draw_noise_by_loss,
            info,
            f"byloss{i}",
            label=f"The noise scale of {found.result.task.study.name} over the loss, by size.",
            text="The same windows over the loss they were measured at. One curve for all sizes "
            "would say that size matters through the loss alone.",
            table=noise_courses_table(info),
        )
        plates.append((found, plate))
    return tuple(plates)


def pairs_plate(findings: Sequence[BatchFindings]) -> Plate | None:
    """Critical batch against mean noise scale; None without a pair that has both."""
    info = noise_pairs_info(findings)
    if info is None or info.pairs[["noise_scale", "b_crit"]].dropna().empty:
        return None
    level = _level(findings[0].result.critical.level)

    label = "Critical batch sizes against mean noise scales, with the line of equality."
    return Plate(
        title="",
        svg=_drawn(draw_noise_pairs, info, (880, 560), "pairs", label),
        narrow_svg=_drawn(_few_columns(draw_noise_pairs), info, (390, 470), "pairsnarrow", label),
        text=f"A mark a task, size and loss; bars: {level} intervals of both; line: equality; "
        "shaded: within a factor of ten. The two are not the same thing: the noise scale is read "
        "off gradients of one batch, the critical batch is counted in tuned runs at many.",
        tables=(noise_pairs_table(info),),
    )


def _plate(draw: Draw, info: Any, key: str, *, label: str, text: str, table: Any) -> Plate:
    return Plate(
        title="",
        svg=_drawn(draw, info, WIDE, key, label),
        narrow_svg=_drawn(_few_columns(draw), info, NARROW, f"{key}narrow", label),
        text=text,
        tables=(table,),
    )


def _few_columns(draw: Draw) -> Draw:
    """The same picture with a legend that fits a narrow page."""
    return partial(draw, columns=NARROW_COLUMNS)


def _panel(draw: Draw, info: Any, key: str, label: str) -> str:
    return _drawn(draw, info, PANEL, key, label)


def _drawn(draw: Draw, info: Any, shape: tuple[int, int], key: str, label: str) -> str:
    width, height = shape
    return draw_svg(partial(_swap, draw, info), width=width, height=height, key=key, label=label)


def _swap(draw: Draw, info: Any, ax: Any) -> None:
    draw(ax, info)


def _titled(found: BatchFindings, where: str, *, several: bool) -> str:
    return f"{found.result.task.study.name}, {where}" if several else where


def _level(level: float) -> str:
    return f"{100 * level:g}{NBSP}%"
