"""The plates of a comparison of recipes: pictures with their words and the tables behind them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from extrap.reporting.comparison_findings import GroupFindings
from extrap.reporting.comparison_tables import differences_table, losses_table, worth_table
from extrap.reporting.figures import (
    draw_recipe_losses,
    draw_recipe_worth,
    draw_size_differences,
    draw_svg,
    recipe_losses_info,
    recipe_worth_info,
    size_differences_info,
)
from extrap.reporting.numbers import NBSP, name_size
from extrap.reporting.plates import Plate

__all__ = ["group_panels", "group_plates"]

WIDE, NARROW, PANEL = (880, 480), (390, 430), (480, 380)


def group_plates(found: GroupFindings, key: str) -> tuple[Plate, ...]:
    """The tuned losses of a group over size, across the page; `key` keeps its ids apart."""
    info = None if found.comparison is None else recipe_losses_info(found)
    if info is None:
        return ()
    level, arms = _level(info.level), ", ".join(info.arms)
    label = f"Tuned loss against {info.axis.column} of {arms}, with laws and bands."
    words = [
        "Strong marks: the tuned loss; faint: each seed at the best values tried. "
        f"Lines and bands: the fitted laws ({level}). Shaded: the sizes measured. Open marks: "
        "the laws at the target."
    ]
    without = [arm for arm in info.arms if arm not in set(info.curve["arm"])]
    if without:
        words.append(f"No law to draw for {', '.join(without)}.")
    if len(info.observed):
        words.append("Crosses: what was trained at the target afterwards.")
    words.append(info.axis.note)
    return (
        Plate(
            title="",
            svg=_drawn(draw_recipe_losses, info, WIDE, f"{key}losses", label),
            narrow_svg=_drawn(
                partial(draw_recipe_losses, columns=2), info, NARROW, f"{key}lossesn", label
            ),
            text=" ".join(filter(None, words)),
            tables=(losses_table(info),),
        ),
    )


def group_panels(found: GroupFindings, key: str) -> tuple[Plate, ...]:
    """The differences by size, and what they are worth, side by side."""
    comparison = found.comparison
    if comparison is None:
        return ()
    plates = []
    differences = size_differences_info(found)
    if differences is not None:
        level = _level(differences.level)
        words = (
            f"Below 0 is better than {comparison.plain}, pair by pair of seeds. Bars: {level} "
            f"intervals. Open marks: forecast at {name_size(comparison.target)}."
        )
        if len(found.checks):
            words += " Crosses: measured there afterwards."
        plates.append(
            Plate(
                title="The difference over size",
                svg=_drawn(
                    draw_size_differences,
                    differences,
                    PANEL,
                    f"{key}differences",
                    f"Difference of loss against {differences.axis.column}, in percent.",
                ),
                text=words,
                tables=(differences_table(comparison),),
            )
        )
    worth, table = recipe_worth_info(comparison), worth_table(comparison)
    if worth is not None and table is not None:
        plates.append(
            Plate(
                title="What it is worth in compute",
                svg=_drawn(
                    draw_recipe_worth,
                    worth,
                    (PANEL[0], min(PANEL[1], 110 + 60 * len(worth.rows))),
                    f"{key}worth",
                    "Compute that the plain recipe needs for the same loss, a row a run.",
                ),
                text="Right of 1 the treatment saves compute. Bars: "
                f"{_level(worth.level)} intervals; an arrow: no bound on that side.",
                tables=(table,),
            )
        )
    return tuple(plates)


def _drawn(
    draw: Callable[..., None], info: Any, shape: tuple[int, int], key: str, label: str
) -> str:
    width, height = shape
    return draw_svg(partial(_swap, draw, info), width=width, height=height, key=key, label=label)


def _swap(draw: Callable[..., None], info: Any, ax: Any) -> None:
    draw(ax, info)


def _level(level: float) -> str:
    return f"{100 * level:g}{NBSP}%"
