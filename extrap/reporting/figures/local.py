"""A larger size tried at several rates: how far is the best from the forecast?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from extrap.fitting.optimum import GRID_FLOOR
from extrap.forecasting import Forecast
from extrap.records import Interval
from extrap.reporting.figures.canvas import colour
from extrap.reporting.figures.marks import draw_judged
from extrap.reporting.figures.scales import set_log_axis
from extrap.reporting.groups import NEAR, RunGroup, judged_sizes, verdict_kind

__all__ = ["LocalSweep", "draw_local_sweep", "local_sweeps_info", "parabola_vertex"]

MOST = 6
"""Pictures at most."""
AROUND = 4.0
"""Octaves around the forecast within which a run belongs to the local sweep."""
WINDOW = 1.25
"""Octaves around the best mean loss that the parabola sees."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalSweep:
    """Judged runs of one size at several values of one tuned column.

    Attributes:
        size: Size column → value.
        tuned: The tuned column.
        forecast: Its forecast value.
        forecast_pi: Where the optimum was expected to fall.
        runs: `x` (tuned value), `loss`, `kind`, one row a run.
        means: `x`, `loss`, mean over seeds.
        valley: `x`, `loss`: the valley the forecast expects; empty where it expects none.
        octaves: log2(best / forecast); None where the best lies at an end of the values tried.
        octaves_se: Its standard error: over seeds, and a fraction of the grid; None with one seed.
        best: The value with the lowest mean loss.
    """

    size: Mapping[str, float]
    tuned: str
    forecast: float
    forecast_pi: Interval
    runs: pd.DataFrame
    means: pd.DataFrame
    valley: pd.DataFrame
    octaves: float | None
    octaves_se: float | None
    best: float


def local_sweeps_info(forecast: Forecast, groups: Sequence[RunGroup]) -> tuple[LocalSweep, ...]:
    """Every size and tuned column with a value around the forecast; the largest sizes only."""
    found = []
    for size in judged_sizes(groups):
        for name in forecast.runs.tuned:
            here = _around(forecast, groups, size, name)
            if here:
                found.append(_local_sweep(forecast, here, size, name))
    return tuple(found[-MOST:])


def parabola_vertex(octaves: Sequence[float], log_loss: Sequence[float]) -> float | None:
    """Minimum of a least-squares parabola near the lowest point; None if that is at an end."""
    u, y = np.asarray(octaves, dtype=float), np.asarray(log_loss, dtype=float)
    lowest = u[np.argmin(y)]
    if lowest in (u.min(), u.max()):
        return None
    near = np.abs(u - lowest) <= WINDOW
    if near.sum() < 3:
        near = np.argsort(np.abs(u - lowest))[:3]
    a, b, _ = np.polyfit(u[near], y[near], 2)
    if a <= 0:
        return None
    return float(np.clip(-b / (2 * a), u.min(), u.max()))


def _around(
    forecast: Forecast, groups: Sequence[RunGroup], size: Mapping[str, float], name: str
) -> list[RunGroup]:
    centre = {n: e.value for n, e in forecast.at(**size).tuned.items()}
    if any(value is None for value in centre.values()):
        return []
    kept = []
    for group in groups:
        if dict(group.size) != dict(size) or not group.losses:
            continue
        values = {n: v for n, v in group.tuned.items() if v is not None}
        if set(values) != set(centre):
            continue
        distance = {n: abs(math.log2(v / (centre[n] or 1.0))) for n, v in values.items()}
        if distance[name] <= AROUND and all(d <= NEAR for n, d in distance.items() if n != name):
            kept.append(group)
    return kept


def _local_sweep(
    forecast: Forecast, groups: list[RunGroup], size: Mapping[str, float], name: str
) -> LocalSweep:
    estimate = forecast.at(**size).tuned[name]
    centre = estimate.value or math.nan
    rows = [
        (float(g.tuned[name] or math.nan), v.loss, verdict_kind(v), str(v.seed))
        for g in groups
        for v in g.verdicts
        if v.loss is not None
    ]
    runs = pd.DataFrame(rows, columns=["x", "loss", "kind", "seed"]).astype({"loss": float})
    means = runs.groupby("x", as_index=False)["loss"].mean()
    vertex = parabola_vertex(np.log2(means["x"] / centre), np.log(means["loss"]))
    return LocalSweep(
        size=dict(size),
        tuned=name,
        forecast=centre,
        forecast_pi=estimate.pi,
        runs=runs[["x", "loss", "kind"]],
        means=means,
        valley=_valley(forecast, size, name, means),
        octaves=vertex,
        octaves_se=None if vertex is None else _spread_over_seeds(runs, centre),
        best=float(means.loc[means["loss"].idxmin(), "x"]),
    )


def _spread_over_seeds(runs: pd.DataFrame, centre: float) -> float | None:
    vertices = []
    for _, rows in runs.groupby("seed"):
        if rows["x"].nunique() >= 3:
            vertices.append(parabola_vertex(np.log2(rows["x"] / centre), np.log(rows["loss"])))
    known = [v for v in vertices if v is not None]
    if len(known) < 2 or len(known) < len(vertices):
        return None
    spacing = float(np.diff(np.log2(np.unique(runs["x"]))).min())
    return math.hypot(np.std(known, ddof=1) / math.sqrt(len(known)), GRID_FLOOR * spacing)


def _valley(
    forecast: Forecast, size: Mapping[str, float], name: str, means: pd.DataFrame
) -> pd.DataFrame:
    point = forecast.at(**size)
    centre = {n: e.value or 1.0 for n, e in point.tuned.items()}
    low = min(means["x"].min(), centre[name] / 2)
    high = max(means["x"].max(), centre[name] * 2)
    rows = []
    for value in np.geomspace(low, high, 60):
        excess = forecast.predict_excess(size, {**centre, name: float(value)})
        if excess is not None and point.loss is not None:
            rows.append((float(value), point.loss * math.exp(excess)))
    return pd.DataFrame(rows, columns=["x", "loss"], dtype=float)


def draw_local_sweep(ax: Axes, info: LocalSweep) -> None:
    """Loss against the tuned value at one larger size, with the valley that was expected."""
    low, high = info.forecast_pi
    if low is not None and high is not None:
        ax.axvspan(low, high, color=colour("law"), alpha=0.12, lw=0)
    ax.axvline(info.forecast, color=colour("law"), lw=1.5, label="forecast")
    if not info.valley.empty:
        sns.lineplot(
            x=info.valley["x"],
            y=info.valley["loss"],
            ax=ax,
            ls=":",
            lw=2,
            color=colour("law"),
            errorbar=None,
            label="expected loss",
            legend=False,
        )
    sns.lineplot(
        x=info.means["x"],
        y=info.means["loss"],
        ax=ax,
        color=colour("muted"),
        lw=1.2,
        errorbar=None,
        label="mean over seeds",
        legend=False,
    )
    draw_judged(ax, info.runs)
    xs = [*info.runs["x"], *info.valley["x"], *(b for b in info.forecast_pi if b)]
    set_log_axis(ax, "x", xs, label=info.tuned)
    set_log_axis(ax, "y", [*info.runs["loss"], *info.valley["loss"]], label="loss")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, borderaxespad=0.2)
