"""Allocations: loss against parameters at every budget, and the best split against the budget."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from extrap.planning import Allocation
from extrap.reporting.figures.canvas import colour, ramp
from extrap.reporting.numbers import format_quantity

__all__ = [
    "IsoflopProfiles",
    "SplitCourse",
    "draw_isoflop_profiles",
    "draw_split_course",
    "isoflop_profiles_info",
    "split_course_info",
]

INKS = {"parametric": "law", "isoflop": "good", "envelope": "muted"}
"""Estimator → its colour."""
WORDS = {
    "parametric": "law fitted to all runs",
    "isoflop": "minima of the profiles",
    "envelope": "envelope of losses",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IsoflopProfiles:
    """Loss against parameters.

    Attributes:
        points: One row a size and budget: `flops`, `params`, `loss`.
        optima: The smallest of each budget by the answer's estimator: `flops`, `params`, `loss`.
        checked: Runs at the budget that was checked: `params`, `loss`, `is_recommended`.
        target: That budget.
    """

    points: pd.DataFrame
    optima: pd.DataFrame
    checked: pd.DataFrame
    target: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SplitCourse:
    """Best parameters against the budget, by every estimator.

    Attributes:
        runs: `flops`, `params`, `loss` of every size and budget.
        lines: One row an estimator and budget: `estimator`, `flops`, `params`, `lower`, `upper`.
        checked: `flops`, `params`, `is_recommended` of the splits that were checked.
        fitted: Smallest and largest budget of the profiles.
    """

    runs: pd.DataFrame
    lines: pd.DataFrame
    checked: pd.DataFrame
    fitted: tuple[float, float]


def isoflop_profiles_info(
    optima: pd.DataFrame, course: dict[float, Allocation], runs: pd.DataFrame, target: float
) -> IsoflopProfiles:
    """Gather the profiles, the best split at each budget, and the runs of the check.

    Args:
        optima: `params`, `tokens`, `loss` at every size and length.
        course: Budget → its split.
        runs: Runs of the check: `params`, `loss`, `is_recommended`.
        target: Their budget.
    """
    points = _with_budget(optima, course)
    best = pd.DataFrame(
        [
            {"flops": flops, "params": found.params.value, "loss": found.loss.value}
            for flops, found in course.items()
        ]
    ).astype(float)
    return IsoflopProfiles(points=points, optima=best, checked=runs, target=target)


def split_course_info(
    optima: pd.DataFrame, course: dict[float, Allocation], found: Allocation, runs: pd.DataFrame
) -> SplitCourse:
    """Gather the lines of the estimators from the smallest budget to the one that is checked."""
    rows = [
        {
            "estimator": name,
            "flops": flops,
            "params": estimated.params.value,
            "lower": estimated.params.ci.lower,
            "upper": estimated.params.ci.upper,
        }
        for flops, split in (*course.items(), (found.flops, found))
        for name, estimated in split.estimators.items()
    ]
    checked = runs.drop_duplicates("params")[["params", "is_recommended"]]
    return SplitCourse(
        runs=_with_budget(optima, course),
        lines=pd.DataFrame(rows),
        checked=checked.assign(flops=found.flops),
        fitted=(min(course), max(course)),
    )


def _with_budget(optima: pd.DataFrame, course: dict[float, Allocation]) -> pd.DataFrame:
    """Points with a loss, each at the nearest budget."""
    points = optima.dropna(subset=["loss"])
    budgets = np.array(sorted(course))
    own = np.log(6 * points["params"].to_numpy() * points["tokens"].to_numpy())
    nearest = np.abs(np.log(budgets)[None, :] - own[:, None]).argmin(axis=1)
    return points.assign(flops=budgets[nearest]).sort_values(["flops", "params"])


def draw_isoflop_profiles(ax: Axes, info: IsoflopProfiles) -> None:
    """A line a budget, the fitted minimum on it, and the runs of the check."""
    budgets = sorted(set(info.points["flops"]))
    for place, flops in enumerate(budgets):
        ink = ramp("size", place / max(1, len(budgets) - 1))
        own = info.points[info.points["flops"] == flops]
        sns.lineplot(
            x=own["params"],
            y=own["loss"],
            ax=ax,
            color=ink,
            marker="o",
            markeredgecolor=colour("paper"),
            label=f"{flops:.2g} FLOPs",
            errorbar=None,
        )
    ax.scatter(
        info.optima["params"],
        info.optima["loss"],
        marker="D",
        s=46,
        color=colour("paper"),
        edgecolor=colour("law"),
        linewidth=1.6,
        zorder=5,
        label="best split by the law",
    )
    for is_chosen, ink, words in (
        (True, "law", f"{info.target:.2g} FLOPs, recommended"),
        (False, "fixed", f"{info.target:.2g} FLOPs, others"),
    ):
        own = info.checked[info.checked["is_recommended"] == is_chosen]
        ax.scatter(
            own["params"], own["loss"], marker="^", s=38, color=colour(ink), label=words, zorder=6
        )
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(FuncFormatter(_quantity))
    ax.xaxis.set_minor_formatter(FuncFormatter(_few))
    ax.set_xlabel("parameters without embeddings")
    ax.set_ylabel("loss at the best rate, nats")
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def draw_split_course(ax: Axes, info: SplitCourse) -> None:
    """Runs coloured by their loss, the estimators' lines with bands, the splits checked."""
    ax.axvspan(*info.fitted, color=colour("shade"), lw=0, zorder=0)
    low, high = info.runs["loss"].min(), info.runs["loss"].max()
    inks = [ramp("tuned", (loss - low) / max(high - low, 1e-9)) for loss in info.runs["loss"]]
    ax.scatter(info.runs["flops"], info.runs["params"], s=70, color=inks, zorder=2)
    for name, own in info.lines.groupby("estimator", sort=False):
        ink = colour(INKS[str(name)])
        ax.fill_between(own["flops"], own["lower"], own["upper"], color=ink, alpha=0.14, lw=0)
        ax.plot(own["flops"], own["params"], color=ink, lw=1.8, label=WORDS[str(name)], zorder=3)
    for is_chosen, ink in ((True, "law"), (False, "fixed")):
        own = info.checked[info.checked["is_recommended"] == is_chosen]
        words = "recommended, trained" if is_chosen else "others, trained"
        ax.scatter(
            own["flops"], own["params"], marker="^", s=60, color=colour(ink), label=words, zorder=5
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(FuncFormatter(_quantity))
    ax.yaxis.set_minor_formatter(FuncFormatter(_few))
    ax.xaxis.set_major_formatter(FuncFormatter(_flops))
    ax.xaxis.set_minor_formatter(FuncFormatter(_few_flops))
    ax.set_xlabel("budget C, FLOPs")
    ax.set_ylabel("parameters N")
    ax.legend(loc="upper left")


def _quantity(value: float, _: object) -> str:
    return format_quantity(value)


def _flops(value: float, _: object) -> str:
    return f"{value:.0e}".replace("e+", "e")


def _few_flops(value: float, _: object) -> str:
    return _flops(value, _) if _few(value, _) else ""


def _few(value: float, _: object) -> str:
    """Labels at 2 and 5 between powers of ten."""
    digit = round(value / 10 ** np.floor(np.log10(value)))
    return format_quantity(value) if digit in (2, 5) else ""
