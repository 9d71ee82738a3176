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
from extrap.reporting.text import text_columns

__all__ = ["comparison_text"]

HEADS = {"same": "NO DIFFERENCE TOLD", "unknown": "UNKNOWN"}
VERDICTS = {
    "same": "that is no proof of none",
    "shift": "the law is shifted, no difference of exponents is told",
    "exponent": "the law has another exponent",
    "unknown": "the data cannot say",
}


def comparison_text(found: Comparison) -> str:
    """Each treated recipe against the plain one, costs, and what was decided."""
    lines = []
    for contrast in found.contrasts:
        lines += [*_contrast_lines(found, contrast), ""]
    costs = [line for line in (_cost_line(found, cost) for cost in found.costs) if line]
    if costs:
        lines += [f"one run at {name_size(found.target)}:", *costs, ""]
    lines += [f"note: {note}" for note in found.notes]
    return "\n".join(lines).rstrip().replace(NBSP, " ")


def _contrast_lines(found: Comparison, contrast: Contrast) -> list[str]:
    p_values = f"p = {format_p_value(contrast.p_value)}".replace("= <", "<")
    if len(found.contrasts) > 1 and contrast.p_adjusted is not None:
        p_values += f", of {len(found.contrasts)} {format_p_value(contrast.p_adjusted)}"
    lines = [
        f"{contrast.treated} against {found.plain}: "
        f"{HEADS.get(contrast.verdict, contrast.verdict.upper())}, "
        f"{VERDICTS[contrast.verdict]} ({p_values}; {found.level:.0%} intervals)",
        "",
    ]
    rows = [*contrast.by_size, *([contrast.at_target] if contrast.at_target else [])]
    lines += text_columns(
        ["size", found.plain, contrast.treated, "difference", "", "pairs"],
        [_row(row) for row in rows],
    )
    lines.append("")
    lines += _reading_lines(contrast)
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


def _reading_lines(contrast: Contrast) -> list[str]:
    """What is left open where nothing is told, and what depends on size."""
    lines, mean = [], contrast.mean_difference
    if not contrast.differs and mean.value is not None and mean.ci != Interval(None, None):
        lines.append(
            f"left open: a mean difference over the sizes from {_percents(mean.ci)}, "
            f"seen {_percent(mean.value)}"
        )
    lines += [
        f"the measured difference changes sign between {name_size(before.size)} and "
        f"{name_size(after.size)}: which one wins depends on size"
        for before, after in contrast.sign_changes
    ]
    return lines


def _row(row: SizeDifference) -> list[str]:
    return [
        name_size(row.size),
        _loss(row.plain),
        _loss(row.treated),
        "unknown" if row.difference.value is None else _percent(row.difference.value),
        "one seed: no interval" if _is_single(row) else _percents(row.difference.ci),
        "forecast" if row.is_forecast else str(row.n_pairs),
    ]


def _is_single(row: SizeDifference) -> bool:
    return not row.is_forecast and row.n_pairs <= 1 and row.difference.ci == Interval(None, None)


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
        return ["no crossing is told"] if contrast.differs else []
    where = "inside" if crossover.is_inside else "outside"
    return [
        f"the laws cross at {found.columns[0]} {format_quantity(crossover.size.value)} "
        f"({_factor(crossover.size.ci).partition(':')[0]}), {where} the measured sizes; "
        f"{crossover.better_below} is better below"
    ]


def _cost_line(found: Comparison, cost: ArmCost) -> str:
    parts = []
    if cost.flops is not None:
        parts.append(f"{cost.flops:.3g} FLOPs")
    if cost.gpu_hours is not None:
        is_stated = found.flops_per_second is not None and cost.flops is not None
        kind = "GPU-hours" if is_stated else "hours (wall-clock of the runs)"
        parts.append(f"{format_quantity(cost.gpu_hours)} {kind}")
    if cost.money is not None:
        parts.append(f"{cost.money:.4g} at the given price")
    return f"  {cost.arm}: {', '.join(parts)}" if parts else ""
