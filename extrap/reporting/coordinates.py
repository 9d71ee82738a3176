"""What `extrap coord-check` prints: how far the outputs of each layer move at each width."""

from __future__ import annotations

from extrap.reporting.blocks import Answer, Block
from extrap.reporting.numbers import counted, format_decimals, format_quantity, format_scientific
from extrap.reporting.tables import Table
from extrap.training.coordinates import TOLERANCE, CoordinateCheck


def coordinate_blocks(found: CoordinateCheck) -> list[Block]:
    """Whether every layer moves as far at every width, and a row for each."""
    steep = [each.name for each in found.coordinates if each.verdict != "flat"]
    text = "Every layer's outputs move equally far at every width"
    if steep:
        text = f"How far the outputs of {', '.join(steep)} move depends on the width"
    rows = [
        (
            each.name,
            *(format_scientific(change) for change in each.changes),
            f"{format_decimals(each.slope, 2)} ± {format_decimals(each.slope_se, 2)}",
            each.verdict,
        )
        for each in found.coordinates
    ]
    widths = (f"width {width}" for width in found.widths)
    caption = f"Change of each layer's outputs after {counted(found.steps, 'update')}"
    note = (
        f"{found.parametrization} rule, {found.optimizer}, lr {format_quantity(found.lr)}, "
        f"{counted(len(found.seeds), 'seed')}. Flat: the slope over log2 width is within "
        f"± {format_quantity(TOLERANCE)}."
    )
    return [
        Answer(text=f"{text}.", kind="off" if steep else "on"),
        Table(caption, ("layer", *widths, "slope", "verdict"), rows, note),
    ]
