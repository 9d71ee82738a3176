"""Recipes over size: tuned losses with their laws, paired differences, what they are worth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, MaxNLocator

from extrap.comparing import Comparison, Contrast, SizeDifference
from extrap.fitting import LossPrediction, predict_log, relative_sizes
from extrap.records import Fit, Interval, Measure
from extrap.reporting.comparison_findings import GroupFindings, seed_losses
from extrap.reporting.figures.canvas import colour, ramp
from extrap.reporting.figures.marks import draw_legend_above
from extrap.reporting.figures.scales import set_log_axis, tick_labels, tick_values
from extrap.reporting.numbers import format_quantity
from extrap.reporting.sizes import SizeAxis, path_axis

__all__ = [
    "RecipeLosses",
    "RecipeWorth",
    "SizeDifferences",
    "draw_recipe_losses",
    "draw_recipe_worth",
    "draw_size_differences",
    "recipe_losses_info",
    "recipe_worth_info",
    "size_differences_info",
]

MARKERS = ("o", "s", "D", "^", "v", "P")
"""Of the recipes, the plain one first."""
INKS = ("law", "fixed", "good")
"""Of up to three treated recipes; more are told apart on a ramp."""
APART = 0.018
"""Part of the span of the sizes, in logarithms, between marks that would cover each other."""
TALLEST = 3.0
"""Differences are shown up to so many times the largest of them; intervals are cut there."""
WIDEST = 16.0
"""Factors are shown within so many times the largest or smallest of them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecipeLosses:
    """The tuned loss of each recipe over size.

    Attributes:
        axis: The horizontal axis.
        arms: The plain recipe first.
        points: `arm`, `x`, `loss`, `lower`, `upper`: tuned losses with their intervals.
        seeds: `arm`, `x`, `loss`: each seed at the best values tried.
        curve: `arm`, `x`, `loss`, `lower`, `upper`: laws with their bands; none for a recipe
            without a law.
        target: As `points`, read off the laws at the target.
        observed: `arm`, `x`, `loss`: means of what was trained at the target afterwards.
        level: Of intervals and bands.
    """

    axis: SizeAxis
    arms: tuple[str, ...]
    points: pd.DataFrame
    seeds: pd.DataFrame
    curve: pd.DataFrame
    target: pd.DataFrame
    observed: pd.DataFrame
    level: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SizeDifferences:
    """The paired difference of each treated recipe over size, in percent of the plain loss.

    Attributes:
        axis: The horizontal axis.
        arms: Treated recipes.
        n_arms: Recipes in all, by which marks are told apart as in the other pictures.
        points: `arm`, `x`, `value`, `lower`, `upper`, `n_pairs`, `kind`: `"measured"`,
            `"forecast"`, or `"checked"` for what was trained at the target afterwards. NaN where
            a side is open.
        limits: Ends of the vertical axis.
        level: Of the intervals.
    """

    axis: SizeAxis
    arms: tuple[str, ...]
    n_arms: int
    points: pd.DataFrame
    limits: tuple[float, float]
    level: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecipeWorth:
    """How much more compute the plain recipe would need for the loss of a treated one.

    Attributes:
        rows: `arm`, `name`, `place` (of the recipe), `value`, `lower`, `upper`; NaN if open.
        n_arms: Recipes in all.
        limits: Ends of the axis.
        level: Of the intervals.
    """

    rows: pd.DataFrame
    n_arms: int
    limits: tuple[float, float]
    level: float


def recipe_losses_info(found: GroupFindings) -> RecipeLosses | None:
    """Gather tuned losses, their seeds and their laws; None without a size to show."""
    comparison, axis = _known(found), _axis(found)
    if axis is None:
        return None
    points: list[dict[str, object]] = []
    target: list[dict[str, object]] = []
    for arm in comparison.arms:
        for row, here in _measures(comparison, arm):
            if here.is_forecast or axis.holds(here.size):
                (target if here.is_forecast else points).append(
                    {"arm": arm, "x": here.size[axis.column], **_ends(row, "loss")}
                )
    columns = ["arm", "x", "loss", "lower", "upper"]
    seeds = [
        axis.select(seed_losses(runs)).assign(arm=arm).rename(columns={axis.column: "x"})
        for arm, runs in found.runs.items()
    ]
    return RecipeLosses(
        axis=axis,
        arms=comparison.arms,
        points=pd.DataFrame(points, columns=columns).dropna(subset="loss"),
        seeds=pd.concat(seeds, ignore_index=True)[["arm", "x", "loss"]],
        curve=_curves(comparison, axis),
        target=pd.DataFrame(target, columns=columns).dropna(subset="loss"),
        observed=_observed(found, axis),
        level=comparison.level,
    )


def _known(found: GroupFindings) -> Comparison:
    assert found.comparison is not None
    return found.comparison


def _axis(found: GroupFindings) -> SizeAxis | None:
    comparison = _known(found)
    tuned = {tuple(p.size.values()): dict(p.size) for c in comparison.contrasts for p in c.by_size}
    if not tuned:
        return None
    return path_axis(comparison.columns, list(tuned.values()), [comparison.target])


def _measures(comparison: Comparison, arm: str) -> Iterator[tuple[Measure, SizeDifference]]:
    """Losses of a recipe by size and at the target; of the plain one from any contrast."""
    seen = set()
    for contrast in comparison.contrasts:
        if arm not in (comparison.plain, contrast.treated):
            continue
        places = [*contrast.by_size, *filter(None, [contrast.at_target])]
        for place in places:
            key = (*place.size.values(), place.is_forecast)
            if key not in seen:
                seen.add(key)
                yield (place.plain if arm == comparison.plain else place.treated), place


def _ends(measure: Measure, name: str, scale: float = 1.0) -> dict[str, float]:
    value, (lower, upper) = measure.value, measure.ci
    return {
        name: math.nan if value is None else value * scale,
        "lower": math.nan if lower is None else lower * scale,
        "upper": math.nan if upper is None else upper * scale,
    }


def _curves(comparison: Comparison, axis: SizeAxis) -> pd.DataFrame:
    rows = []
    for arm in comparison.arms:
        law = comparison.laws.get(arm)
        for x in axis.values() if law is not None else ():
            assert law is not None
            centre, band = _law_at(law, axis.at(x), comparison.level)
            rows.append({"arm": arm, "x": x, "loss": centre, **_ends(band, "value")})
    found = pd.DataFrame(rows, columns=["arm", "x", "loss", "value", "lower", "upper"])
    numbers = dict.fromkeys(("x", "loss", "lower", "upper"), float)
    return found.drop(columns="value").astype(numbers)  # also where there is no law


def _law_at(law: Fit, size: Mapping[str, float], level: float) -> tuple[float, Measure]:
    mean, se = (float(a[0]) for a in predict_log(law, relative_sizes(law, size)))
    spread = LossPrediction(log_loss=mean, curve=((se**2, float(law.scale_dof)),), run=())
    value = math.exp(mean)
    return value, Measure(value=value, ci=spread.interval(level, new_run=False))


def _observed(found: GroupFindings, axis: SizeAxis) -> pd.DataFrame:
    x = _known(found).target[axis.column]
    rows = [(check.treated, x, check.loss) for check in found.checks]
    rows += [(_known(found).plain, x, check.plain) for check in found.checks[:1]]
    return pd.DataFrame(rows, columns=["arm", "x", "loss"]).astype({"loss": float}).dropna()


def size_differences_info(found: GroupFindings) -> SizeDifferences | None:
    """Gather the differences by size, at the target, and what was seen there."""
    comparison, axis = _known(found), _axis(found)
    if axis is None:
        return None
    rows = [row for c in comparison.contrasts for row in _difference_rows(c, axis)]
    for check in found.checks:
        x = comparison.target[axis.column]
        rows.append(_difference_row(check.treated, x, check.difference, check.n_pairs, "checked"))
    points = pd.DataFrame(rows).dropna(subset="value")
    largest = float(points["value"].abs().max()) if len(points) else 0.0
    least = max(largest, 0.1)
    ends = points[["value", "lower", "upper"]].fillna(0.0).clip(-TALLEST * least, TALLEST * least)
    low = min(float(np.min(ends.to_numpy(), initial=0.0)), -0.1 * least)
    high = max(float(np.max(ends.to_numpy(), initial=0.0)), 0.1 * least)
    pad = 0.07 * (high - low)
    return SizeDifferences(
        axis=axis,
        arms=comparison.arms[1:],
        n_arms=len(comparison.arms),
        points=points.reset_index(drop=True),
        limits=(low - pad, high + pad),
        level=comparison.level,
    )


def _difference_rows(contrast: Contrast, axis: SizeAxis) -> list[dict[str, object]]:
    places = [p for p in contrast.by_size if axis.holds(p.size)]
    places += [contrast.at_target] if contrast.at_target is not None else []
    return [
        _difference_row(
            contrast.treated,
            place.size[axis.column],
            place.difference,
            place.n_pairs,
            "forecast" if place.is_forecast else "measured",
        )
        for place in places
    ]


def _difference_row(
    arm: str, x: float, difference: Measure, n_pairs: int, kind: str
) -> dict[str, object]:
    ends = _ends(difference, "value", 100.0)
    return {"arm": arm, "x": float(x), **ends, "n_pairs": n_pairs, "kind": kind}


def recipe_worth_info(comparison: Comparison) -> RecipeWorth | None:
    """Gather the compute that each treated recipe is worth; None where none is known."""
    rows = [
        {
            "arm": contrast.treated,
            "name": f"{contrast.treated}, "
            + ", ".join(f"{c} {format_quantity(v)}" for c, v in worth.size.items()),
            "place": place,
            **_ends(worth.factor, "value"),
        }
        for place, contrast in enumerate(comparison.contrasts, start=1)
        for worth in contrast.effective_compute
    ]
    frame = pd.DataFrame(rows)
    ends = ["value", "lower", "upper"]
    if not rows or frame[ends].isna().all(axis=None):
        return None
    values = frame["value"].dropna()
    anchors = [1.0, *(v for v in values if v > 0)]
    low, high = min(anchors) / WIDEST, max(anchors) * WIDEST
    seen = frame[ends].clip(low, high)
    least, most = min(0.8, float(seen.min(axis=None))), max(1.25, float(seen.max(axis=None)))
    level = next(w.level for c in comparison.contrasts for w in c.effective_compute)
    return RecipeWorth(
        rows=frame,
        n_arms=len(comparison.arms),
        limits=(least, most),
        level=level,
    )


def _style(place: int, n_arms: int) -> tuple[str, str]:
    """Colour and marker of a recipe; the plain one is the first."""
    marker = MARKERS[place % len(MARKERS)]
    if place == 0:
        return colour("ink"), marker
    if n_arms - 1 <= len(INKS):
        return colour(INKS[place - 1]), marker
    return ramp("size", (place - 1) / (n_arms - 2)), marker


def _apart(axis: SizeAxis, place: int, n: int) -> float:
    """Factor by which the marks of a recipe are moved aside."""
    span = math.log(axis.high / axis.low)
    return math.exp(APART * span * (place - (n - 1) / 2))


def draw_recipe_losses(ax: Axes, info: RecipeLosses, *, columns: int = 5) -> None:
    """Seeds faint, tuned losses strong, laws with bands; open marks at the target."""
    ax.axvspan(info.axis.low, info.axis.tuned_high, color=colour("shade"), lw=0, zorder=0)
    for place, arm in enumerate(info.arms):
        ink, marker = _style(place, len(info.arms))
        own = {
            name: frame[frame["arm"] == arm]
            for name, frame in (
                ("points", info.points),
                ("seeds", info.seeds),
                ("curve", info.curve),
                ("target", info.target),
                ("observed", info.observed),
            )
        }
        curve, points = own["curve"], own["points"]
        ax.fill_between(
            curve["x"], curve["lower"], curve["upper"], color=ink, alpha=0.16, lw=0, zorder=1
        )
        ax.plot(curve["x"], curve["loss"], color=ink, lw=1.7, zorder=2)
        ax.scatter(
            own["seeds"]["x"], own["seeds"]["loss"], color=ink, alpha=0.32, s=12, lw=0, zorder=3
        )
        ax.vlines(points["x"], points["lower"], points["upper"], color=ink, lw=1.2, zorder=4)
        sns.scatterplot(
            x=points["x"],
            y=points["loss"],
            ax=ax,
            color=ink,
            marker=marker,
            s=46,
            edgecolor=colour("paper"),
            linewidth=0.8,
            zorder=5,
            label=arm,
            legend=False,
        )
        target, seen = own["target"], own["observed"]
        aside = _apart(info.axis, place, len(info.arms))
        x = target["x"] * aside
        ax.vlines(x, target["lower"], target["upper"], color=ink, lw=1.2, zorder=4)
        _open_marks(ax, x, target["loss"], ink=ink, marker=marker)
        _crosses(ax, seen["x"] * aside, seen["loss"], ink)
    set_log_axis(
        ax, "x", [info.axis.low, max(info.axis.high, info.axis.tuned_high)], label=info.axis.column
    )
    set_log_axis(ax, "y", _heights(info), label="tuned loss")
    draw_legend_above(ax, columns=columns)


def _heights(info: RecipeLosses) -> list[float]:
    """What the vertical axis shows; bands and intervals may leave it."""
    frames = (info.points, info.seeds, info.curve, info.target, info.observed)
    known = [float(v) for frame in frames for v in frame["loss"]]
    ends = [
        float(v) for frame in (info.points, info.target) for v in frame[["lower", "upper"]].stack()
    ]
    low, high = min(known), max(known)
    room = (high / low) ** 0.6
    return [*known, *(min(max(v, low / room), high * room) for v in ends if v > 0)]


def _open_marks(ax: Axes, x: pd.Series, y: pd.Series, *, ink: str, marker: str) -> None:
    ax.scatter(
        x,
        y,
        facecolor=colour("paper"),
        edgecolor=ink,
        marker=marker,
        s=50,
        linewidth=1.6,
        zorder=6,
    )


def _crosses(ax: Axes, x: pd.Series, y: pd.Series, ink: str) -> None:
    ax.plot(x, y, "x", color=ink, ms=9, mew=2.2, zorder=7)


def draw_size_differences(ax: Axes, info: SizeDifferences, *, columns: int = 3) -> None:
    """Paired differences with intervals, a line at 0, the forecast as open marks."""
    axis, (low, high) = info.axis, info.limits
    ax.axvspan(axis.low, axis.tuned_high, color=colour("shade"), lw=0, zorder=0)
    ax.axhline(0.0, color=colour("muted"), lw=1.0, zorder=1)
    for place, arm in enumerate(info.arms):
        ink, marker = _style(place + 1, info.n_arms)
        own = info.points[info.points["arm"] == arm]
        aside = np.where(own["kind"] == "checked", len(info.arms), 0)  # beside its forecast
        x = own["x"] * [_apart(axis, place + extra, len(info.arms)) for extra in aside]
        barred = own[own[["lower", "upper"]].notna().any(axis=1)]
        ax.vlines(
            x[barred.index],
            barred["lower"].fillna(low),
            barred["upper"].fillna(high),
            color=ink,
            lw=5,
            alpha=0.35,
            zorder=2,
        )
        for kind, group in own.groupby("kind", sort=False):
            here = x[group.index]
            if kind == "forecast":
                _open_marks(ax, here, group["value"], ink=ink, marker=marker)
            elif kind == "checked":
                _crosses(ax, here, group["value"], ink)
            else:
                sns.scatterplot(
                    x=here,
                    y=group["value"],
                    ax=ax,
                    color=ink,
                    marker=marker,
                    s=52,
                    edgecolor=colour("paper"),
                    linewidth=0.8,
                    zorder=5,
                    label=arm,
                    legend=False,
                )
    set_log_axis(ax, "x", [axis.low, max(axis.high, axis.tuned_high)], label=axis.column)
    ax.set_ylim(low, high)
    ax.set_ylabel("loss against the plain recipe, %")
    ax.yaxis.set_major_locator(MaxNLocator(6))
    ax.yaxis.set_major_formatter(FuncFormatter(_signed))
    draw_legend_above(ax, columns=columns)


def draw_recipe_worth(ax: Axes, info: RecipeWorth) -> None:
    """A factor of compute a row with its interval, a line at 1."""
    low, high = info.limits
    set_log_axis(ax, "x", [low, high], label="compute of the plain recipe for the same loss, ×")
    left, right = ax.get_xlim()
    ticks = _factor_ticks(left, right)
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(FixedFormatter(tick_labels(ticks)))
    for place, row in enumerate(info.rows.itertuples(index=False)):
        ink, marker = _style(row.place, info.n_arms)
        if all(math.isnan(v) for v in (row.value, row.lower, row.upper)):
            ax.annotate(
                "not known",
                (1.0, place),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                color=colour("muted"),
            )
            continue
        ends = Interval(*(None if math.isnan(v) else v for v in (row.lower, row.upper)))
        ax.hlines(place, ends.lower or left, ends.upper or right, color=ink, alpha=0.45, lw=6)
        for is_open, edge, arrow in (
            (ends.lower is None, left, "<"),
            (ends.upper is None, right, ">"),
        ):
            if is_open:
                ax.plot([edge], [place], arrow, color=ink, ms=8, clip_on=False, zorder=6)
        if not math.isnan(row.value):
            sns.scatterplot(
                x=[row.value],
                y=[place],
                ax=ax,
                s=70,
                marker=marker,
                color=ink,
                edgecolor=colour("paper"),
                linewidth=0.8,
                zorder=5,
                legend=False,
            )
    ax.axvline(1.0, color=colour("muted"), lw=1.0, zorder=1)
    ax.set_xlim(left, right)
    ax.set_yticks(range(len(info.rows)), info.rows["name"])
    ax.set_ylim(len(info.rows) - 0.5, -0.5)
    ax.set_ylabel("")
    ax.grid(visible=False, axis="y")


def _factor_ticks(low: float, high: float) -> list[float]:
    """Ticks that hold 1, which is what factors are read against."""
    ticks = tick_values(low, high, most=6)
    return sorted({1.0, *(t for t in ticks if abs(math.log(t)) > 0.2 * math.log(high / low) / 5)})


def _signed(value: float, _: object) -> str:
    return "0" if abs(value) < 1e-9 else f"{value:+.3g}".replace("-", "−")
