"""Cascades: cost against quality of one pair of models, and the cost at equal quality by size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from extrap.cascading import CascadeReport
from extrap.reporting.figures.canvas import colour, ramp

__all__ = [
    "CascadeCosts",
    "CascadeCurves",
    "cascade_costs_info",
    "cascade_curves_info",
    "draw_cascade_costs",
    "draw_cascade_curves",
]

SPREAD = 0.12
"""Distance of marks that share a place."""
WAYS = (
    ("correct", False, "share correct", "law", "o"),
    ("correct", True, "share correct, behind the rule", "good", "D"),
    ("loss", False, "mean loss", "fixed", "s"),
)
"""Outcome, with the rule, its words, colour, marker."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CascadeCurves:
    """Cost against the share correct, of one small model before the large one.

    Attributes:
        points: One row a point: `pair`, `cost`, `difference`, `lower`, `upper` (percentage points
            against the large model), `is_chosen`.
    """

    points: pd.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CascadeCosts:
    """Cost at the large model's quality by small model.

    Attributes:
        names: The small models, smallest first.
        rows: One row a mark: `place`, `way` (place in `WAYS`), `value`, `lower`, `upper`,
            `is_as_good`.
    """

    names: tuple[str, ...]
    rows: pd.DataFrame


def cascade_curves_info(report: CascadeReport) -> CascadeCurves:
    """The curves of the best small model, without a rule."""
    table = report.table
    own = table[
        (table["small"] == report.best.small)
        & (table["outcome"] == "correct")
        & (table["rule"] == 0)
    ]
    points = pd.DataFrame(
        {
            "pair": own["pair"],
            "cost": own["cost"],
            "difference": 100 * own["difference"],
            "lower": 100 * own["difference_lower"],
            "upper": 100 * own["difference_upper"],
            "is_chosen": own["is_chosen"] == 1,
        }
    )
    return CascadeCurves(points=points.sort_values(["pair", "cost"], ignore_index=True))


def cascade_costs_info(report: CascadeReport) -> CascadeCosts:
    """Every small model's cost, by what a quality is."""
    names = tuple(dict.fromkeys(finding.small for finding in report.findings))
    rows = [
        {
            "place": names.index(finding.small),
            "way": way,
            "value": finding.cost.value,
            "lower": finding.cost.ci.lower,
            "upper": finding.cost.ci.upper,
            "is_as_good": finding.is_as_good,
        }
        for way, (outcome, rule, *_) in enumerate(WAYS)
        for finding in report.of(outcome, rule=rule)
    ]
    return CascadeCosts(names=names, rows=pd.DataFrame(rows))


def draw_cascade_curves(ax: Axes, info: CascadeCurves) -> None:
    """A line with its band for every pair of trainings, and the point that was chosen."""
    pairs = list(dict.fromkeys(info.points["pair"]))
    for place, pair in enumerate(pairs):
        ink = ramp("size", place / max(1, len(pairs) - 1))
        own = info.points[info.points["pair"] == pair]
        ax.fill_between(own["cost"], own["lower"], own["upper"], color=ink, alpha=0.15, lw=0)
        sns.lineplot(
            x=own["cost"],
            y=own["difference"],
            ax=ax,
            color=ink,
            lw=1.6,
            label=f"pair {int(pair) + 1}",
            errorbar=None,
        )
        chosen = own[own["is_chosen"]]
        sns.scatterplot(
            x=chosen["cost"],
            y=chosen["difference"],
            ax=ax,
            s=80,
            color=ink,
            edgecolor=colour("ink"),
            zorder=5,
            legend=False,
        )
    ax.axhline(0.0, color=colour("muted"), lw=1.2, zorder=1)
    ax.axvline(1.0, color=colour("muted"), lw=1.2, ls=":", zorder=1)
    ax.set_xlabel("mean cost of an input, the large model alone = 1")
    ax.set_ylabel("share correct against it, points")
    ax.yaxis.set_major_formatter(FuncFormatter(_signed))
    ax.legend(loc="lower right")


def draw_cascade_costs(ax: Axes, info: CascadeCosts) -> None:
    """A mark with its interval for every small model and way; hollow where quality was lost."""
    for way, (_, _, label, ink, marker) in enumerate(WAYS):
        own = info.rows[info.rows["way"] == way]
        if own.empty:
            continue
        x = own["place"] + SPREAD * (way - 1)
        ax.vlines(x, own["lower"], own["upper"], color=colour(ink), alpha=0.45, lw=5)
        for is_good, face in ((True, colour(ink)), (False, colour("paper"))):
            marks = own["is_as_good"].to_numpy(bool) == is_good
            ax.scatter(
                x[marks],
                own["value"][marks],
                marker=marker,
                s=55,
                color=face,
                edgecolor=colour(ink),
                linewidth=1.4,
                zorder=4,
            )
        ax.scatter([], [], marker=marker, s=55, color=colour(ink), label=label)
    ax.axhline(1.0, color=colour("muted"), lw=1.2, ls=":", zorder=1)
    ax.set_xticks(np.arange(len(info.names)), info.names)
    ax.set_xlim(-0.6, len(info.names) - 0.4)
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("small model")
    ax.set_ylabel("cost at the large model's quality")
    ax.grid(visible=False, axis="x")
    ax.legend(loc="lower left", title="quality")


def _signed(value: float, _: object) -> str:
    return "0" if abs(value) < 1e-9 else f"{value:+.3g}".replace("-", "−")
