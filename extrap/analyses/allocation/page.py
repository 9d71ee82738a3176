"""A compute budget split between parameters and tokens: the answer, the page of a study."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from extrap.analyses.allocation import Allocation, AllocationCheck, AllocationReport
from extrap.analyses.allocation.checks import CheckedSplit
from extrap.analyses.allocation.flags import MEANINGS
from extrap.records import Interval, Measure
from extrap.records.notes import USING, Note
from extrap.records.numbers import (
    NBSP,
    beside,
    format_given,
    format_level,
    format_percent,
    format_quantity,
    format_scientific,
    format_value,
    stacked,
)
from extrap.reporting.blocks import (
    Answer,
    Block,
    Columns,
    Details,
    Figure,
    Page,
    Paragraph,
    Warnings,
)
from extrap.reporting.charts import BAND, Axis, XYChart, points
from extrap.reporting.flags import confidence, explain_flags
from extrap.reporting.study_page import About, estimate, measured, study_page
from extrap.reporting.tables import Colored, Table, tabulated

SAME_PARAMS = 1.15
"""Factor within which a run has the recommended parameters."""
GRAVE = ("budget-far-from-runs", "estimators-disagree", "law-in-doubt")
"""Flags that make the confidence low."""
ESTIMATOR_INKS = {"parametric": "law", "isoflop": "good"}
"""Estimator → its colour."""
LIMITS = (
    "Parameters exclude embeddings and work is 6 N D; another convention moves the split.",
    "Only the learning rate was tuned. A batch size tuned for each budget may favour longer "
    "training. The check uses forecast learning rates; an error in them makes a split look worse.",
    "The interval of the loss is that of a forecast and includes a share of the predicted change; "
    "those of the split hold if its estimator is right.",
    "With more than one epoch the answer relies on measurements of language models (Muennighoff "
    "et al. 2023); no run of this study repeats data.",
)


def allocation_answer(allocation: Allocation, *, more: str = "", color: str = "") -> Answer:
    """The split and its loss; `more` follows them."""
    loss = ""
    if allocation.loss != Measure():
        loss = f"; expect a loss of {estimate(allocation.loss, allocation.level)}"
    n = len(allocation.estimators)
    ratio = f"{format_quantity(allocation.extrapolation_ratio, digits=2)} times the largest run"
    certain = f"Confidence: high; profiles and law agree, and the budget is {ratio}."
    if n < 2:
        certain = "Confidence: medium; only one estimator could be used, so none confirms it."
    return Answer(
        text=f"Train {_size(allocation.params)} parameters on {_size(allocation.tokens)} tokens "
        f"for {format_scientific(allocation.flops)} FLOPs{loss}. From "
        f"{_range(allocation.near_best)} parameters the loss is within 0.1{NBSP}% of the "
        f"best.{more}",
        confidence=confidence(allocation.warnings, MEANINGS, grave=GRAVE, otherwise=certain),
        color=color,
    )


def study_answer(report: AllocationReport) -> Answer:
    """The split, the exponent, and what training at the budget showed."""
    allocation, check = report.allocation, report.check
    verdict = "no other split is significantly better"
    if not check.is_best:
        factor = format_given(check.best.factor)
        verdict = f"{factor} times the parameters is significantly better"
    held = "inside" if check.holds else "outside"
    more = (
        f" Parameters grow as C to the {estimate(allocation.exponent)}. In runs at this budget "
        f"{verdict}, and the loss of {estimate(check.recommended.loss)} is {held} the interval."
    )
    return allocation_answer(
        allocation, more=more, color="good" if report.is_borne_out else "warn"
    )


def allocation_blocks(allocation: Allocation) -> list[Block]:
    """The answer, warnings and the split under constraints; closed, that by every estimator."""
    warnings = Warnings(explain_flags(allocation.warnings, MEANINGS))
    return [allocation_answer(allocation), warnings, _others(allocation), _details(allocation)]


def _details(allocation: Allocation) -> Details:
    notes = (Paragraph(f"Note: {note}") for note in allocation.notes if Note(note).code != USING)
    return Details("Estimators", (_estimators(allocation), *notes))


def allocation_page(report: AllocationReport, about: About) -> Page:
    """The page of a study."""
    allocation = report.allocation
    blocks: list[Block] = [
        study_answer(report),
        Columns((Figure(_profiles(report)), Figure(_course(report)))),
        Warnings(explain_flags(allocation.warnings, MEANINGS)),
        _check_table(report),
        _others(allocation),
        _details(allocation),
        Details("Profiles", (_optima(report),)),
    ]
    return study_page(
        "allocation",
        about,
        blocks,
        caveats=LIMITS,
        counts={"runs": report.n_runs},
        status=Colored("borne out", "good")
        if report.is_borne_out
        else Colored("not borne out", "bad"),
    )


def _estimators(allocation: Allocation) -> Table:
    """Every estimator's split, and why some could not be used."""
    rows: list[tuple[str, ...]] = []
    for name, split in allocation.estimators.items():
        sizes = (_size_cell(m) for m in (split.params, split.tokens, split.tokens_per_param))
        rows.append((name, *sizes, measured(split.exponent), _range(split.near_best), split.how))
    rows += [
        (name, *["–"] * 5, f"not possible: {why}") for name, why in allocation.refused.items()
    ]
    columns = ("estimator", "parameters", "tokens", "tokens per parameter")
    return Table(
        caption=f"Split of {format_scientific(allocation.flops)} FLOPs by estimator, with "
        f"{format_level(allocation.level)} intervals",
        columns=(*columns, "exponent of parameters", "loss within 0.1 % of the best", "method"),
        rows=tuple(rows),
        note=f"The answer is that of {allocation.estimator}.",
    )


def _others(allocation: Allocation) -> Table:
    """The split on repeated data and the one that counts serving, where asked for."""
    rows = []
    if (repeated := allocation.repeated) is not None:
        rows.append(
            (
                f"unique tokens {format_quantity(repeated.unique_tokens)}, repeated",
                *map(_size_cell, (repeated.params, repeated.tokens)),
                measured(repeated.loss),
                f"{_size(repeated.epochs)} epochs, worth {_size(repeated.effective_epochs)}",
            )
        )
    if (serving := allocation.serving) is not None:
        saving = format_percent(serving.saving.value or 0.0, signed=False)
        total = format_scientific(serving.total_flops.value or 0.0)
        rows.append(
            (
                f"served tokens {format_quantity(serving.inference_tokens)}, same loss",
                *map(_size_cell, (serving.params, serving.tokens)),
                measured(serving.loss),
                f"{total} FLOPs with serving, {saving} fewer",
            )
        )
    columns = ("constraint", "parameters", "tokens", "loss", "amounts to")
    return Table("Other ways to spend the budget", columns, rows)


def _check_table(report: AllocationReport) -> Table:
    """The splits that were trained at the budget."""
    check = report.check

    def excess(split: CheckedSplit) -> str:
        return "–" if split is check.recommended else measured(split.excess)

    return tabulated(
        f"Runs at {format_scientific(report.allocation.flops)} FLOPs: means over seeds, with "
        "Student's t intervals",
        check.splits,
        {
            "result": lambda split: _result(split, check),
            "multiple of the parameters": lambda split: format_given(split.factor),
            "parameters": lambda split: format_quantity(split.params),
            "tokens": lambda split: format_quantity(split.tokens),
            "epochs": lambda split: format_quantity(split.epochs, digits=2),
            "learning rate": lambda split: format_quantity(split.lr),
            "runs": lambda split: str(len(split.losses)),
            "loss": lambda split: measured(split.loss),
            "excess loss": excess,
        },
        note=_expected(check),
    )


def _result(split: CheckedSplit, check: AllocationCheck) -> str:
    if split is check.recommended:
        return "recommended"
    if 0.0 in split.excess.ci:
        return "no significant difference"
    return "better" if (split.excess.ci.upper or 0.0) < 0 else "worse"


def _expected(check: AllocationCheck) -> str:
    """What was expected of the loss of the recommended split, and whether it holds."""
    holds = "holds" if check.holds else "does not hold"
    text = f"Recommended split: the expected loss {estimate(check.forecast)} {holds} the mean"
    if check.prediction != Measure():
        n = len(check.recommended.losses)
        text += f"; the forecast of one new run {estimate(check.prediction)} holds "
        text += f"{check.n_predicted} of {n} runs"
    return f"{text}."


def _optima(report: AllocationReport) -> Table:
    """Every size and length of the profiles."""

    def loss(row: Mapping[str, float]) -> str:
        is_known = not math.isnan(row["loss"])
        return format_value(row["loss"], row["loss_se"]) if is_known else "not bracketed"

    return tabulated(
        "Loss at the best learning rate of every size and length",
        report.optima.to_dict("records"),
        {
            report.column: lambda row: format_quantity(row[report.column]),
            "parameters": lambda row: format_quantity(row["params"]),
            "tokens": lambda row: format_quantity(row["tokens"]),
            "FLOPs": lambda row: format_scientific(6 * row["params"] * row["tokens"]),
            "best learning rate": lambda row: format_quantity(row["lr"]),
            "loss": loss,
        },
    )


def _profiles(report: AllocationReport) -> XYChart:
    """Loss against parameters at every budget, the best split of each, the runs of the check."""
    profiles, (tried, chosen) = _with_budget(report), _checked(report)
    budgets = sorted(report.course)
    lines = [
        points(
            profiles.loc[profiles["flops"] == flops, ["params", "loss"]].to_numpy(),
            ink=f"size:{round(position / max(1, len(budgets) - 1), 3)}",
            line="-",
            marker="o",
            label=f"{format_scientific(flops)} FLOPs",
        )
        for position, flops in enumerate(budgets)
    ]
    best = [
        (allocation.params.value, allocation.loss.value) for allocation in report.course.values()
    ]
    budget = f"{format_scientific(report.allocation.flops)} FLOPs"
    return XYChart(
        title="Loss against parameters, by budget",
        x=Axis("parameters (non-embedding)"),
        y=Axis("loss at the best learning rate", is_log=False),
        series=(
            *lines,
            points(best, marker="D", label="best split"),
            points(tried, ink="warn", marker="^", label="other splits"),
            points(chosen, marker="^", label=budget),
        ),
    )


def _course(report: AllocationReport) -> XYChart:
    """Best parameters against the budget by every estimator, and the splits that were trained."""
    splits = {**report.course, report.allocation.flops: report.allocation}
    answer = report.allocation.estimator
    courses = []
    for name in report.allocation.estimators:
        best_params = [
            (c, s.estimators[name].params) for c, s in splits.items() if name in s.estimators
        ]
        rows = [
            (c, params.value, *(params.ci if name == answer else ())) for c, params in best_params
        ]
        style = BAND if name == answer else {"line": "--"}
        courses.append(points(rows, ink=ESTIMATOR_INKS[name], label=name, **style))
    tried, chosen = (
        [(report.allocation.flops, n) for n in dict.fromkeys(n for n, _ in runs)]
        for runs in _checked(report)
    )
    return XYChart(
        title="Best parameters against the budget",
        x=Axis("budget, FLOPs"),
        y=Axis("parameters"),
        series=(
            points(_with_budget(report)[["flops", "params"]].to_numpy(), ink="muted", marker="."),
            *courses,
            points(tried, ink="warn", marker="^"),
            points(chosen, marker="^"),
        ),
        shaded=(min(report.course), max(report.course)),
    )


def _with_budget(report: AllocationReport) -> pd.DataFrame:
    """Points of the profiles with a loss, each at the nearest budget."""
    bracketed = report.optima.dropna(subset=["loss"])
    budgets = np.array(sorted(report.course))
    log_flops = np.log(6 * bracketed["params"].to_numpy() * bracketed["tokens"].to_numpy())
    nearest = np.abs(np.log(budgets)[None, :] - log_flops[:, None]).argmin(axis=1)
    return bracketed.assign(flops=budgets[nearest]).sort_values(["flops", "params"])


def _checked(report: AllocationReport) -> tuple[list[tuple[float, float]], ...]:
    """Parameters and loss of the runs of the check: other splits, and the recommended one."""
    runs = report.runs.dropna(subset=["loss"])[["n_params", "loss"]].astype(float)
    best = report.check.recommended.params
    is_near = [abs(math.log(n / best)) < math.log(SAME_PARAMS) for n in runs["n_params"]]
    rows = list(zip(is_near, runs.itertuples(index=False), strict=True))
    return tuple(
        [(n, loss) for near, (n, loss) in rows if near == is_it] for is_it in (False, True)
    )


def _range(sides: Interval) -> str:
    """Sizes from one to another."""
    return " to ".join(format_quantity(side or 0.0, digits=3) for side in sides)


def _size(measure: Measure) -> str:
    """A size that is estimated: three digits."""
    return beside(_size_cell(measure))


def _size_cell(measure: Measure) -> str:
    """The same for a table: the interval below the value."""
    return stacked(measure.value, measure.ci, lambda size: format_quantity(size, digits=3))
