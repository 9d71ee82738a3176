"""A comparison of recipes as plain text for a terminal."""

from __future__ import annotations

from extrap.comparing import ArmCost, Comparison, Contrast, EffectiveCompute, SizeDifference
from extrap.records import Interval, Measure
from extrap.reporting.numbers import (
    NBSP,
    format_estimate,
    format_p_value,
    format_quantity,
    name_size,
)
from extrap.reporting.tables import text_columns

__all__ = ["comparison_text"]

VERDICTS = {
    "same": "no difference is told",
    "shift": "the law is shifted, no difference of exponents is told",
    "exponent": "the law has another exponent",
    "unknown": "the data cannot say",
}


def comparison_text(found: Comparison) -> str:
    """Each treated recipe against the plain one, costs, and what was decided."""
    lines = []
    for contrast in found.contrasts:
        lines += [*_contrast_lines(found, contrast), ""]
    costs = [line for line in map(_cost_line, found.costs) if line]
    if costs:
        lines += [f"one run at {name_size(found.target)}:", *costs, ""]
    lines += [f"note: {note}" for note in found.notes]
    return "\n".join(lines).rstrip().replace(NBSP, " ")


def _contrast_lines(found: Comparison, contrast: Contrast) -> list[str]:
    p_values = f"p = {format_p_value(contrast.p_value)}".replace("= <", "<")
    if len(found.contrasts) > 1 and contrast.p_adjusted is not None:
        p_values += f", of {len(found.contrasts)} {format_p_value(contrast.p_adjusted)}"
    lines = [
        f"{contrast.treated} against {found.plain}: {contrast.verdict.upper()}, "
        f"{VERDICTS[contrast.verdict]} ({p_values}; {found.level:.0%} intervals)",
        "",
    ]
    rows = [*contrast.by_size, *([contrast.at_target] if contrast.at_target else [])]
    lines += text_columns(
        ["size", found.plain, contrast.treated, "difference", "", "pairs"],
        [_row(row) for row in rows],
    )
    lines.append("")
    if contrast.exponent_difference.value is not None:
        both = ", ".join(
            f"{name} {format_estimate(each.value, each.ci)}"
            for name, each in contrast.exponents.items()
        )
        gap = contrast.exponent_difference
        lines.append(f"exponent: {both}; difference {format_estimate(gap.value, gap.ci)}")
    lines += [_worth_line(each) for each in contrast.effective_compute]
    lines += _crossover_lines(found, contrast)
    lines += [f"beware: {flag}" for flag in contrast.flags]
    return lines


def _row(row: SizeDifference) -> list[str]:
    return [
        name_size(row.size),
        _loss(row.plain),
        _loss(row.treated),
        "unknown" if row.difference.value is None else _percent(row.difference.value),
        _percents(row.difference.ci),
        "forecast" if row.is_forecast else str(row.n_pairs),
    ]


def _loss(measure: Measure) -> str:
    return "unknown" if measure.value is None else f"{measure.value:.4g}"


def _percents(interval: Interval) -> str:
    lower, upper = interval
    if lower is None or upper is None:
        return "unknown"
    return f"{_percent(lower)} to {_percent(upper)}"


def _percent(share: float) -> str:
    return f"{100 * share:+.2f} %".replace("-", "−")


def _worth_line(found: EffectiveCompute) -> str:
    name, factor = "compute", found.factor
    if factor.value is None and factor.ci == Interval(None, None):
        name, factor = "size", found.size_factor
    text = f"effective {name} at {name_size(found.size)}: "
    if factor.value is not None:
        text += f"× {format_quantity(factor.value)}, "
    return f"{text}{found.level:.0%} interval {_factor(factor.ci)}"


def _factor(interval: Interval) -> str:
    lower, upper = interval
    if lower is None and upper is None:
        return "unknown"
    if upper is None:
        return f"at least {format_quantity(lower)}: the plain law may never reach that loss"
    if lower is None:
        return f"at most {format_quantity(upper)}"
    return f"{format_quantity(lower)} to {format_quantity(upper)}"


def _crossover_lines(found: Comparison, contrast: Contrast) -> list[str]:
    crossover = contrast.crossover
    if crossover.size.value is None:
        return []
    where = "inside" if crossover.is_inside else "outside"
    return [
        f"the laws cross at {found.columns[0]} {format_quantity(crossover.size.value)} "
        f"({_factor(crossover.size.ci).partition(':')[0]}), {where} the measured sizes; "
        f"{crossover.better_below} is better below"
    ]


def _cost_line(cost: ArmCost) -> str:
    parts = []
    if cost.flops is not None:
        parts.append(f"{cost.flops:.3g} FLOPs")
    if cost.gpu_hours is not None:
        parts.append(f"{format_quantity(cost.gpu_hours)} GPU-hours")
    if cost.money is not None:
        parts.append(f"{cost.money:.4g} at the given price")
    return f"  {cost.arm}: {', '.join(parts)}" if parts else ""
