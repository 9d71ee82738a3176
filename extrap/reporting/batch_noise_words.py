"""The noise scale in words: its growth, its collapse over the loss, its use for a batch."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from extrap.batching import (
    Agreement,
    BatchFindings,
    Collapse,
    TaskResult,
    agreement,
    collapse,
    growth,
)
from extrap.reporting.batch_tables import power
from extrap.reporting.numbers import format_percent, format_quantity

__all__ = [
    "agreement_of",
    "agreement_sentences",
    "collapse_of",
    "collapse_sentences",
    "growth_sentence",
    "r_squared_words",
]

GROWS = 2.0
"""Growth of the noise scale above which a batch may as well grow."""
LARGE_DRIFT = 2.0
"""Factor over all sizes that an interval may reach before the question counts as open."""
CLEARLY = 1.2
"""Ratio of scatters above which the loss explains more than the step does."""
SMALL_DRIFT = 1.1
"""Factor over all sizes below which the noise scale at equal loss counts as the same."""


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


def growth_sentence(findings: Sequence[BatchFindings]) -> str:
    """By how much noise grows during training, over all courses; empty without any."""
    factors = []
    for found in findings:
        courses = found.result.courses
        if courses.empty:
            continue
        for _, course in courses.groupby(list(found.result.task.study.sizes)):
            grown = growth(course).value
            if grown is not None:
                factors.append(grown)
    if not factors:
        return ""
    low, high = min(factors), max(factors)
    ends = [format_quantity(float(f"{factor:.2g}")) for factor in (low, high)]
    span = ends[0] if high / low < 1.05 else " to ".join(ends)
    do = (
        "A batch that suits the end is wasteful at the start: let it grow, or choose it for the "
        "part of the training that costs most."
        if high > GROWS
        else "One batch serves the whole training."
    )
    return f"From the first window to the last the noise scale grows by a factor of {span}. {do}"


def collapse_sentences(found: Collapse | None, result: TaskResult) -> list[str]:
    """Whether the sizes are one curve over the loss, against one curve over the step."""
    if found is None:
        return ["Fewer than three sizes with a noise scale: whether they collapse is not told."]
    column = next(iter(result.task.study.sizes))
    sizes = result.courses[column]
    ratio = float(sizes.max() / sizes.min())
    q, (lower, upper) = found.size_exponent.value or 0.0, found.size_exponent.ci
    drift = max(ratio**q, ratio**-q)
    alike = lower is not None and upper is not None and lower <= 0 <= upper
    at_loss = f"at equal loss the noise scale goes as {column}^{power(found.size_exponent)}"
    widest = max(ratio ** max(-(lower or 0.0), upper or 0.0), 1.0)
    if alike and widest > LARGE_DRIFT:
        verdict = (
            f"Whether the curves of {found.n_sizes} sizes collapse over the loss is not decided: "
            f"{at_loss}, an interval that holds 0 and a factor of {widest:.2g} over all sizes too."
        )
        do = "More seeds, a longer training or a wider range of sizes would tell."
    elif alike:
        verdict = (
            f"The curves of {found.n_sizes} sizes collapse over the loss as far as is seen: "
            f"{at_loss}, an interval that holds 0."
        )
        do = "Measure the noise scale on a small model at the loss the large one will have."
    elif drift < SMALL_DRIFT:
        verdict = (
            f"The curves of {found.n_sizes} sizes nearly collapse over the loss: {at_loss}, "
            f"a factor of {drift:.2f} over all sizes."
        )
        do = "For a choice of batch a small model at the same loss tells enough."
    else:
        verdict = (
            f"The curves of {found.n_sizes} sizes do not collapse over the loss: {at_loss}, a "
            f"factor of {drift:.2g} over all sizes."
        )
        do = f"Correct a small model's noise scale by {column} before it is used for a larger one."
    spread = (
        f"One curve over the loss for all sizes leaves a scatter of {_percent(found.log_sd)}, "
        f"with a term of the size {_percent(found.log_sd_by_size)}; one curve over the step, the "
        f"trivial alternative, {_percent(found.log_sd_of_step)}."
    )
    if found.log_sd_of_step < CLEARLY * found.log_sd:
        spread += " The loss explains hardly more than the step does: no evidence for its role."
    return [verdict, spread, do]


def agreement_sentences(found: Agreement | None) -> list[str]:
    """How noise scales and critical batches agree, and what that is good for."""
    if found is None:
        return ["Fewer than three pairs have both a noise scale and a critical batch: no verdict."]
    level = f"{found.ratio:.2g} times" if found.ratio >= 0.1 else f"{found.ratio:.1g} times"
    left = (
        f" {found.n_left_out} more without a point estimate of one of them left out."
        if found.n_left_out
        else ""
    )
    slope = "" if found.slope is None else f", the slope {found.slope:.2f}"
    return [
        f"Over {found.n_pairs} pairs and {found.decades:.1f} decades of the noise scale "
        f"r² of the logs is {r_squared_words(found)}{slope}. The critical batch is {level} the "
        f"mean noise scale in the (geometric) mean; they differ by a factor of "
        f"{found.largest_factor:.2g} at most, and by less than {found.factor:g} in "
        f"{round(found.share_within * found.n_pairs)} of {found.n_pairs}.{left}",
        "They are not the same thing. The noise scale compares gradients at one batch and assumes "
        "plain SGD and a Hessian like the identity; the critical batch is counted in tuned runs "
        "at many. Let the noise scale say where to look, and count steps at two or three batches "
        "around it before much is spent.",
    ]


def r_squared_words(found: Agreement) -> str:
    """r² of the logs; unknown where one of the two does not vary."""
    return "unknown" if found.r_squared is None else f"{found.r_squared:.2f}"


def _percent(fraction: float) -> str:
    return format_percent(fraction, signed=False)
