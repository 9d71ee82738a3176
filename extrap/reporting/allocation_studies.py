"""An allocation study in words, tables, a page of its own."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from extrap import __version__
from extrap.planning import Allocation, AllocationCheck, CheckedSplit
from extrap.records import Interval, Measure
from extrap.records.codec import document, encode
from extrap.reporting.allocations import repeated_line, serving_line
from extrap.reporting.envelopes import PageHead
from extrap.reporting.figures import (
    draw_isoflop_profiles,
    draw_split_course,
    draw_svg,
    isoflop_profiles_info,
    split_course_info,
)
from extrap.reporting.glossary import explain_flags, flag_lines
from extrap.reporting.numbers import NBSP, format_estimate, format_interval, format_quantity
from extrap.reporting.pages import render_page, write_page
from extrap.reporting.plates import Plate
from extrap.reporting.tables import Table

__all__ = ["AllocationReport", "allocation_headline", "allocation_page", "allocations_text"]

SAME_PARAMS = 1.15
"""Factor within which a run has the recommended parameters."""
LIMITS = (
    "Parameters are counted without embeddings. With them, or with other work per token, the "
    "split moves; 6 N D is a convention.",
    "Rates were tuned at every size and length of the profiles; batch, schedule and warm-up were "
    "not. A batch tuned for each budget may favour longer training.",
    "The runs of the check have the rate that the sweep's law forecasts, none tuned there. A rate "
    "that is wrong for one of the splits makes it look worse than it is.",
    "The interval of the loss counts a share of the predicted change, the misfit of the largest "
    "budgets and other forms of the law that fit as well; those of parameters, tokens and "
    "exponents hold if the form of the law is right.",
    "With more than one epoch the answer is borrowed from language models (Muennighoff et al. "
    "2023); no run of this study repeats data.",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AllocationReport:
    """What an allocation study found.

    Attributes:
        found: The split of the budget that was checked.
        course: Budget of the profiles → its split.
        check: What training there showed.
        optima: `params`, `tokens`, `loss`, `loss_se`, `lr` and the size, at every size and length.
        runs: Runs of the check, as in the run table.
        column: The model's size column.
        n_runs: Runs of all.
    """

    found: Allocation
    course: dict[float, Allocation]
    check: AllocationCheck
    optima: pd.DataFrame
    runs: pd.DataFrame
    column: str
    n_runs: int


def allocation_headline(report: AllocationReport) -> str:
    """The split, the exponent, and whether training at the budget bore them out."""
    found, check = report.found, report.check
    others = [split for split in check.splits if split is not check.recommended]
    told = "; ".join(
        f"{split.factor:g} times the parameters {_signed(split.excess)} nats" for split in others
    )
    verdict = (
        "no split that was tried is told to be better"
        if check.is_best
        else f"{check.best.factor:g} times the parameters is better"
    )
    held = "inside" if check.holds else "outside"
    return (
        f"{found.flops:.3g} FLOPs, {found.extrapolation_ratio:.2g} times the largest profile, go "
        f"to {_words(found.params)} parameters on {_words(found.tokens)} tokens; parameters grow "
        f"as C to the {_estimate(found.exponent)}. Trained there, {verdict}: {told}. The loss is "
        f"{_estimate(check.recommended.loss)}, {held} the law's {_estimate(check.forecast)}"
        f"{_if_right(check)}; the forecast of one new run, {_estimate(check.prediction)}, holds "
        f"{check.n_predicted} of {len(check.recommended.losses)}."
    )


def _if_right(check: AllocationCheck) -> str:
    if check.if_right == Measure(value=None, ci=Interval(None, None)):
        return ""
    held = "inside" if check.holds_if_right else "outside"
    return f" and {held} {format_interval(check.if_right.ci)}, its interval if its form were right"


def allocations_text(report: AllocationReport) -> str:
    """The headline, then a line a split that was trained."""
    lines = [allocation_headline(report), ""]
    lines += [
        f"- {split.factor:g} × the parameters: {split.params:.0f} on {split.tokens:.0f} tokens, "
        f"loss {_estimate(split.loss)}, against the recommended {_signed(split.excess)}"
        for split in report.check.splits
    ]
    lines += flag_lines(report.found.warnings, of="allocation")
    return "\n".join(lines).replace(NBSP, " ")


def estimator_table(found: Allocation) -> Table:
    """What every estimator says of the budget."""
    rows = tuple(
        (
            f"{name}{' (the answer)' if name == found.estimator else ''}",
            _cell(estimated.params),
            _cell(estimated.tokens),
            _cell(estimated.tokens_per_param),
            _stacked(estimated.loss),
            _stacked(estimated.exponent),
        )
        for name, estimated in found.estimators.items()
    )
    words = [f"{name}: {estimated.how}" for name, estimated in found.estimators.items()]
    words += [f"{name}: not possible: {why}" for name, why in found.refused.items()]
    return Table(
        caption=f"The split of {found.flops:.3g} FLOPs, {100 * found.level:g}{NBSP}% intervals",
        columns=(
            "estimator",
            "parameters",
            "tokens",
            "tokens a parameter",
            "loss",
            "exponent of parameters",
        ),
        rows=rows,
        note="; ".join(words),
    )


def check_table(report: AllocationReport) -> Table:
    """The splits that were trained at the budget."""
    return Table(
        caption="Trained at that budget, means over seeds with Student's t intervals",
        columns=(
            "times the recommended parameters",
            "parameters",
            "tokens",
            "epochs",
            "rate",
            "runs",
            "loss",
            "against the recommended",
        ),
        rows=tuple(_check_row(split, report.check) for split in report.check.splits),
        note=f"Of the recommended split the law expects {_estimate(report.check.forecast)} on "
        f"average, a forecast of the sweep {_estimate(report.check.prediction)} of one new run.",
    )


def _check_row(split: CheckedSplit, check: AllocationCheck) -> tuple[str, ...]:
    is_base = split is check.recommended
    return (
        f"{split.factor:g}",
        f"{split.params:.0f}",
        f"{split.tokens:.0f}",
        f"{split.epochs:.2g}",
        format_quantity(split.lr),
        f"{len(split.losses)}",
        _stacked(split.loss),
        "–" if is_base else _signed(split.excess).replace(" (", "\n", 1).removesuffix(")"),
    )


def optima_rows(report: AllocationReport) -> Table:
    """Every size and length of the profiles."""
    return Table(
        caption="Loss at the best rate of every size and length",
        columns=(report.column, "parameters", "tokens", "budget", "best rate", "loss"),
        rows=tuple(
            (
                f"{row[report.column]:g}",
                f"{row['params']:.0f}",
                f"{row['tokens']:.0f}",
                f"{6 * row['params'] * row['tokens']:.3g}",
                format_quantity(row["lr"]),
                f"{row['loss']:.4f} ± {row['loss_se']:.4f}"
                if row["loss"] == row["loss"]
                else "not bracketed",
            )
            for row in report.optima.to_dict("records")
        ),
    )


def allocation_page(
    report: AllocationReport,
    *,
    path: str | Path,
    title: str,
    question: str,
    created: str,
    provenance: Mapping[str, str],
) -> Path:
    """Write the study as one HTML file that loads nothing else.

    Args:
        report: What was found.
        path: Where to write; missing folders are made.
        title: Heading.
        question: The question asked, one sentence.
        created: When, ISO 8601.
        provenance: Rows of the provenance table.

    Returns:
        The path written.
    """
    found = report.found
    own = {
        "runs in all": str(report.n_runs),
        "extrap": __version__,
        "Python": platform.python_version(),
    }
    others = [
        line.replace(NBSP, " ")
        for line in (
            repeated_line(found.repeated) if found.repeated else "",
            serving_line(found.serving) if found.serving else "",
        )
        if line
    ]
    head = PageHead(
        kind="allocation",
        title=title,
        question=question,
        answer=allocation_headline(report),
        created=created,
        status="borne out" if _is_good(report) else "not borne out",
    )
    html = render_page(
        "allocations.html.j2",
        head,
        numbers=_numbers(report),
        is_good=_is_good(report),
        profiles=_profiles_plate(report),
        course=_course_plate(report),
        estimators=estimator_table(found),
        checked=check_table(report),
        others=[f"{line[0].upper()}{line[1:]}." for line in others],
        flags=explain_flags(found.warnings, of="allocation"),
        notes=found.notes,
        limits=LIMITS,
        provenance=[(k, v) for k, v in {**own, **provenance}.items() if v],
    )
    return write_page(html, path)


def _is_good(report: AllocationReport) -> bool:
    """Whether training bore the split out."""
    return report.check.is_best and report.check.n_predicted > 0


def _numbers(report: AllocationReport) -> dict[str, Any]:
    """The split, what its check showed, and the optima of the profiles, as JSON."""
    return encode(
        {
            "kind": "extrap-allocation-study",
            "schema_version": 1,
            "allocation": document(report.found),
            "check": asdict(report.check),
            "optima": report.optima.to_dict("records"),
            "n_runs": report.n_runs,
        }
    )


def _checked_runs(report: AllocationReport) -> pd.DataFrame:
    """Parameters and loss of every run of the check, and whether they are the recommended ones."""
    params = report.check.recommended.params
    runs = report.runs.dropna(subset=["loss"])
    ratio = runs["n_params"] / params
    return pd.DataFrame(
        {
            "params": runs["n_params"],
            "loss": runs["loss"],
            "is_recommended": (ratio < SAME_PARAMS) & (ratio > 1 / SAME_PARAMS),
        }
    )


def _profiles_plate(report: AllocationReport) -> Plate:
    info = isoflop_profiles_info(
        report.optima, report.course, _checked_runs(report), report.found.flops
    )
    svg, narrow = (
        draw_svg(
            lambda ax: draw_isoflop_profiles(ax, info),
            width=width,
            height=height,
            key=key,
            label="Loss against parameters, a line for each budget, with the best split marked.",
        )
        for width, height, key in ((880, 420, "profiles-figure"), (480, 420, "profilesnarrow"))
    )
    return Plate(
        title="",
        svg=svg,
        narrow_svg=narrow,
        text="Every point is a size at its best rate; all points of a line cost the same. "
        "Triangles: runs at the budget that was forecast, trained after the split was sealed.",
        tables=(optima_rows(report),),
    )


def _course_plate(report: AllocationReport) -> Plate:
    info = split_course_info(report.optima, report.course, report.found, _checked_runs(report))
    svg, narrow = (
        draw_svg(
            lambda ax: draw_split_course(ax, info),
            width=width,
            height=420,
            key=key,
            label="Best parameters against the budget by three estimators, with bands.",
        )
        for width, key in ((880, "course-figure"), (390, "coursenarrow"))
    )
    percent = f"{100 * report.found.level:g}{NBSP}%"
    return Plate(
        title="",
        svg=svg,
        narrow_svg=narrow,
        text=f"Lines: best parameters by each estimator, with {percent} bands; shaded: budgets "
        "that were fitted. Dots: sizes of the profiles, the lighter the higher their loss.",
    )


def _signed(measure: Measure) -> str:
    text = _estimate(measure)
    return text if (measure.value or 0.0) <= 0 else f"+{text}"


def _estimate(measure: Measure) -> str:
    return format_estimate(measure.value, measure.ci)


def _stacked(measure: Measure) -> str:
    if measure.value is None and measure.ci == Interval(None, None):
        return "–"
    return _estimate(measure).replace(" (", "\n", 1).removesuffix(")")


def _words(measure: Measure) -> str:
    low, high = (format_quantity(_rounded(side)) for side in measure.ci)
    return f"{format_quantity(_rounded(measure.value))} ({low} to {high})"


def _cell(measure: Measure) -> str:
    return _words(measure).replace(" (", "\n", 1).removesuffix(")")


def _rounded(value: float | None) -> float | None:
    """To three digits: a size that is estimated."""
    return None if value is None else float(f"{value:.3g}")
