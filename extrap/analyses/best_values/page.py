"""What is printed of the laws of best values: the answer, and the values over size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from extrap.analyses.best_values.value_law import THEORY, BestValues, ValueLaw
from extrap.fitting.distance import extrapolation_ratio
from extrap.reading.names import kinds_of
from extrap.records import Estimate, Interval
from extrap.records.numbers import (
    beside,
    counted,
    format_level,
    format_quantity,
    format_value,
    name_size,
    stacked,
)
from extrap.reporting.blocks import Answer, Block
from extrap.reporting.tables import Table

FAR_RATIO, FEW_SIZES = 8.0, 4
"""Extrapolation ratio above which, and number of sizes below which, the confidence is low."""


def best_values_blocks(best: BestValues, sizes: Sequence[Mapping[str, float]] = ()) -> list[Block]:
    """The answer, and of each tuned column one row per size of the table or of those asked for."""
    targets = [best.design.completed(size) for size in sizes] or best.targets()
    sizes = [*best.sizes, *targets]
    rows = list(zip(sizes, best.at_each(sizes), strict=True))
    return [
        best_values_answer(best, targets),
        *(_table(best, name, rows) for name in best.laws),
    ]


def _table(
    best: BestValues,
    tuned: str,
    rows: Sequence[tuple[Mapping[str, float], Mapping[str, Estimate]]],
) -> Table:
    """The values of one column, and its law, at sizes that begin with those of the table."""
    values = [format_value(value) for value in best.laws[tuned].values]
    values += [""] * (len(rows) - len(values))
    cells = [
        (
            *(format_quantity(size[column]) for column in best.columns),
            value,
            _estimate_text(estimates[tuned].value, estimates[tuned].ci),
            _estimate_text(None, estimates[tuned].pi),
        )
        for (size, estimates), value in zip(rows, values, strict=True)
    ]
    headings = (*best.columns, f"best {tuned}", "by the law", "of one more sweep")
    return Table(
        f"Best {tuned} and its law, {format_level(best.level)} intervals", headings, cells
    )


def _estimate_text(value: float | None, interval: Interval, level: float | None = None) -> str:
    """A value and its ends, which may be factors apart."""
    return beside(stacked(value, interval, format_quantity), level)


def best_values_answer(best: BestValues, sizes: Sequence[Mapping[str, float]]) -> Answer:
    """The values at the farthest of some sizes, and the exponents of their laws.

    Args:
        best: The laws.
        sizes: With all size columns.
    """
    size = max(sizes, key=lambda target: extrapolation_ratio(target, best.sizes))
    estimates = best.at(**size)
    used = " and ".join(
        f"{name} {_estimate_text(estimate.value, estimate.ci, best.level)}"
        for name, estimate in estimates.items()
    )
    laws = "; ".join(_law_text(name, law) for name, law in best.laws.items())
    text = (
        f"At {_size_text(size)} use {used}: {laws}.{_theory_text(best)}{_held_text(best)} The "
        "table has no losses, so no loss is forecast."
    )
    ratio = extrapolation_ratio(size, best.sizes)
    is_low = ratio > FAR_RATIO or len(best.sizes) < FEW_SIZES
    return Answer(
        text=text, confidence=f"Confidence: {'low' if is_low else 'medium'}; {_basis(best)}."
    )


def _size_text(size: Mapping[str, float]) -> str:
    """A size in words: `7B params on 300B tokens`, `depth 28`."""
    kinds = kinds_of(size)
    if [kinds.get(column) for column in size] == ["params", "tokens"]:
        return " on ".join(f"{format_quantity(x)} {column}" for column, x in size.items())
    return name_size(size)


def _law_text(tuned: str, law: ValueLaw) -> str:
    powers = [
        f"{column} to the power of {beside(stacked(exponent.value, exponent.ci, _exponent_text))}"
        for column, exponent in law.exponents.items()
    ]
    return f"{tuned} goes as {' and '.join(powers)}"


def _exponent_text(exponent: float) -> str:
    """With at most three decimals, without the sign of a zero."""
    return format_quantity(round(exponent, 3) + 0.0)


def _theory_text(best: BestValues) -> str:
    """Which exponents that theories give fit one law over one column."""
    if len(best.columns) > 1 or len(best.laws) > 1:
        return ""
    ((_, law),) = best.laws.items()
    interval = law.exponents[best.columns[0]].ci
    inside = [format_quantity(slope) for slope in THEORY if slope in interval]
    listed = ", ".join(format_quantity(slope) for slope in THEORY)
    fits = " and ".join(inside) if inside else "none"
    verb = "fit" if len(inside) > 1 else "fits"
    return f" Of the exponents that theories give ({listed}) {fits} {verb}."


def _held_text(best: BestValues) -> str:
    """What never varied."""
    held = best.design.held()
    return f" In the table {' and '.join(held)} never varied." if held else ""


def _basis(best: BestValues) -> str:
    """What the laws are fitted to."""
    n = len(best.sizes)
    values = "one value each" if best.n_rows == n else f"{best.n_rows} rows"
    spacings = {law.spacing for law in best.laws.values()} - {None}
    grids = " or ".join(format_quantity(spacing) for spacing in sorted(filter(None, spacings)))
    grid = f", read off a grid of a factor of {grids}" if grids else ""
    return f"{counted(n, 'size')}, {values}{grid}"
