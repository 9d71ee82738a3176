"""The story in one figure: a law at one fixed value, and the law of the optimum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from extrap.errors import DataError, ExtrapError
from extrap.fitting import fit, predict_log, relative_sizes
from extrap.forecasting import Forecast
from extrap.records import Fit
from extrap.reporting.figures.canvas import colour
from extrap.reporting.figures.marks import MARKS, draw_bands, draw_judged, judged_points
from extrap.reporting.figures.scales import set_log_axis
from extrap.reporting.groups import RunGroup
from extrap.reporting.sizes import SizeAxis

__all__ = [
    "FIXED_SPAN",
    "FixedLaw",
    "LawStory",
    "draw_law_story",
    "fixed_law_info",
    "law_story_info",
]

FIXED_SPAN = 4.0
"""The fixed-value law is fitted to sizes within this factor of the smallest, as Metz did."""

_FIXED_LABELS = (
    "those values, as the forecast expects",
    "sweep at those values: fitted",
    "sweep at those values: not fitted",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FixedLaw:
    """A law of the loss at tuned values that never change.

    Attributes:
        tuned: The tuned values: of the sweep's grid, nearest to the optimum of the smallest size.
        fit: Power law through the smallest sizes.
        points: `x`, `loss` (mean over seeds), `fitted`: what the sweep shows at these values.
        line: `x`, `loss`: the fitted law.
        expected: `x`, `loss`, `lower`, `upper`: what the forecast expects of a run at these
            values, with its interval; may be empty.
    """

    tuned: Mapping[str, float]
    fit: Fit
    points: pd.DataFrame
    line: pd.DataFrame
    expected: pd.DataFrame

    def at(self, size: Mapping[str, float]) -> float:
        """The loss the fixed-value law predicts at a size."""
        return float(np.exp(predict_log(self.fit, relative_sizes(self.fit, size))[0][0]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LawStory:
    """What the figure shows.

    Attributes:
        axis: The horizontal axis.
        curve: `x`, `loss` and its bands along the axis; empty without a law of the loss.
        optima: `x`, `loss`, `loss_se` of the tuned sizes.
        fixed: The law at fixed tuned values, or None.
        judged: `x`, `loss`, `kind`, one row a judged run.
        level: Level of the bands.
    """

    axis: SizeAxis
    curve: pd.DataFrame
    optima: pd.DataFrame
    fixed: FixedLaw | None
    judged: pd.DataFrame
    level: float


def law_story_info(
    forecast: Forecast, groups: Sequence[RunGroup], axis: SizeAxis, fixed: FixedLaw | None
) -> LawStory:
    """Gather the curves and points of the story."""
    values = axis.values()
    curve = pd.DataFrame()
    if forecast.loss_laws:
        curve = forecast.frame(axis.at(v) for v in values).assign(x=values)
        curve = curve[["x", *(c for c in curve if str(c).startswith("loss"))]]
    shown = [o for o in forecast.optima if axis.holds(o.size)]
    optima = pd.DataFrame(
        [(o.size[axis.column], o.loss or o.best_loss, o.loss_se) for o in shown],
        columns=["x", "loss", "loss_se"],
        dtype=float,
    )
    return LawStory(
        axis=axis,
        curve=curve,
        optima=optima.dropna(subset="loss"),
        fixed=fixed,
        judged=judged_points([g for g in groups if axis.holds(g.size)], axis.column),
        level=forecast.level,
    )


def fixed_law_info(forecast: Forecast, axis: SizeAxis) -> FixedLaw | None:
    """The law at the values tuned at the smallest size, or None where the sweep cannot show it."""
    names = list(forecast.runs.tuned)
    frame = axis.select(forecast.runs.complete().to_frame())
    if not names or frame.empty:
        return None
    tuned = _nearest_cell(forecast, frame, names, axis)
    if tuned is None:
        return None
    here = frame[np.logical_and.reduce([np.isclose(frame[n], v) for n, v in tuned.items()])]
    points = here.groupby(axis.column, as_index=False)["loss"].mean()
    points = points.rename(columns={axis.column: "x"}).astype(float)
    points["fitted"] = points["x"] <= FIXED_SPAN * axis.low * (1 + 1e-9)
    fitted = points[points["fitted"]]
    sizes = [axis.at(x) for x in fitted["x"]]
    try:
        law = fit("power", {axis.column: [s[axis.column] for s in sizes]}, list(fitted["loss"]))
    except ExtrapError:
        return None
    x = axis.values()
    log_loss = [predict_log(law, relative_sizes(law, {axis.column: v}))[0][0] for v in x]
    return FixedLaw(
        tuned=tuned,
        fit=law,
        points=points,
        line=pd.DataFrame({"x": x, "loss": np.exp(log_loss)}),
        expected=_expected(forecast, tuned, axis),
    )


def _nearest_cell(
    forecast: Forecast, frame: pd.DataFrame, names: list[str], axis: SizeAxis
) -> dict[str, float] | None:
    """The values tried at the smallest size that lie nearest to its optimum."""
    smallest = frame[np.isclose(frame[axis.column], axis.low)]
    if smallest.empty:
        return None
    optimum = next(o for o in forecast.optima if axis.holds(o.size))
    cells = smallest.groupby(names)["loss"].mean().reset_index()
    best = {name: optimum.tuned[name].value for name in names}
    if any(value is None for value in best.values()):
        nearest = cells.loc[cells["loss"].idxmin()]
    else:
        distance = sum(np.log2(cells[n] / (best[n] or 1.0)) ** 2 for n in names)
        nearest = cells.loc[pd.Series(distance).idxmin()]
    return {name: float(nearest[name]) for name in names}


def _expected(forecast: Forecast, tuned: Mapping[str, float], axis: SizeAxis) -> pd.DataFrame:
    """Loss the optimum's law and the valley together expect at fixed values."""
    x = axis.values()[::2]
    x = x if x[-1] == axis.high else [*x, axis.high]
    try:
        found = forecast.frame_at_values((axis.at(value) for value in x), tuned=tuned)
    except DataError:  # no law of the loss or of an optimum, or no valley
        return pd.DataFrame(columns=["x", "loss", "lower", "upper"], dtype=float)
    found = found.rename(columns={"loss_pi_lower": "lower", "loss_pi_upper": "upper"})
    return found.assign(x=x)[["x", "loss", "lower", "upper"]]


def draw_law_story(
    ax: Axes, info: LawStory, *, columns: int = 3, fixed_label: str = "", metric: str = "loss"
) -> None:
    """Draw both laws, what they were fitted to, and the judged runs."""
    ax.axvspan(info.axis.low, info.axis.tuned_high, color=colour("shade"), lw=0, zorder=0)
    shown = [*info.optima["loss"], *info.judged["loss"].dropna()]
    if not info.curve.empty:
        shown += _draw_bands(ax, info)
    if info.fixed is not None:
        shown += _draw_fixed(ax, info.fixed, fixed_label)
    ax.errorbar(
        info.optima["x"],
        info.optima["loss"],
        yerr=info.optima["loss_se"].fillna(0.0),
        fmt="o",
        ms=5.5,
        color=colour("law"),
        mec=colour("paper"),
        zorder=5,
        label="tuned, from the sweep (± se)",
    )
    draw_judged(ax, info.judged)
    set_log_axis(ax, "x", [info.axis.low, info.axis.high], label=info.axis.column, pad=0.03)
    set_log_axis(ax, "y", shown, label=metric)
    _draw_legend(ax, columns)


def _draw_legend(ax: Axes, columns: int) -> None:
    """A legend above the axes; side by side, each column holds one of the three subjects."""
    handles, labels = ax.get_legend_handles_labels()
    shapes = {label for _, _, label in MARKS.values()}
    subjects: list[list[int]] = [[], [], []]
    for i, label in enumerate(labels):
        fixed = label in _FIXED_LABELS or label.startswith("law at")
        subjects[2 if label in shapes else 1 if fixed else 0].append(i)
    rows = max(map(len, subjects)) if columns > 1 else 0
    blank = Line2D([], [], alpha=0)
    entries: list[tuple[Artist, str]] = []
    for subject in filter(None, subjects):
        entries += [(handles[i], labels[i]) for i in subject]
        entries += [(blank, "")] * (rows - len(subject))
    ncols = len(entries) // rows if rows else 1
    ax.legend(
        [handle for handle, _ in entries],
        [label for _, label in entries],
        ncols=ncols,
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        borderaxespad=0.2,
    )


def _draw_bands(ax: Axes, info: LawStory) -> list[float]:
    curve = info.curve
    level = f"{100 * info.level:g} % band:"
    labels = {"pi": f"{level} one new run", "ci": f"{level} the law itself"}
    draw_bands(ax, curve, prefix="loss_", labels=labels)
    sns.lineplot(
        x=curve["x"],
        y=curve["loss"],
        ax=ax,
        color=colour("law"),
        lw=2,
        label="law of the optimum",
        errorbar=None,
        legend=False,
    )
    return [curve["loss_pi_lower"].min(), curve["loss_pi_upper"].max()]


def _draw_fixed(ax: Axes, fixed: FixedLaw, label: str) -> list[float]:
    style = {"color": colour("fixed"), "errorbar": None, "legend": False, "ax": ax}
    line, expected = fixed.line, fixed.expected
    name = f"law at {label}" if label else "law at fixed values"
    sns.lineplot(x=line["x"], y=line["loss"], ls="--", lw=1.6, label=name, **style)
    if not expected.empty:
        ax.fill_between(
            expected["x"],
            expected["lower"],
            expected["upper"],
            alpha=0.1,
            lw=0,
            color=style["color"],
        )
        label = _FIXED_LABELS[0]
        sns.lineplot(x=expected["x"], y=expected["loss"], ls=":", lw=2, label=label, **style)
    for fitted, face in ((True, colour("fixed")), (False, colour("paper"))):
        rows = fixed.points[fixed.points["fitted"] == fitted]
        ax.plot(
            rows["x"],
            rows["loss"],
            "s",
            ms=5,
            color=colour("fixed"),
            mfc=face,
            zorder=4,
            label=_FIXED_LABELS[1 if fitted else 2],
        )
    return [*fixed.points["loss"], *line["loss"], *expected["loss"]]
