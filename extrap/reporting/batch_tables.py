"""Tables of a batch study: critical batches, their laws, rates, forecasts beside counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from extrap.batching import FLAGS, BatchFindings, BatchGroup, RateRule, growth
from extrap.records import Interval, Measure
from extrap.reporting.glossary import Explanation, explain_flag
from extrap.reporting.numbers import (
    NBSP,
    format_estimate,
    format_p_value,
    format_percent,
    format_quantity,
    name_size,
)
from extrap.reporting.tables import Table, capped_table

__all__ = [
    "RULE_NAMES",
    "counted",
    "counts_table",
    "critical_table",
    "flags_seen",
    "front_check_table",
    "growth_table",
    "held_out_table",
    "laws_table",
    "power",
    "rates_table",
    "size_of",
]

LAW_NAMES = {
    "b_crit": "critical batch",
    "b_overhead": "batch at the overhead",
    "s_min": "fewest steps",
}
LETTERS = "abcdefghijklmnopqrstuvwxyz"
"""By which a table refers to flags."""
WIDE = 1.5
"""Ratio of the ends of an interval above which each number has two digits."""
RULE_NAMES = ("linear", "square-root", "constant", "saturating", "surge")


def counted(measure: Measure) -> str:
    """A batch size or a number of steps with its interval, rounded: `410 (350 to 480)`."""
    lower, upper = measure.ci
    known = [v for v in (measure.value, lower, upper) if v]
    if not known:
        return "unknown"
    value, low, high = (
        "" if v is None else _rounded(v, measure.ci) for v in (measure.value, lower, upper)
    )
    if not low and not high:
        interval = "interval open"
    elif not low:
        interval = f"at most {high}"
    elif not high:
        interval = f"at least {low}"
    else:
        interval = f"{low} to {high}"
    return f"{value} ({interval})" if value else interval


def _rounded(value: float, interval: Interval) -> str:
    """To the digit that the width of a narrow interval decides, else to two digits."""
    lower, upper = interval
    if lower and upper and lower < upper < WIDE * lower:
        return format_quantity(round(value, 1 - math.floor(math.log10(upper - lower))))
    return format_quantity(float(f"{value:.2g}"))


def power(exponent: Measure) -> str:
    """An exponent with its interval, two decimals where they do: `0.45 (0.38 to 0.52)`."""
    value, (lower, upper) = exponent.value, exponent.ci
    if value is None or lower is None or upper is None:
        return format_estimate(value, exponent.ci)
    decimals = 3 if upper - lower < 0.02 else 2
    shown = (f"{x:.{decimals}f}".replace("-", "−") for x in (value, lower, upper))
    return "{} ({} to {})".format(*shown)


def size_of(group: BatchGroup) -> dict[str, float]:
    """The size columns of a group: all but its target."""
    return {name: float(v) for name, v in group.by.items() if name != "target"}


def critical_table(findings: Sequence[BatchFindings]) -> Table:
    """Critical batches and regimes, a row a task, size and target."""
    rows, several = [], len(findings) > 1
    letters = {words.name: letter for letter, words in flags_seen(findings)}
    for found in findings:
        critical = found.result.critical
        for group in critical.groups:
            where = name_size(size_of(group))
            task = found.result.task.study.name
            rows.append(
                (
                    f"{task}, {where}" if several else where,
                    f"{group.by['target']:g}",
                    _stacked(group.b_crit),
                    _stacked(group.s_min),
                    _stacked(group.e_min),
                    _stacked(group.regimes.perfect_end),
                    _stacked(group.regimes.maximal_start),
                    _stacked(group.b_overhead),
                    ", ".join(letters[f] for f in FLAGS if f in group.flags) or "–",
                )
            )
    critical = findings[0].result.critical
    overhead = format_percent(critical.overhead, signed=False)
    return Table(
        caption=f"Critical batch sizes ({100 * critical.level:g}{NBSP}% intervals)",
        columns=(
            "task and size" if several else "size",
            "loss",
            "critical batch",
            "fewest steps",
            "fewest examples",
            "perfect scaling up to",
            "largest useful batch",
            f"batch at {overhead} overhead",
            "flags",
        ),
        rows=tuple(rows),
        note="Steps = fewest steps · (1 + critical batch / batch). Perfect scaling: examples stay "
        f"within 20{NBSP}% of the fewest. Largest useful batch: from there a doubling saves less "
        f"than 10{NBSP}% of the steps. Overhead: above linear scaling from one batch for all "
        "fits, the largest of their smallest that reached the loss.",
    )


def flags_seen(findings: Sequence[BatchFindings]) -> list[tuple[str, Explanation]]:
    """Each flag that a group carries: its letter, and the flag in words with where it is."""
    seen: dict[str, list[str]] = {}
    for found in findings:
        for group in found.result.critical.groups:
            task = f"{found.result.task.study.name}, " if len(findings) > 1 else ""
            for flag in group.flags:
                where = f"{task}{name_size(size_of(group))}, loss {group.by['target']:g}"
                seen.setdefault(flag, []).append(where)
    found_flags: list[tuple[str, Explanation]] = []
    for flag in FLAGS:
        if flag in seen:
            n = len(seen[flag])
            where = seen[flag][0] + (f" and {n - 1} more" if n > 1 else "")
            words = replace(explain_flag(flag, of="batches"), detail=where)
            found_flags.append((LETTERS[len(found_flags)], words))
    return found_flags


def laws_table(findings: Sequence[BatchFindings]) -> Table | None:
    """Power laws of critical batches over size and loss; None without any that has intervals."""
    rows = []
    for found in findings:
        for name, law in found.result.critical.laws.items():
            if law.dof < 1:
                continue
            powers = "\n".join(
                f"{'loss' if column == 'target' else column}^{power(exponent)}"
                for column, exponent in law.exponents.items()
            )
            at = ", ".join(
                f"{'loss' if c == 'target' else c}{NBSP}{format_quantity(float(f'{x:.3g}'))}"
                for c, x in zip(law.columns, law.reference, strict=True)
            )
            lower, upper = law.intercept.ci
            value = Measure(
                value=math.exp(law.intercept.value or 0.0),
                ci=Interval(
                    None if lower is None else math.exp(lower),
                    None if upper is None else math.exp(upper),
                ),
            )
            rows.append(
                (
                    f"{found.result.task.study.name}: {LAW_NAMES[name]}",
                    powers,
                    f"{counted(value)}\nat {at}",
                    format_percent(law.log_sd, signed=False),
                    str(law.n_groups),
                )
            )
    if not rows:
        return None
    return Table(
        caption="Power laws over size and loss",
        columns=("law", "goes as", "value", "scatter", "fits"),
        rows=tuple(rows),
        note="Scatter: standard deviation of one fit about the law, its own error included.",
    )


def rates_table(findings: Sequence[BatchFindings]) -> Table | None:
    """Exponents of the best rate and the rules held against them; None without a law."""
    rows = []
    for found in findings:
        names = list(found.result.task.study.sizes)
        for key, law in sorted(found.result.rate_laws.items()):
            where = name_size(dict(zip(names, key, strict=True)))
            task = f"{found.result.task.study.name}, " if len(findings) > 1 else ""
            rows.append(
                (
                    f"{task}{where}",
                    str(law.n),
                    power(law.exponent).replace(" (", "\n(", 1),
                    *(_rule(law.rule(name)) for name in RULE_NAMES),
                    format_p_value(law.bend_p),
                )
            )
    if not rows:
        return None
    return Table(
        caption="The best rate against batch size: free exponent, and which rules hold",
        columns=("where", "optima", "free exponent", *RULE_NAMES, "bend, p"),
        rows=tuple(rows),
        note="A straight rule holds where its exponent is not rejected and no bend is seen, a "
        "curved one where a parabola is not better; p of that below.",
    )


def _rule(rule: RateRule) -> str:
    words = {True: "holds", False: "rejected", None: "not told"}[rule.holds]
    return f"{words}\np{NBSP}{format_p_value(rule.p_value)}"


def held_out_table(findings: Sequence[BatchFindings]) -> Table | None:
    """Batches no fit saw, beside their predictions; None if there are none."""
    rows = []
    for found in findings:
        sizes = list(found.result.task.study.sizes)
        for row in found.result.held_out.to_dict("records"):
            where = name_size({name: row[name] for name in sizes})
            task = f"{found.result.task.study.name}, " if len(findings) > 1 else ""
            band = Interval(_side(row["lower"]), _side(row["upper"]))
            rows.append(
                (
                    f"{task}{where}",
                    f"{row['target']:g}",
                    format_quantity(row["batch_size"]),
                    _count(row["steps"]),
                    counted(Measure(value=row["predicted"], ci=band)).replace(" (", "\n(", 1),
                    format_percent(row["steps"] / row["predicted"] - 1),
                    _inside(row["steps"], band),
                )
            )
    if not rows:
        return None
    columns = ("where", "loss", "batch", "steps", "predicted", "off by", "in interval")
    return capped_table("Batches kept from every fit, and predicted", columns, rows)


def front_check_table(found: BatchFindings) -> Table | None:
    """The forecast at the larger size beside what was counted; None without a forecast."""
    if found.front is None:
        return None
    is_counted = found.checked is not None
    table = found.front.table if found.checked is None else found.checked
    rows = []
    for row in table.to_dict("records"):
        band = Interval(_side(row["lower"]), _side(row["upper"]))
        line = [
            f"{row['target']:g}",
            format_quantity(row["batch_size"]),
            format_quantity(row["lr"]),
            counted(Measure(value=row["predicted"], ci=band)).replace(" (", "\n(", 1),
        ]
        if is_counted:
            off = row["steps"] / row["predicted"] - 1
            line += [
                _count(row["steps"]) if np.isfinite(row["steps"]) else "not reached",
                format_percent(off) if np.isfinite(off) else "–",
                _inside(row["steps"], band),
                f"{_count(row['best'])}\nat {row['best_factor']:g} × the rate"
                if np.isfinite(row["best"])
                else "–",
            ]
        rows.append(tuple(line))
    columns = ["loss", "batch", "forecast rate", "forecast steps"]
    columns += ["steps counted", "off by", "in interval", "best of the factors"] * is_counted
    return capped_table(
        f"{found.result.task.study.name} at {name_size(found.front.size)}: the forecast"
        + " beside what was counted" * is_counted,
        columns,
        rows,
    )


def growth_table(findings: Sequence[BatchFindings]) -> Table | None:
    """By how much the noise scale grows during training; None if it was not measured."""
    rows = []
    for found in findings:
        courses, sizes = found.result.courses, list(found.result.task.study.sizes)
        if courses.empty:
            continue
        for key, course in courses.groupby(sizes):
            size = dict(zip(sizes, map(float, key), strict=True))
            known = course.dropna(subset="noise_scale")
            if known.empty:
                continue
            grown = growth(course)
            rows.append(
                (
                    f"{found.result.task.study.name}, {name_size(size)}",
                    format_quantity(course["batch_size"].iloc[0]),
                    _count(known["noise_scale"].iloc[0]),
                    _count(known["noise_scale"].iloc[-1]),
                    _stacked(grown),
                )
            )
    if not rows:
        return None
    return Table(
        caption="The noise scale in the first and the last window of a training",
        columns=("where", "measured at batch", "first", "last", "times"),
        rows=tuple(rows),
    )


def counts_table(findings: Sequence[BatchFindings]) -> Table:
    """How many runs and batches reached each target, and how many could not be used."""
    rows = []
    for found in findings:
        for target, part in found.result.tuned.groupby("target", sort=False):
            status = part["status"].value_counts()
            rows.append(
                (
                    found.result.task.study.name,
                    f"{target:g}",
                    *(str(int(part[f"n_{n}"].sum())) for n in ("runs", "reached", "censored")),
                    str(int(part["n_infeasible"].sum())),
                    *(str(int(status.get(n, 0))) for n in ("reached", "censored", "infeasible")),
                    str(int(part["at_edge"].sum())),
                )
            )
    return Table(
        caption="Runs, and batch sizes over all sizes",
        columns=(
            "task",
            "loss",
            "runs",
            "reached it",
            "not within their steps",
            "diverged or failed",
            "batches that reached it",
            "batches not within their steps",
            "batches where none was sound",
            "best rate at an edge",
        ),
        rows=tuple(rows),
    )


def _stacked(measure: Measure) -> str:
    return counted(measure).replace(" (", "\n(", 1)


def _count(value: float) -> str:
    return format_quantity(float(f"{value:.3g}"))


def _side(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def _inside(value: float, band: Interval) -> str:
    if not math.isfinite(value) or band == Interval(None, None):
        return "–"
    return "yes" if value in band else "no"
