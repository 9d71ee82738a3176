"""Critical batch sizes as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from extrap.batching import FLAGS, BatchGroup, BatchLaw, CriticalBatches, SizeForecast
from extrap.records import Interval, Measure
from extrap.reporting.numbers import NBSP, format_estimate, format_quantity
from extrap.reporting.text import text_columns

__all__ = ["critical_batches_text"]

LAW_NAMES = {"b_overhead": "batch at the overhead", "b_crit": "critical batch", "s_min": "S_min"}


def critical_batches_text(found: CriticalBatches, forecasts: Sequence[SizeForecast] = ()) -> str:
    """Groups, regimes, laws, forecasts, and what to do about every doubt."""
    level = f"{found.level:.0%}"
    overhead = f"+{found.overhead:.0%} at"
    lines = [
        f"steps to the target = S_min (1 + B_crit / {found.batch}); {level} intervals; sd of ln S",
        "",
    ]
    lines += text_columns(
        [*found.by, "B_crit", "", "S_min", "", "E_min", "", overhead, "", "from", "sd"],
        [_group_row(found, group) for group in found.groups],
    )
    lines += [
        "",
        "perfect scaling up to; maximal data parallelism from: the largest useful batch",
    ]
    lines += text_columns(
        [*found.by, "perfect to", "", "maximal from", "", "by three lines", "measured"],
        [_regime_row(found, group) for group in found.groups],
    )
    lines += ["", *_law_lines(found)]
    if forecasts:
        lines += ["", f"forecast at other sizes ({level} prediction intervals)"]
        lines += text_columns(
            [*forecasts[0].by, "B_crit", "", "S_min", "", overhead, "", "x fitted"],
            [_forecast_row(forecast) for forecast in forecasts],
        )
    lines += [""] * bool(lines[-1])
    lines += [
        f"beware{_where([g for g in found.groups if flag in g.flags], found.groups)}: {text}."
        for flag, text in FLAGS.items()
        if any(flag in group.flags for group in found.groups)
    ]
    lines += [f"note: {note}" for note in found.notes]
    return "\n".join(lines).rstrip().replace(NBSP, " ")


def _group_row(found: CriticalBatches, group: BatchGroup) -> list[str]:
    return [
        *_keys(found, group),
        *_measure(group.b_crit),
        *_measure(group.s_min),
        *_measure(group.e_min),
        *_measure(group.b_overhead),
        format_quantity(group.from_batch),
        f"{group.log_sd:.3f}",
    ]


def _regime_row(found: CriticalBatches, group: BatchGroup) -> list[str]:
    segments = group.segments
    ends = ("none",) if segments is None else (segments.perfect_end, segments.maximal_start)
    return [
        *_keys(found, group),
        *_measure(group.regimes.perfect_end),
        *_measure(group.regimes.maximal_start),
        ", ".join(end if isinstance(end, str) else _side(end) for end in ends),
        f"{format_quantity(group.points[0].batch)} to {format_quantity(group.points[-1].batch)}",
    ]


def _forecast_row(forecast: SizeForecast) -> list[str]:
    cells = [
        cell
        for one in (forecast.b_crit, forecast.s_min, forecast.b_overhead)
        for cell in (_number(one.value), _interval(one.pi))
    ]
    sizes = [format_quantity(value) for value in forecast.by.values()]
    return [*sizes, *cells, f"{forecast.extrapolation_ratio:.3g}"]


def _keys(found: CriticalBatches, group: BatchGroup) -> list[str]:
    values = (group.by[name] for name in found.by)
    return [value if isinstance(value, str) else format_quantity(value) for value in values]


def _where(groups: Sequence[BatchGroup], every: Sequence[BatchGroup]) -> str:
    """Which groups are meant; empty where that is clear."""
    if len(every) == 1:
        return ""
    if len(groups) == len(every):
        return " of all groups"
    names = (
        " ".join(v if isinstance(v, str) else f"{k} {format_quantity(v)}" for k, v in g.by.items())
        for g in groups
    )
    return f" of {', '.join(names)}"


def _law_lines(found: CriticalBatches) -> list[str]:
    if not found.laws:
        return [f"no law over groups: {found.reason}."] if len(found.groups) > 1 else []
    lines = ["laws over groups, coefficient at 1 of every column"]
    lines += [_law_line(law) for law in found.laws.values()]
    law = found.law
    if law is not None and law.dof < 1:
        lines.append("as many groups as parameters: no intervals; add a group.")
    return lines


def _law_line(law: BatchLaw) -> str:
    exponents = "; ".join(
        f"p = {format_estimate(measure.value, measure.ci)} of {name}"
        if law.dof
        else f"p = {measure.value:.3g} of {name}"
        for name, measure in law.exponents.items()
    )
    return f"{LAW_NAMES[law.of]}: {' '.join(_measure(law.coefficient))} · size^p, {exponents}"


def _measure(measure: Measure) -> tuple[str, str]:
    if measure.value is None:
        return "none", _interval(measure.ci)
    return _number(measure.value), _interval(measure.ci)


def _interval(interval: Interval) -> str:
    return f"[{_side(interval.lower)}, {_side(interval.upper)}]"


def _side(side: float | None) -> str:
    return "…" if side is None else _number(side)


def _number(value: float) -> str:
    """Four digits."""
    return format_quantity(float(f"{value:.4g}"))
