"""What `extrap coord-check` prints: what breaks first, how the best rate moves, every layer."""

from __future__ import annotations

from extrap.analyses.coordinates.check import CoordinateCheck
from extrap.analyses.coordinates.slopes import (
    LEAST_WIDTHS,
    STABLE,
    STABLE_SLOPE,
    STILL,
    UNCLEAR,
    UNCLEAR_SLOPE,
    Coordinate,
)
from extrap.records import Measure
from extrap.records.numbers import counted, format_decimals, format_quantity, format_scientific
from extrap.reporting.blocks import Answer, Block
from extrap.reporting.tables import Table

MOST_UNCLEAR = 3
"""Unclear layers that the answer names."""
OUTCOMES = {
    "transfers": "transfers",
    "moves": "does not transfer, tune at every width",
    "unclear": "undecided, more widths or seeds would tell",
}
"""Verdict on the best rate → what is said of it."""


def coordinate_blocks(check: CoordinateCheck) -> list[Block]:
    """The first layer that breaks and why, and a row for each layer."""
    text = f"No verdict from fewer than {LEAST_WIDTHS} widths"
    if check.is_flat:
        text = "No layer grows or vanishes with the width"
        if unclear := [layer.name for layer in check.coordinates if layer.verdict == UNCLEAR]:
            names = ", ".join(unclear[:MOST_UNCLEAR]) + " …" * (len(unclear) > MOST_UNCLEAR)
            text += f", but {names} may: give more widths or seeds"
    elif check.is_still:
        text = "No verdict, as nothing moves: look at the learning rate and the optimizer"
    elif check.first is not None:
        text = f"{check.first} breaks first: {check.cause}"
        if check.parametrization == "standard":
            text += "; try --set recipe.parametrization=mup"
    if (transfer := check.transfer) is not None:
        slope = f"width^{_slope(transfer.slope)}"
        text += f". The best learning rate moves by {slope}: {OUTCOMES[transfer.verdict]}"
    rows = [
        (
            layer.name,
            *(format_scientific(sum(row) / len(row)) for row in layer.changes[-1]),
            _slope(layer.update_slope),
            _slope(layer.change_slope),
            _slope(layer.output_slope),
            _verdict(layer),
        )
        for layer in check.coordinates
    ]
    slopes = ("slope of its own update", "of the change", "of the start")
    columns = ("layer", *(f"width {width}" for width in check.widths), *slopes, "verdict")
    rule = f"{check.parametrization} rule, " if check.parametrization else ""
    note = (
        f"{rule}{check.optimizer}, lr {format_quantity(check.lr)}, "
        f"{counted(len(check.seeds), 'seed')}. Stable: no interval of a slope over log width lies "
        f"wholly beyond ± {format_quantity(STABLE_SLOPE)}; a change or a start may fall. Unclear: "
        f"one reaches beyond ± {format_quantity(UNCLEAR_SLOPE)}."
    )
    caption = f"Change of each layer's outputs after {counted(check.steps, 'update')}"
    color = {True: "good", False: "bad", None: "warn"}[check.is_flat]
    if any(layer.verdict == UNCLEAR for layer in check.coordinates) and check.is_flat:
        color = "warn"
    return [Answer(text=f"{text}.", color=color), Table(caption, columns, rows, note)]


def _slope(slope: Measure) -> str:
    if slope.value is None:
        return "–"
    ends = [format_decimals(end, 2) for end in slope.ci if end is not None]
    return format_decimals(slope.value, 2) + (f" ({' to '.join(ends)})" if ends else "")


def _verdict(layer: Coordinate) -> str:
    if layer.exponent is None or layer.verdict in (STABLE, STILL):
        return layer.verdict or "–"
    return f"{layer.verdict}, width^{format_decimals(layer.exponent, 2)}"
