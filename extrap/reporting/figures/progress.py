"""Loss curves of judged runs against the band of tuned ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from extrap.fitting import at_fractions
from extrap.forecasting import Forecast
from extrap.records import Runs, Verdict
from extrap.reporting.figures.canvas import colour
from extrap.reporting.figures.marks import MARKS
from extrap.reporting.figures.scales import set_log_axis
from extrap.reporting.groups import verdict_kind

__all__ = ["CurvesAtSize", "curves_info", "draw_curves"]

MOST_SIZES, MOST_RUNS = 4, 12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurvesAtSize:
    """The curves of one size's runs.

    Attributes:
        size: Size column → value.
        level: Of the band.
        reference: `x` (fraction of training), `loss`, `lower`, `upper`.
        runs: `run`, `x`, `loss`, `kind`, one row a point.
        n_runs: Judged runs of this size that have a curve.
    """

    size: Mapping[str, float]
    level: float
    reference: pd.DataFrame
    runs: pd.DataFrame
    n_runs: int


def curves_info(
    forecast: Forecast, verdicts: Sequence[Verdict], runs: Runs | None
) -> tuple[CurvesAtSize, ...]:
    """The largest sizes whose judged runs have curves, and of each the runs that are most off.

    Args:
        forecast: The forecast; with reference curves, or there is nothing to draw.
        verdicts: One a row of `runs`.
        runs: The judged runs with their curves, or None.
    """
    points = None if runs is None else runs.curves()
    if forecast.curves is None or points is None or points.empty:
        return ()
    by_size: dict[tuple[float, ...], list[int]] = {}
    having = set(points["run"])
    for i, verdict in enumerate(verdicts):
        if i in having and verdict.on_law is not None:
            by_size.setdefault(tuple(verdict.size.values()), []).append(i)
    return tuple(
        _at_size(forecast, verdicts, points, by_size[size])
        for size in sorted(by_size)[-MOST_SIZES:]
    )


def _at_size(
    forecast: Forecast, verdicts: Sequence[Verdict], points: pd.DataFrame, here: list[int]
) -> CurvesAtSize:
    size = verdicts[here[0]].size
    worst = sorted(here, key=lambda i: -_distance(verdicts[i]))[:MOST_RUNS]
    assert forecast.curves is not None
    length = forecast.curves.total_steps or 0.0
    parts = []
    for i in sorted(worst):
        own = points[points["run"] == i].assign(run=0)
        found = at_fractions(own, 1, length=length)
        if found is None:
            continue
        part = pd.DataFrame({"x": found.places, "loss": np.exp(found.table[0])})
        parts.append(part.assign(run=i, kind=verdict_kind(verdicts[i])))
    columns = ["run", "x", "loss", "kind"]
    shown = pd.concat(parts)[columns] if parts else pd.DataFrame(columns=columns)
    return CurvesAtSize(
        size=dict(size),
        level=forecast.level,
        reference=_reference(forecast, size),
        runs=shown.reset_index(drop=True),
        n_runs=len(here),
    )


def _distance(verdict: Verdict) -> float:
    """How far a run ended from the forecast; one without a loss is farthest."""
    return math.inf if verdict.deviation is None else abs(verdict.deviation)


def _reference(forecast: Forecast, size: Mapping[str, float]) -> pd.DataFrame:
    curves, prediction = forecast.curves, forecast.predict_loss(size)
    assert curves is not None
    assert prediction is not None
    mean = curves.mean(prediction.log_loss)
    covariance = curves.predictive_covariance(
        prediction.log_loss,
        law_variance=prediction.curve_log_sd**2,
        octave_sd={name: forecast.octave_sd(name, size) for name in forecast.runs.tuned},
    )
    half = curves.half_width(covariance, forecast.level)
    return pd.DataFrame(
        {
            "x": curves.places,
            "loss": np.exp(mean),
            "lower": np.exp(mean - half),
            "upper": np.exp(mean + half),
        }
    )


def draw_curves(ax: Axes, info: CurvesAtSize) -> None:
    """Loss against the fraction of training; the band, the tuned run expected, the runs."""
    reference = info.reference
    ax.fill_between(
        reference["x"],
        reference["lower"],
        reference["upper"],
        color=colour("law"),
        alpha=0.2,
        lw=0,
        label="tuned runs",
    )
    sns.lineplot(
        x=reference["x"],
        y=reference["loss"],
        ax=ax,
        color=colour("law"),
        lw=2,
        errorbar=None,
        legend=False,
    )
    named: set[str] = set()
    for _, run in info.runs.groupby("run"):
        kind = str(run["kind"].iloc[0])
        marker, ink, label = MARKS[kind]
        ax.plot(
            run["x"],
            run["loss"],
            color=colour(ink),
            marker=marker,
            ms=4.5,
            mec=colour("paper"),
            mew=0.5,
            lw=1.1,
            label=None if kind in named else label,
        )
        named.add(kind)
    set_log_axis(ax, "x", list(reference["x"]), label="fraction of training")
    shown = [*reference["lower"], *reference["upper"], *info.runs["loss"]]
    set_log_axis(ax, "y", shown, label="loss")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, borderaxespad=0.2)
