"""What `extrap coord-check` prints: how far the outputs of each layer move, by width."""

from __future__ import annotations

from extrap.records.numbers import counted, format_decimals, format_quantity, format_scientific
from extrap.reporting.blocks import Answer, Block
from extrap.reporting.tables import Table
from extrap.training.coordinates import FLAT_SLOPE, CoordinateCheck


def coordinate_blocks(found: CoordinateCheck) -> list[Block]:
    """Whether every layer moves as far at every width, and a row for each."""
    steep = [each.name for each in found.coordinates if each.verdict != "flat"]
    diverged = [each.name for each in found.coordinates if each.verdict == "diverged"]
    text = "Every layer's outputs move equally far at every width"
    if diverged:
        text = f"The outputs of {', '.join(diverged)} diverge; give a smaller --lr"
    elif steep:
        text = (
            f"How far the outputs of {', '.join(steep)} move depends on the width. Tune the "
            "learning rate at every width"
        )
        if found.parametrization == "standard":
            text += ", or try --set recipe.parametrization=mup"
    rows = [
        (
            each.name,
            *(format_scientific(change) for change in each.changes),
            " ± ".join(
                format_decimals(number, 2)
                for number in (each.slope, each.slope_se)
                if number is not None
            ),
            each.verdict,
        )
        for each in found.coordinates
    ]
    widths = (f"width {width}" for width in found.widths)
    caption = f"Change of each layer's outputs after {counted(found.steps, 'update')}"
    note = (
        f"{found.parametrization} rule, {found.optimizer}, lr {format_quantity(found.lr)}, "
        f"{counted(len(found.seeds), 'seed')}. Flat: the slope over log2 width is within "
        f"± {format_quantity(FLAT_SLOPE)}."
    )
    return [
        Answer(text=f"{text}.", color="bad" if steep else "good"),
        Table(caption, ("layer", *widths, "slope", "verdict"), rows, note),
    ]
