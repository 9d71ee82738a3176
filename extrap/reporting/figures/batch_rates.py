"""The best learning rate against batch size: by size, and beside the rules that claim to know."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from extrap.batching import RateLaw, TaskResult
from extrap.reporting.figures.canvas import colour, ramp
from extrap.reporting.figures.marks import draw_legend_above
from extrap.reporting.figures.scales import positions, set_log_axis
from extrap.reporting.numbers import name_size

__all__ = [
    "BatchRates",
    "batch_rates_info",
    "draw_rate_rules",
    "draw_rates_by_size",
]

N_CURVE = 40
DASHES = {
    "linear": (0, (6, 2)),
    "square-root": (0, (1, 1.5)),
    "constant": (0, (8, 3, 1.5, 3)),
    "saturating": (0, (4, 2)),
    "surge": (0, (3, 2, 1, 2)),
}
REJECTED = "✗"
SHADES = {"linear": 0.0, "square-root": 0.35, "constant": 0.55, "saturating": 0.75, "surge": 1.0}
"""Rule → place on the colour ramp of tuned values."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchRates:
    """Best rates of a task.

    Attributes:
        sizes: Sizes that have a law of the rate, the smallest first.
        points: One row a size and batch: `size` (its place), `target`, `x`, `lr`, `lower`,
            `upper`: one standard error either side.
        curve: The free law of each size: `size`, `x`, `lr`, `lower`, `upper` (of the law).
        rules: The rules at the largest size: `name`, `x`, `lr`, `holds` (True, False or None).
        level: Of the band.
    """

    sizes: tuple[Mapping[str, float], ...]
    points: pd.DataFrame
    curve: pd.DataFrame
    rules: pd.DataFrame
    level: float


def batch_rates_info(result: TaskResult) -> BatchRates | None:
    """Gather the best rates at the target each law was fitted to; None if there is no law."""
    if not result.rate_laws:
        return None
    names = list(result.task.study.sizes)
    keys = sorted(result.rate_laws)
    points, curves = [], []
    for place, key in enumerate(keys):
        law = result.rate_laws[key]
        own = result.rates[(result.rates[names] == list(key)).all(axis=1)]
        for row in own.itertuples():
            points.append(
                {
                    "size": place,
                    "target": row.target,
                    "x": float(row.batch_size),
                    "lr": row.lr_opt,
                    "lower": row.lr_opt * math.exp(-row.lr_se),
                    "upper": row.lr_opt * math.exp(row.lr_se),
                }
            )
        for batch in _along(own["batch_size"]):
            found = law.at(batch)
            curves.append(
                {
                    "size": place,
                    "x": batch,
                    "lr": found.value,
                    "lower": math.nan if found.ci.lower is None else found.ci.lower,
                    "upper": math.nan if found.ci.upper is None else found.ci.upper,
                }
            )
    frame = pd.DataFrame(points)
    last = result.rate_laws[keys[-1]]
    return BatchRates(
        sizes=tuple(dict(zip(names, key, strict=True)) for key in keys),
        points=frame,
        curve=pd.DataFrame(curves),
        rules=_rules(last, _along(frame.loc[frame["size"] == len(keys) - 1, "x"])),
        level=last.level,
    )


def _along(batches: pd.Series) -> list[float]:
    return [float(b) for b in np.geomspace(batches.min(), batches.max(), N_CURVE)]


def _rules(law: RateLaw, batches: list[float]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"name": rule.name, "x": batch, "lr": rule.at(batch), "holds": rule.holds}
            for rule in law.rules
            for batch in batches
            if rule.name != "free"
        ]
    )


def draw_rates_by_size(ax: Axes, info: BatchRates) -> None:
    """Optima of every size with the free law of each."""
    places = positions(range(1, 1 + len(info.sizes)))
    for i, size in enumerate(info.sizes):
        ink = ramp("size", places[i + 1])
        curve = info.curve[info.curve["size"] == i]
        ax.plot(curve["x"], curve["lr"], color=ink, lw=1.6)
        _draw_optima(ax, info.points[info.points["size"] == i], ink, name_size(size))
    _set_axes(ax, info.points)


def draw_rate_rules(ax: Axes, info: BatchRates) -> None:
    """Optima of the largest size, the free law with its band, the rules dashed."""
    last = len(info.sizes) - 1
    curve = info.curve[info.curve["size"] == last]
    ax.fill_between(
        curve["x"], curve["lower"], curve["upper"], color=colour("law"), alpha=0.2, lw=0
    )
    sns.lineplot(
        x=curve["x"],
        y=curve["lr"],
        ax=ax,
        color=colour("law"),
        lw=2.2,
        errorbar=None,
        label="free exponent",
        legend=False,
    )
    for name, dashes in DASHES.items():
        rule = info.rules[info.rules["name"] == name]
        ax.plot(
            rule["x"],
            rule["lr"],
            color=ramp("tuned", SHADES[name]),
            lw=1.5,
            ls=dashes,
            label=f"{name} {REJECTED}" if rule["holds"].eq(other=False).any() else name,
        )
    points = info.points[info.points["size"] == last]
    _draw_optima(ax, points, colour("ink"), "")
    _set_axes(ax, points)


def _draw_optima(ax: Axes, points: pd.DataFrame, ink: str, label: str) -> None:
    ax.vlines(points["x"], points["lower"], points["upper"], color=ink, lw=1.2, zorder=5)
    ax.scatter(
        points["x"],
        points["lr"],
        color=ink,
        s=34,
        edgecolor=colour("paper"),
        linewidth=0.8,
        zorder=6,
        label=label or None,
    )


def _set_axes(ax: Axes, points: pd.DataFrame) -> None:
    set_log_axis(ax, "x", points["x"], label="batch size, examples")
    ends = [*points["lower"], *points["upper"]]
    set_log_axis(ax, "y", ends, label="best learning rate", pad=0.1)
    draw_legend_above(ax, columns=3, handle=1.9)
