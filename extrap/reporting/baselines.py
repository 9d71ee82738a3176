"""A sweep against its baseline: a sentence to act on, a picture, two tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from extrap.comparing import LossContrast, Slope, SlopeContrast, compare_losses, compare_slopes
from extrap.forecasting import Forecast
from extrap.records import Interval, Verdict, condition_text
from extrap.records.numbers import (
    NBSP,
    TableCell,
    compared,
    format_estimate,
    format_interval,
    format_level,
    format_percent,
    format_quantity,
    format_value,
    name_size,
    over,
    stacked,
)
from extrap.reporting.blocks import Block, Columns, Details, Figure, Paragraph
from extrap.reporting.forecast_answer import AnswerRow
from extrap.reporting.forecast_charts import pair_chart
from extrap.reporting.groups import group_verdicts, judged_sizes
from extrap.reporting.sizes import SizeAxis
from extrap.reporting.tables import Table

STILL = 2.0
"""An optimum that moves by less than this factor over all sizes is as good as still: an octave is
the usual spacing of a grid."""


def baseline_blocks(
    forecast: Forecast,
    baseline: Forecast,
    axis: SizeAxis,
    rows: Sequence[AnswerRow],
    *,
    title: str | None,
) -> list[Block]:
    """Compare a forecast with its baseline, up to the largest size that is asked about.

    Raises:
        ValueError: The two do not speak of the same columns at the same level.
    """
    names = _names(forecast, baseline, title)
    slopes = compare_slopes(forecast, baseline)
    losses = compare_losses(forecast, baseline, target=rows[-1].size)
    headlines, text = _words(forecast, baseline, slopes, losses[-1], names)
    charts = [pair_chart(forecast, baseline, axis, n, names=names) for n in forecast.runs.tuned]
    tables = (_slope_table(slopes, names, forecast.level), _loss_table(losses, names, forecast))
    blocks: list[Block] = [Paragraph(text), Columns([*map(Figure, charts)]), *tables]
    return [*map(Paragraph, headlines), Details(f"Comparison with {names[1]}", blocks)]


def baseline_text(
    forecast: Forecast, baseline: Forecast, verdicts: Sequence[Verdict] = (), *, title: str | None
) -> str:
    """The words of the section for a terminal, one line a paragraph.

    Raises:
        ValueError: As `baseline_blocks`.
    """
    sizes = judged_sizes(group_verdicts(verdicts)) or forecast.default_targets()
    slopes = compare_slopes(forecast, baseline)
    losses = compare_losses(forecast, baseline, target=sizes[-1])
    names = _names(forecast, baseline, title)
    headlines, text = _words(forecast, baseline, slopes, losses[-1], names)
    return "\n".join([*headlines, text]).replace(NBSP, " ")


def _words(
    forecast: Forecast,
    baseline: Forecast,
    slopes: Sequence[SlopeContrast],
    farthest: LossContrast,
    names: tuple[str, str],
) -> tuple[list[str], str]:
    """A headline for each exponent, and the sentences below."""
    said = [
        slope_sentences(c, forecast, baseline, names=names, reach=farthest.size[c.column])
        for c in slopes
    ]
    text = [
        *(words for _, words in said),
        loss_sentence(farthest, names=names),
        _recipe_sentence(forecast, baseline, names),
    ]
    return [headline for headline, _ in said], " ".join(filter(None, text))


def _names(forecast: Forecast, baseline: Forecast, title: str | None) -> tuple[str, str]:
    """What the two sweeps are called, never alike."""
    ours = title or forecast.runs.source or "this sweep"
    theirs = baseline.runs.source or "the baseline"
    return ours, f"{theirs} (baseline)" if theirs == ours else theirs


def slope_sentences(
    contrast: SlopeContrast,
    forecast: Forecast,
    baseline: Forecast,
    *,
    names: tuple[str, str],
    reach: float,
) -> tuple[str, str]:
    """How one optimum moves in both sweeps and what to do about it; then how far they are apart.

    Args:
        contrast: The exponents.
        forecast: The forecast of the sweep.
        baseline: The forecast it is compared with.
        names: What the two are called.
        reach: The largest size to be tuned for, in the contrast's size column.
    """
    level = format_level(forecast.level)
    pairs = ((names[0], forecast, contrast.slope), (names[1], baseline, contrast.baseline))
    moves = [
        f"as {contrast.column}^{_with_half(slope)} under {name}"
        for name, _, slope in pairs
        if slope is not None
    ]
    advice = "; ".join(
        f"under {name} {_advice(contrast, made, slope, reach)}" for name, made, slope in pairs
    )
    if not moves:
        return f"How the best {contrast.tuned} moves is not known: {advice}.", ""
    headline = f"The best {contrast.tuned} moves {', '.join(moves)}: {advice}."
    return headline, f"{_apart(contrast.difference)} ± is half of the {level} interval."


def _advice(contrast: SlopeContrast, forecast: Forecast, slope: Slope | None, reach: float) -> str:
    """What an exponent means for whoever sets the value at another size."""
    tuned, column = contrast.tuned, contrast.column
    fit = forecast.tuned_laws[tuned]
    if slope is None or fit is None:
        n = sum(o.tuned[tuned].value is not None for o in forecast.optima)
        return (
            f"{n} of {len(forecast.optima)} sizes have a bracketed optimum, too few for a "
            f"law, so widen its range of {tuned}"
        )
    if fit.names[1 + fit.columns.index(column)] in fit.fixed:
        return "the exponent was pinned, so this shows nothing"
    bend = forecast.curvature()[tuned]
    if bend is not None and bend.bends:
        return (
            f"the law bends, so one exponent does not hold at all sizes {_span(forecast, tuned)}"
        )
    low = fit.fitted_range[fit.columns.index(column)][0]
    way = f"from {column}{NBSP}{format_quantity(low)} to {format_quantity(reach)}"
    most = math.exp(max(abs(side or 0.0) for side in slope.ci) * math.log(max(reach / low, 1.0)))
    factor = "a factor of "
    factor += format_quantity(most, digits=2) if most < 100 else "100 or more"
    if 0.0 in slope.ci:
        if most <= STILL:
            return (
                f"one {tuned}, tuned at any {column}, serves all {way} (the optimum moves by "
                f"{factor} at most)"
            )
        return (
            f"no movement and one by {factor} {way} are both possible, so add sizes or seeds "
            "before relying on either"
        )
    if most <= STILL:
        return f"it does move, but by {factor} at most {way}"
    return f"it has to be tuned again, or forecast, at another {column}"


def _span(forecast: Forecast, tuned: str) -> str:
    """How far apart the optima of the sweep lie."""
    values = [o.tuned[tuned].value for o in forecast.optima]
    known = [value for value in values if value is not None]
    factor = format_quantity(max(known) / min(known), digits=2)
    return f"(the sweep's optima lie within a factor of {factor})"


def _with_half(slope: Slope) -> str:
    """An exponent with half of its interval."""
    half = ((slope.ci.upper or 0.0) - (slope.ci.lower or 0.0)) / 2
    return format_value(slope.value, half)


def _apart(difference: Slope | None) -> str:
    if difference is None:
        return "With one of the exponents unknown, the two sweeps cannot be told apart by them."
    words = _with_half(difference)
    if 0.0 in difference.ci:
        return (
            f"The exponents differ by {words}, which may be chance: these sweeps do not show that "
            "the optimum moves differently in one and the other."
        )
    return f"The exponents differ by {words}, which is more than chance allows."


def loss_sentence(contrast: LossContrast, *, names: tuple[str, str]) -> str:
    """Which of two sweeps is forecast to reach the lower loss when tuned."""
    loss, where = contrast.of_sweep.loss, name_size(contrast.size)
    if loss is None or contrast.ratio is None:
        return f"Which of them reaches the lower loss at {where} when tuned is not known."
    start = (
        f"Tuned at {where}, {names[0]} is forecast to reach a loss of "
        f"{format_estimate(loss, contrast.of_sweep.ci)}, {compared(contrast.ratio - 1)} that of "
        f"{names[1]}"
    )
    if 1.0 in contrast.ratio_ci:
        return f"{start}; a difference of {_percents(contrast)} is possible."
    return f"{start} ({_percents(contrast)})."


def _recipe_sentence(forecast: Forecast, baseline: Forecast, names: tuple[str, str]) -> str:
    """In which recorded conditions the two sweeps differ."""
    ours, theirs = _conditions(forecast), _conditions(baseline)
    off = [
        f"{name} ({theirs[name]} instead of {value})"
        for name, value in ours.items()
        if theirs.get(name, value) != value
    ]
    return f"The recipe of {names[1]} differs in {', '.join(off)}." if off else ""


def _conditions(forecast: Forecast) -> dict[str, str]:
    first = forecast.runs.to_frame().iloc[0]
    return {name: condition_text(first[name]) for name in forecast.runs.conditions}


def _slope_table(
    contrasts: Sequence[SlopeContrast], names: tuple[str, str], level: float
) -> Table:
    rows = [
        (f"{c.tuned} over {c.column}", *map(_slope_cell, (c.slope, c.baseline, c.difference)))
        for c in contrasts
    ]
    caption = f"Exponents of the laws of the optimum ({format_level(level)} intervals)"
    return Table(caption, ("exponent of", *names, "difference"), rows)


def _slope_cell(slope: Slope | None) -> str:
    if slope is None:
        return "unknown"
    if slope.se:
        return stacked(slope.value, slope.ci)
    return over(format_value(slope.value), "pinned")


def _loss_table(
    contrasts: Sequence[LossContrast], names: tuple[str, str], forecast: Forecast
) -> Table:
    rows = [
        (
            *map(format_quantity, c.size.values()),
            "forecast" if c.is_forecast else "sweep",
            stacked(c.of_sweep.loss, c.of_sweep.ci),
            stacked(c.of_baseline.loss, c.of_baseline.ci),
            _difference_cell(c),
        )
        for c in contrasts
    ]
    return Table(
        f"Loss of tuned runs ({format_level(forecast.level)} intervals of their mean)",
        (*forecast.runs.sizes, "from", *names, "difference"),
        rows,
        note=f"Difference: {names[0]} against {names[1]}. Of exponents and of logarithms of "
        "losses; the two sweeps count as independent, so that variances add, and the degrees of "
        "freedom are those of Welch and Satterthwaite. Where both use the same seeds, part of the "
        "noise is common to both and cancels; these intervals do not count on it.",
    )


def _difference_cell(contrast: LossContrast) -> str:
    if contrast.ratio is None:
        return "unknown"
    return over(format_percent(contrast.ratio - 1), _percents(contrast))


def _percents(contrast: LossContrast) -> TableCell:
    """The interval of a ratio as relative differences."""
    sides = Interval(*(None if side is None else side - 1 for side in contrast.ratio_ci))
    return format_interval(sides, format_percent)
