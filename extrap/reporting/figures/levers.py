"""Levers: the change of the final loss that each makes, with intervals and seed noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from extrap.levers import LeverFinding
from extrap.reporting.figures.canvas import colour

__all__ = ["LeverEffects", "draw_lever_effects", "lever_effects_info"]

INKS = {"lower": "good", "higher": "bad", "alike": "law", "unclear": "muted", "reference": "ink"}
"""Kind of a finding → its colour."""
MARKERS = {"lower": "v", "higher": "^", "alike": "o", "unclear": "o", "reference": "D"}
TALLEST = 3.0
"""The axis shows intervals up to so many times the largest value; the rest is cut off."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeverEffects:
    """What a panel of levers shows.

    Attributes:
        rows: One row a lever, and one a reference below it, of kind `"reference"`: `name`,
            `kind`, `value`, `lower`, `upper`, `noise` in percent of the plain arm's loss; NaN
            where unknown.
        limits: Ends of the axis.
    """

    rows: pd.DataFrame
    limits: tuple[float, float]


def lever_effects_info(findings: Sequence[LeverFinding]) -> LeverEffects:
    """Gather the differences of some levers, relative to their plain arms."""
    rows = pd.DataFrame([row for finding in findings for row in _rows(finding)])
    seen = rows[["value", "noise"]].abs().max(axis=None)
    least = max(float(seen) if np.isfinite(seen) else 0.0, 0.1)
    ends = rows[["lower", "upper", "value"]].fillna(0.0).clip(-TALLEST * least, TALLEST * least)
    noise = rows["noise"].fillna(0.0).max()
    low = min(float(ends.min(axis=None)), -float(noise), -0.1 * least)
    high = max(float(ends.max(axis=None)), float(noise), 0.1 * least)
    pad = 0.06 * (high - low)
    return LeverEffects(rows=rows, limits=(low - pad, high + pad))


def _rows(finding: LeverFinding) -> list[dict[str, object]]:
    base = finding.plain.loss
    scale = math.nan if base is None else 100 / base
    named = [(finding.lever.name, finding.kind, finding.difference, scale)]
    if finding.reference is not None:
        named.append((f"reference: {finding.reference.name}", "reference", finding.gap, -scale))
    return [
        {
            "name": name,
            "kind": kind,
            "value": _scaled(measured.value, factor),
            "lower": _scaled(measured.ci[0], factor),
            "upper": _scaled(measured.ci[1], factor),
            "noise": _scaled(finding.plain.seed_sd, scale),
        }
        for name, kind, measured, factor in named
    ]


def _scaled(value: float | None, scale: float) -> float:
    return math.nan if value is None else value * scale


def draw_lever_effects(ax: Axes, info: LeverEffects) -> None:
    """Mark and interval a lever, over the seed noise of one plain run."""
    for place, row in enumerate(info.rows.itertuples(index=False)):
        if not math.isnan(row.noise):
            ax.barh(place, 2 * row.noise, left=-row.noise, height=0.8, color=colour("shade"), lw=0)
        if math.isnan(row.value):
            ax.annotate(
                "not known",
                (0.0, place),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                color=colour("muted"),
            )
            continue
        ink = colour(INKS[row.kind])
        ax.hlines(place, row.lower, row.upper, color=ink, alpha=0.45, lw=6)
        sns.scatterplot(
            x=[row.value],
            y=[place],
            ax=ax,
            s=70,
            marker=MARKERS[row.kind],
            color=ink,
            edgecolor=colour("paper"),
            linewidth=0.8,
            zorder=5,
            legend=False,
        )
    ax.axvline(0.0, color=colour("muted"), lw=1.0, zorder=1)
    ax.set_xlim(*info.limits)
    ax.set_yticks(range(len(info.rows)), info.rows["name"])
    ax.set_ylim(len(info.rows) - 0.5, -0.5)
    ax.set_xlabel("change of the final loss, %")
    ax.set_ylabel("")
    ax.grid(visible=False, axis="y")
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.xaxis.set_major_formatter(FuncFormatter(_signed))


def _signed(value: float, _: object) -> str:
    return "0" if abs(value) < 1e-9 else f"{value:+.3g}".replace("-", "−")
