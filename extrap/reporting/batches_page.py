"""A batch study: its answer, tables and page as blocks, and its text for a terminal."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from extrap import __version__
from extrap.batching import (
    Agreement,
    BatchFindings,
    Collapse,
    TaskResult,
    agreement,
    collapse,
    growth,
)
from extrap.records import BatchStudy, Interval, Measure
from extrap.reporting import forecast_page
from extrap.reporting.batches_charts import (
    Tasks,
    noise_charts,
    of_tasks,
    pairs_chart,
    rate_charts,
    steps_charts,
    trade_off_charts,
)
from extrap.reporting.blocks import (
    Answer,
    Block,
    Columns,
    Details,
    Figure,
    Page,
    Paragraph,
    Table,
    records_table,
)
from extrap.reporting.charts import XYChart
from extrap.reporting.critical_batches import (
    Fits,
    counted,
    critical_answer,
    critical_table,
    fits_table,
    flag_warnings,
    label,
    laws_table,
    power,
    stacked,
)
from extrap.reporting.html import write_page
from extrap.reporting.numbers import NBSP, format_p_value, format_percent, format_quantity
from extrap.reporting.text import blocks_text

__all__ = ["agreement_of", "batch_page", "batches_answer", "batches_page", "batches_text"]
__all__ += ["collapse_of"]

LIMITS = (
    "Learning rates are constant and tuned at every batch size. A schedule, or momentum and "
    "weight decay tuned as well, can change the critical batch.",
    "The hyperbola describes all batch sizes by one curve. Where a warning says that it does not "
    "fit, use the counted steps.",
    "The noise scale assumes plain SGD and a Hessian like the identity, and it is measured at one "
    "batch size. It often differs from the critical batch by several times.",
    "Costs are steps and examples. Where memory or bandwidth limits a step, fewer steps may not "
    "take less time.",
    "Intervals come from few seeds and the scatter about the curves. They do not cover another "
    "data set, model or optimiser.",
)
RULES = ("linear", "square-root", "constant", "saturating", "surge")
MOSTLY = 0.9
"""Share of pairs within the factor from which the noise scale counts as a prediction."""
MANY, DECADES = 10, 2.0
"""Pairs, and decades of the noise scale, from which the confidence is high."""
LARGE_DRIFT, SMALL_DRIFT = 2.0, 1.1
"""Factors over all sizes: an interval that reaches the first decides nothing; below the second
noise scales count as nearly alike."""
MOST_NOTES = 12


def batch_page(
    study: BatchStudy,
    findings: Sequence[BatchFindings],
    *,
    path: str | Path,
    created: str,
    provenance: Mapping[str, str],
) -> Path:
    """Write a batch study as one HTML file that loads nothing else.

    Args:
        study: The study, for its name and question.
        findings: Of each of its tasks.
        path: Where to write; missing folders are made.
        created: When, ISO 8601.
        provenance: Rows of the provenance table; empty ones are left out.

    Returns:
        The path written.
    """
    return write_page(batches_page(study, findings, created=created, origin=provenance), path)


def batches_page(
    study: BatchStudy,
    findings: Sequence[BatchFindings],
    *,
    created: str,
    origin: Mapping[str, str],
) -> Page:
    """The page as blocks; see `batch_page`."""
    from extrap.reporting.batch_documents import batches_document

    tasks = _tasks(findings)
    answer, *rest = _visible(tasks)
    figures = _lead_figures(tasks)
    rows = {"extrap": __version__, "Python": platform.python_version(), **origin}
    details = (
        *_details(tasks, [figure.chart for figure in figures]),
        forecast_page.provenance([(name, value) for name, value in rows.items() if value]),
        forecast_page.limits(LIMITS),
    )
    columns = [Columns(tuple(figures))] if figures else []
    return Page(
        kind="batches",
        title=study.name,
        question=study.question,
        created=created,
        blocks=(answer, *columns, *rest, *(each for each in details if each.blocks)),
        numbers=batches_document(study, findings),
    )


def batches_text(study: BatchStudy, findings: Sequence[BatchFindings]) -> str:
    """What the page shows outside its closed parts, what became of forecasts, and the notes."""
    tasks = _tasks(findings)
    text = filter(None, [*map(_counted_sentence, findings), *_notes(tasks)])
    return blocks_text([*_visible(tasks), *map(Paragraph, text)])


def _tasks(findings: Sequence[BatchFindings]) -> Tasks:
    several = len(findings) > 1
    return [(found.result.task.study.name if several else "", found) for found in findings]


def _is_about_noise(tasks: Tasks) -> bool:
    return len(tasks) > 1 and agreement_of([found for _, found in tasks]) is not None


def _visible(tasks: Tasks) -> list[Block]:
    fits = _fits(tasks)
    main = _pairs_table(tasks) if _is_about_noise(tasks) else critical_table(fits)
    return [batches_answer([found for _, found in tasks]), *flag_warnings(fits), main]


def _captions(tasks: Tasks) -> dict[str, str]:
    level = f"{100 * tasks[0][1].result.critical.level:g}{NBSP}% intervals"
    return {
        "Steps": f"Bands: {level} of the curve. Bars: fastest and slowest seed. Crosses: kept out "
        "of the fit, with the predicted interval. Grey: diminishing returns at the lowest loss.",
        "Trade-off": "The batch grows from the upper left to the lower right. Cross: critical "
        f"batch. Dotted: {level}.",
        "Best": "Bars: one standard error. Dashed: rules at their best fit (✗: rejected).",
        "Noise": f"Bands: {level}.",
        "Critical": f"Bars: {level} of the critical batch.",
    }


def _lead_figures(tasks: Tasks) -> list[Figure]:
    """Steps and rates of the first task; of several the noise scale."""
    charts = [*steps_charts(tasks[:1])[-1:], *rate_charts(tasks[:1])[:1]]
    if _is_about_noise(tasks):
        charts = [*pairs_chart(tasks), *noise_charts(tasks)[:1]]
    return [Figure(chart, _captions(tasks)[chart.title.split()[0]]) for chart in charts]


def _details(tasks: Tasks, shown: Sequence[object]) -> Iterator[Details]:
    """The closed parts, without the charts that are shown above."""
    findings, captions = [found for _, found in tasks], _captions(tasks)
    fits, is_about_noise = _fits(tasks), _is_about_noise(tasks)

    def part(title: str, charts: Sequence[XYChart], *blocks: Block | str) -> Details:
        rest = tuple(Figure(chart) for chart in charts if chart not in shown)
        head = [captions[f.chart.title.split()[0]] for f in rest[:1]]  # type: ignore[union-attr]
        made = [*head, *([Columns(rest)] if rest else []), *blocks]
        full = [b for b in made if b and not (isinstance(b, Table) and not b.rows)]
        return Details(title, tuple(Paragraph(b) if isinstance(b, str) else b for b in full))

    held = (_held_out_sentence(tasks), _held_out_table(tasks))
    yield part("Steps against batch size", steps_charts(tasks), *held)
    forecasts = [table for found in findings for table in _forecast_tables(found)]
    counts = map(_counted_sentence, findings)
    yield part("Trade-off of steps and examples", trade_off_charts(tasks), *counts, *forecasts)
    yield part("Best learning rate", rate_charts(tasks), _rates_table(tasks))
    tables = [_agreement_table(findings), _collapse_table(findings), _growth_table(tasks)]
    tables += [] if is_about_noise else [_pairs_table(tasks)]
    yield part("Gradient noise scale", [*noise_charts(tasks), *pairs_chart(tasks)], *tables)
    reasons = [
        f"{found.result.task.study.name}: no law of the critical batch: {reason}."
        for found in findings
        if (reason := found.result.critical.reason)
    ]
    tables = [critical_table(fits)] if is_about_noise else []
    yield part("Laws and fits", (), *tables, _laws_table(tasks), *reasons, fits_table(fits))
    yield part("Runs and notes", (), _counts_table(tasks), *_notes(tasks))


def batches_answer(findings: Sequence[BatchFindings]) -> Answer:
    """How large a batch is useful, and at which rate; of several tasks whether noise tells it."""
    agreed, fits = agreement_of(findings), _fits(_tasks(findings))
    if len(findings) > 1 and agreed is not None:
        return _agreement_answer(fits, agreed)
    answer, first = critical_answer(fits[0][1]), findings[0]
    laws, joint, known = first.result.rate_laws, first.result.joint, _known_counts(first)
    text, confidence = answer.text, answer.confidence
    if joint is not None or laws:
        p = laws[max(laws)].exponent if joint is None else joint.exponents["batch_size"]
        text += f" The best learning rate goes as batch^{power(p)}."
    if known is not None:
        off, where = (known["steps"] / known["predicted"] - 1).abs().median(), first.result.task.at
        confidence = f"{confidence[:-1]}; steps forecast for {label(where)} were "
        confidence += f"{_percent(off)} off (median)."
    return replace(answer, text=text, confidence=confidence)


def _agreement_answer(fits: Fits, found: Agreement) -> Answer:
    is_told = found.share_within >= MOSTLY
    groups = [(g.b_crit, label(g.by, task)) for task, critical in fits for g in critical.groups]
    ends = sorted((b.value, f"{counted(b)} for {at}") for b, at in groups if b.value is not None)
    is_sure = found.n_pairs >= MANY and found.decades >= DECADES
    n = round(found.share_within * found.n_pairs)
    return Answer(
        text=f"The mean noise scale {'predicts' if is_told else 'does not predict'} the critical "
        f"batch: {n} of {found.n_pairs} pairs agree within a factor of {found.factor:g} (the "
        f"worst differ by {found.largest_factor:.2g}), and the critical batch is "
        f"{found.ratio:.2g} times the noise scale on average. Critical batches range from "
        f"{ends[0][1]} to {ends[-1][1]}.",
        confidence=f"Confidence: {'high' if is_sure else 'medium'}; {found.n_pairs} pairs over "
        f"{found.decades:.1f} decades, r² of the logarithms is {_three(found.r_squared)}.",
        kind="on" if is_told else "mixed",
    )


def agreement_of(findings: Sequence[BatchFindings]) -> Agreement | None:
    """Mean noise scales against critical batches over all tasks, sizes and targets."""
    tables = [f.result.noise for f in findings if not f.result.noise.empty]
    return agreement(pd.concat(tables, ignore_index=True)) if tables else None


def collapse_of(result: TaskResult) -> Collapse | None:
    """Whether the noise scales of a task's sizes are one curve over the loss."""
    sizes = list(result.task.study.sizes)
    if result.courses.empty or len(sizes) != 1:
        return None
    return collapse(result.courses, size=sizes[0], level=result.critical.level)


def _fits(tasks: Tasks) -> Fits:
    """Each task's critical batches, its targets called losses."""
    found = []
    for task, each in tasks:
        critical = each.result.critical
        groups = [
            replace(group, by={_loss(name): value for name, value in group.by.items()})
            for group in critical.groups
        ]
        found.append((task, replace(critical, groups=tuple(groups))))
    return found


def _loss(name: str) -> str:
    return "loss" if name == "target" else name


def _laws_table(tasks: Tasks) -> Table:
    """Laws of critical batches and of best rates."""
    laws = []
    for task, found in tasks:
        joint = [] if found.result.joint is None else [found.result.joint]
        for law in (*found.result.critical.laws.values(), *joint):
            exponents = {_loss(name): p for name, p in law.exponents.items()}
            laws.append((task, replace(law, columns=tuple(exponents), exponents=exponents)))
    return laws_table(laws)


def _rates_table(tasks: Tasks) -> Table:
    """Exponents of the best rate and the rules compared with them."""
    words = {True: "holds", False: "rejected", None: "cannot tell"}
    rows = []
    for task, found in tasks:
        for key, law in sorted(found.result.rate_laws.items()):
            where = label(dict(zip(found.result.task.study.sizes, key, strict=True)), task)
            row = {"where": where, "optima": str(law.n), "exponent": power(law.exponent)}
            for rule in map(law.rule, RULES):
                p = format_p_value(rule.p_value)
                row[rule.name.replace("-", " ")] = f"{words[rule.holds]}\np{NBSP}{p}"
            rows.append({**row, "bend, p": format_p_value(law.bend_p)})
    note = "A power rule holds if its exponent is not rejected and the rate does not bend; the "
    note += "curved rules (saturating, surge) if a parabola fits no better."
    return records_table("Best learning rate against batch size, and rules", rows, note=note)


def _held_out_table(tasks: Tasks) -> Table:
    columns = {"loss": "target", "batch": "batch_size"}
    return _table("Batches kept out of every fit", of_tasks(tasks, "held_out"), columns)


def _held_out_sentence(tasks: Tasks) -> str:
    """How well batches that no fit saw were predicted; empty without any."""
    rows = of_tasks(tasks, "held_out")
    if rows.empty:
        return ""
    rows = rows.dropna(subset="steps")
    trivial = (rows["steps"] / rows["interpolated"] - 1).abs().median()
    return (
        f"Steps at {len(rows)} batches kept out of the fits {_errors(rows)}. Straight lines "
        f"between the neighbouring batches would be {_percent(trivial)} off."
    )


def _forecast_tables(found: BatchFindings) -> Iterator[Table]:
    """Batch and rate recommended at the larger size; the forecast beside what was counted."""
    if found.front is None:
        return
    where = label(found.front.size, found.result.task.study.name)
    rows = []
    for each in found.front.recommended:
        of = {"batch": each.batch, "learning rate": each.lr, "steps": each.steps}
        of |= {"examples": each.examples}
        rows.append({"loss": f"{each.target:g}", **{name: stacked(m) for name, m in of.items()}})
    overhead = _percent(found.result.critical.overhead)
    yield records_table(f"Recommended: {overhead} above linear scaling, {where}", rows)
    table = found.front.table if found.checked is None else found.checked
    columns = {"loss": "target", "batch": "batch_size", "learning rate": "lr"}
    if found.checked is not None:
        columns |= {"fewest steps tried": "best", "at the rate times": "best_factor"}
    yield _table(f"Forecast, {where}", table.assign(where=where), columns)


def _counted_sentence(found: BatchFindings) -> str:
    """What became of the forecast at the larger size; empty where the task names none."""
    task, known, joint = found.result.task, _known_counts(found), found.result.joint
    if not task.at:
        return ""
    where = label(task.at, task.study.name)
    if found.front is None:
        reason = "too few sizes reach a target" if joint else "tune at two sizes or more"
        return f"{where} could not be forecast: {reason}."
    if known is None:
        is_missing = found.checked is None
        return f"{where}: " + (
            "no runs yet; resume the study." if is_missing else "no run reached a target."
        )
    off, trivial = (
        (known["steps"] / known[name] - 1).abs().median() for name in ("predicted", "as_largest")
    )
    text = f"{where}: steps counted after the forecast {_errors(known)}."
    if np.isfinite(trivial):
        text += f" The steps of the largest size of the sweep would be {_percent(trivial)} off"
        text += ", so use them instead." if trivial <= off else "."
    return text


def _known_counts(found: BatchFindings) -> pd.DataFrame | None:
    known = None if found.checked is None else found.checked.dropna(subset="steps")
    return None if known is None or known.empty else known


def _errors(rows: pd.DataFrame) -> str:
    off = (rows["steps"] / rows["predicted"] - 1).abs()
    closed = rows.dropna(subset=["lower", "upper"])
    n_inside = int(closed["steps"].between(closed["lower"], closed["upper"]).sum())
    return (
        f"differ from their prediction by {_percent(off.median())} in the median "
        f"({_percent(off.max())} at most); {n_inside} of {len(closed)} are inside their interval"
    )


def _growth_table(tasks: Tasks) -> Table:
    rows = []
    courses = of_tasks(tasks, "courses")
    for where, course in courses.groupby("where", sort=False) if len(courses) else ():
        known = course.dropna(subset="noise_scale")
        if len(known):
            row = {"where": str(where), "measured at batch": _count(course["batch_size"].iloc[0])}
            for name, i in (("first window", 0), ("last window", -1)):
                row[name] = _count(known["noise_scale"].iloc[i])
            rows.append({**row, "growth": stacked(growth(course))})
    return records_table("Growth of the noise scale during training", rows)


def _collapse_table(findings: Sequence[BatchFindings]) -> Table:
    rows = []
    for found in findings:
        if (fitted := collapse_of(found.result)) is not None:
            rows.append(
                {
                    "task": found.result.task.study.name,
                    "one curve over the loss": _collapses(fitted, found.result),
                    "exponent of the size at equal loss": power(fitted.size_exponent),
                    "exponent of the loss": power(fitted.loss_exponent),
                    "scatter over the loss": _percent(fitted.log_sd),
                    "over loss and size": _percent(fitted.log_sd_by_size),
                    "over the step": _percent(fitted.log_sd_of_step),
                }
            )
    return records_table("Noise scale at equal loss", rows)


def _collapses(found: Collapse, result: TaskResult) -> str:
    sizes = result.courses[next(iter(result.task.study.sizes))]
    ratio, (lower, upper) = float(sizes.max() / sizes.min()), found.size_exponent.ci
    if lower is not None and upper is not None and lower <= 0 <= upper:
        return "cannot tell" if ratio ** max(-lower, upper) > LARGE_DRIFT else "yes"
    return "nearly" if ratio ** abs(found.size_exponent.value or 0.0) < SMALL_DRIFT else "no"


def _pairs_table(tasks: Tasks) -> Table:
    rows = of_tasks(tasks, "noise")
    columns: dict[str, str | tuple[str, ...]] = {"loss": "target"}
    columns |= {"mean noise scale": ("noise_scale", "lower", "upper")}
    columns |= {"critical batch": ("b_crit", "b_lower", "b_upper"), "ratio": "ratio"}
    if len(rows):
        rows = rows.assign(ratio=rows["b_crit"] / rows["noise_scale"])
    return _table("Noise scales and critical batches", rows, columns)


def _agreement_table(findings: Sequence[BatchFindings]) -> Table:
    found = agreement_of(findings)
    names = {
        "n_pairs": "pairs",
        "n_left_out": "pairs without a point estimate",
        "share_within": "share within a factor of 10",
        "largest_factor": "largest factor between the two",
        "ratio": "critical batch / noise scale, geometric mean",
        "decades": "decades of the noise scale",
        "r_squared": "r² of the logarithms",
        "slope": "slope of the logarithms",
    }
    rows = [{"what": name, "value": _three(getattr(found, key))} for key, name in names.items()]
    return records_table("Agreement", rows if found else [])


def _counts_table(tasks: Tasks) -> Table:
    """How many runs and batches reached each target, and how many could not be used."""
    rows = []
    for _, found in tasks:
        for target, part in found.result.tuned.groupby("target", sort=False):
            numbers = {
                "runs": part["n_runs"].sum(),
                "reached it": part["n_reached"].sum(),
                "too few steps": part["n_censored"].sum(),
                "diverged or failed": part["n_infeasible"].sum(),
                "batches that reached it": (part["status"] == "reached").sum(),
                "batches: too few steps": (part["status"] == "censored").sum(),
                "batches: none sound": (part["status"] == "infeasible").sum(),
                "best rate at an edge": part["at_edge"].sum(),
            }
            row = {"task": found.result.task.study.name, "loss": f"{target:g}"}
            rows.append({**row, **{name: str(int(n)) for name, n in numbers.items()}})
    return records_table("Runs and batch sizes", rows)


def _notes(tasks: Tasks) -> list[str]:
    """What could not be done, task by task; then why an edge of a grid matters."""
    notes = [f"{task}: {n}".removeprefix(": ") for task, f in tasks for n in f.result.notes]
    shown, more = notes[:MOST_NOTES], len(notes) - MOST_NOTES
    shown += [f"{more} further notes."] if more > 0 else []
    if any("at the edge" in note for note in notes):
        shown.append(
            "A better learning rate may lie beyond the edge of a grid: steps there are too many, "
            "and the law of the rate leaves these batches out. Raise growth= or widen the range "
            "of lr, and resume."
        )
    return shown


def _table(
    caption: str, frame: pd.DataFrame, columns: Mapping[str, str | tuple[str, ...]]
) -> Table:
    """Rows of a table, with prediction, count and their difference where it has `predicted`."""
    rows = []
    for row in frame.to_dict("records"):
        made = {"where": str(row["where"])}
        for name, of in columns.items():
            made[name] = _count(row[of]) if isinstance(of, str) else _stacked(*map(row.get, of))
        if "predicted" in row:
            steps, sides = row.get("steps", math.nan), Interval(row["lower"], row["upper"])
            is_known = math.isfinite(steps)
            made["predicted"] = _stacked(row["predicted"], *sides)
            made["counted"] = _count(steps)
            off = steps / row["predicted"] - 1
            made["difference"] = format_percent(off) if is_known else "–"
            made["in interval"] = "–" if not is_known else "yes" if steps in sides else "no"
        rows.append(made)
    return records_table(caption, rows)


def _stacked(*numbers: float | None) -> str:
    value, *ends = (float(v) if v is not None and math.isfinite(v) else None for v in numbers)
    return stacked(Measure(value=value, ci=Interval(*ends)))


def _count(value: float) -> str:
    return format_quantity(float(f"{value:.3g}")) if math.isfinite(value) else "–"


def _three(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"


def _percent(fraction: float) -> str:
    return format_percent(fraction, signed=False)
