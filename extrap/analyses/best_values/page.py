"""What is printed of the law of a best value: the answer, and the values over size."""

from __future__ import annotations

from collections.abc import Sequence

from extrap.analyses.best_values.value_law import THEORY, BestValues
from extrap.records.numbers import (
    counted,
    format_estimate,
    format_level,
    format_quantity,
    format_value,
)
from extrap.reporting.blocks import Answer, Block
from extrap.reporting.tables import tabulated

EXACT = 1e-6
"""Scatter of log values that is none."""


def best_values_blocks(law: BestValues, sizes: Sequence[float] = ()) -> list[Block]:
    """The answer, and one row per size that is known or asked for."""
    targets = list(sizes) or law.targets()
    rows = [(x, v) for x, v in zip(law.sizes, law.values, strict=True)]
    table = tabulated(
        f"Best values and their law, {format_level(law.level)} intervals",
        [*rows, *((x, None) for x in targets)],
        {
            law.size: lambda row: format_quantity(row[0]),
            f"best {law.tuned}": lambda row: "" if row[1] is None else format_value(row[1], None),
            "by the law": lambda row: format_estimate(law.at(row[0]).value, law.at(row[0]).ci),
            "of one more sweep": lambda row: format_estimate(None, law.at(row[0]).pi),
        },
    )
    return [best_values_answer(law, targets), table]


def best_values_answer(law: BestValues, sizes: Sequence[float]) -> Answer:
    """The value at the largest size that is asked for, the exponent beside those of theory."""
    size, exponent = max(sizes), law.exponent
    here = law.at(size)
    inside = [format_quantity(slope) for slope in THEORY if slope in exponent.ci]
    listed = ", ".join(format_quantity(slope) for slope in THEORY)
    fits = " and ".join(inside) if inside else "none"
    text = (
        f"Use {law.tuned} {format_estimate(here.value, here.ci, law.level)} at {law.size} "
        f"{format_quantity(size)}: it goes as {law.size} to the power of "
        f"{format_estimate(exponent.value, exponent.ci)}. Of the exponents that theories give "
        f"({listed}) {fits} {'fit' if len(inside) > 1 else 'fits'}. The table has no losses, and "
        "nothing is said of them."
    )
    ratio = size / law.sizes[-1]
    is_exact = law.scatter < EXACT
    level = "low" if ratio > 8 or len(law.sizes) < 4 or is_exact else "medium"
    reason = f"{counted(len(law.sizes), 'size')}, one value each"
    reason += ", exactly on the law, which does not show how well they are known" * is_exact
    if law.spacing is not None:
        reason += f", read off a grid of a factor of {format_quantity(law.spacing)}"
    return Answer(text=text, confidence=f"Confidence: {level}; {reason}.")
