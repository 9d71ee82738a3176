"""The numbers of a comparison of recipes as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from extrap.comparing import Comparison
from extrap.laws import LAWS
from extrap.records import Interval, Measure
from extrap.reporting.comparison_findings import GroupFindings
from extrap.reporting.comparison_words import (
    found_sentence,
    percent_words,
    times_words,
    verdict_words,
)
from extrap.reporting.figures import RecipeLosses
from extrap.reporting.forecast_tables import stacked
from extrap.reporting.numbers import (
    NBSP,
    format_p_value,
    format_quantity,
    format_value,
    name_size,
)
from extrap.reporting.tables import Table, capped_table

__all__ = [
    "checks_table",
    "costs_table",
    "differences_table",
    "expectations_table",
    "laws_table",
    "losses_table",
    "verdicts_table",
    "worth_table",
]


def verdicts_table(comparison: Comparison) -> Table:
    """Verdict, p-values, exponents and crossing of every treated recipe."""
    plain = next((c.exponents.get(comparison.plain) for c in comparison.contrasts), None)
    rows = [(comparison.plain, "the plain recipe", "–", "–", _stacked(plain), "–", "–")]
    for contrast in comparison.contrasts:
        p_values = format_p_value(contrast.p_value)
        if contrast.p_adjusted is not None and len(comparison.contrasts) > 1:
            p_values += f"\n{format_p_value(contrast.p_adjusted)} by Holm"
        rows.append(
            (
                contrast.treated,
                verdict_words(contrast),
                p_values,
                percent_words(contrast.mean_difference).replace(" (", "\n(", 1),
                _stacked(contrast.exponents.get(contrast.treated)),
                _stacked(contrast.exponent_difference),
                "none told"
                if contrast.crossover.size.value is None
                else _stacked(contrast.crossover.size),
            )
        )
    column = comparison.columns[0]
    return Table(
        caption=f"Does it move the law? ({_level(comparison.level)} intervals)",
        columns=(
            "recipe",
            "verdict",
            "p-value",
            "mean difference",
            "exponent",
            "its difference",
            f"crossing, {column}",
        ),
        rows=tuple(rows),
        note="p-value: of one law for both recipes, shift and exponent together; by Holm: "
        "corrected for the number of treated recipes. Mean difference: over the sizes; no "
        "difference told leaves open what its interval holds. Exponent: of the loss above its "
        "floor in "
        f"{column}; larger falls faster.",
    )


def differences_table(comparison: Comparison) -> Table:
    """Every measured difference, then the forecast at the target."""
    rows = []
    for contrast in comparison.contrasts:
        for place in [*contrast.by_size, *filter(None, [contrast.at_target])]:
            rows.append(
                (
                    contrast.treated,
                    name_size(place.size),
                    "forecast" if place.is_forecast else f"{place.n_pairs}",
                    _stacked(place.plain),
                    _stacked(place.treated),
                    percent_words(
                        place.difference, n_pairs=None if place.is_forecast else place.n_pairs
                    ).replace(" (", "\n(", 1),
                )
            )
    return capped_table(
        f"Tuned losses and their differences ({_level(comparison.level)} intervals)",
        ("recipe", "size", "pairs", comparison.plain, "treated", "difference"),
        rows,
    )


def losses_table(info: RecipeLosses) -> Table:
    """Tuned losses and seeds of every recipe that the picture shows."""
    rows = []
    for arm in info.arms:
        seeds = info.seeds[info.seeds["arm"] == arm]
        for frame, how in ((info.points, "measured"), (info.target, "law, at the target")):
            for row in frame[frame["arm"] == arm].itertuples():
                own = seeds.loc[abs(seeds["x"] / row.x - 1) < 1e-9, "loss"]
                shown = ", ".join(format_value(v) for v in sorted(own)) or "–"
                ends = Interval(_open(row.lower), _open(row.upper))
                loss = _stacked(Measure(value=row.loss, ci=ends))
                rows.append((arm, format_quantity(row.x), how, loss, shown))
    columns = ("recipe", info.axis.column, "what", "tuned loss", "seeds at the best values tried")
    return capped_table("Tuned losses", columns, rows)


def worth_table(comparison: Comparison) -> Table | None:
    """Compute and size that the plain recipe would need; None where nothing is known."""
    rows = [
        (
            contrast.treated,
            name_size(worth.size),
            times_words(worth.factor).replace(" (", "\n(", 1),
            times_words(worth.size_factor).replace(" (", "\n(", 1),
        )
        for contrast in comparison.contrasts
        for worth in contrast.effective_compute
    ]
    if not rows:
        return None
    level = next(w.level for c in comparison.contrasts for w in c.effective_compute)
    return Table(
        caption=f"What the plain recipe would need for the same loss ({_level(level)} intervals)",
        columns=("recipe", "of a run at", "compute", comparison.columns[0]),
        rows=tuple(rows),
        note="Above 1 the treatment saves. An open side: the plain law never gets there.",
    )


def laws_table(comparison: Comparison) -> Table:
    """The fitted law of every recipe."""
    rows = []
    for arm in comparison.arms:
        law = comparison.laws.get(arm)
        if law is None:
            rows.append((arm, "none", "–", "–"))
            continue
        parameters = ", ".join(
            f"{name}{NBSP}={NBSP}{format_value(value, _se(law.covariance[i][i]))}"
            + (" held" if name in law.fixed else "")
            for i, (name, value) in enumerate(law.parameters.items())
        )
        rows.append((arm, LAWS[law.law].formula, parameters, ", ".join(law.flags) or "–"))
    return Table(
        caption="Fitted laws of the tuned loss",
        columns=("recipe", "law", "parameters ± se", "flags"),
        rows=tuple(rows),
        note="x0: the geometric mean of the fitted sizes. Held: given to the fit of one recipe.",
    )


def costs_table(comparison: Comparison) -> Table:
    """What one run of each recipe costs at the target."""
    price, speed = comparison.price, comparison.flops_per_second
    rows = []
    for cost in comparison.costs:
        line = [cost.arm, _amount(cost.flops), _amount(cost.gpu_hours)]
        rows.append((*line, *([_amount(cost.money)] if price is not None else [])))
    at = "" if price is None else f", at {price:g} an hour"
    money = ("money",) if price is not None else ()
    is_stated = speed is not None and all(cost.flops is not None for cost in comparison.costs)
    hours = f"hours (at {speed:.3g} FLOP/s)" if is_stated else "hours (wall-clock of the runs)"
    return Table(
        caption=f"One run at {name_size(comparison.target)}{at}",
        columns=("recipe", "training FLOPs", hours, *money),
        rows=tuple(rows),
        note="Of one device. Runs trained together share their wall-clock.",
    )


def checks_table(found: GroupFindings) -> Table | None:
    """What was seen at the target beside its forecast; None if nothing was trained there."""
    if not found.checks or found.comparison is None:
        return None
    told = {True: "held", False: "off", None: "not told"}
    rows = tuple(
        (
            check.treated,
            "–" if check.plain is None else format_value(check.plain),
            "–" if check.loss is None else format_value(check.loss),
            str(check.n_pairs),
            percent_words(check.difference).replace(" (", "\n(", 1),
            percent_words(check.forecast).replace(" (", "\n(", 1),
            told[check.agrees],
        )
        for check in found.checks
    )
    return Table(
        caption=f"Runs at {name_size(found.comparison.target)}, after the forecast",
        columns=(
            "recipe",
            f"loss of {found.comparison.plain}",
            "its own",
            "pairs",
            "difference",
            "forecast",
            "the forecast",
        ),
        rows=rows,
    )


def expectations_table(findings: Sequence[GroupFindings]) -> Table | None:
    """What was expected of each group, and what was found; None if nothing was expected."""
    if not any(found.group.expected for found in findings):
        return None
    rows = tuple(
        (found.group.name, found.group.expected or "nothing said", found_sentence(found))
        for found in findings
    )
    return Table(
        caption="What the literature lets one expect, and what was found",
        columns=("group", "expected", "found"),
        rows=rows,
    )


def _stacked(measure: Measure | None) -> str:
    if measure is None or (measure.value is None and measure.ci == Interval(None, None)):
        return "–"
    if measure.ci == Interval(None, None):
        return f"{format_value(measure.value)}\ninterval unknown"
    return stacked(measure.value, measure.ci)


def _se(variance: float) -> float | None:
    return math.sqrt(variance) if variance > 0 else None


def _open(value: float) -> float | None:
    return None if math.isnan(value) else value


def _amount(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}".replace("e+", "e").replace("e-", "e−")


def _level(level: float) -> str:
    return f"{100 * level:g}{NBSP}%"
