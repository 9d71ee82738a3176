"""What `extrap coord-check` prints: how far the outputs of each layer move, by width."""

from __future__ import annotations

from extrap.records.numbers import counted, format_decimals, format_quantity, format_scientific
from extrap.reporting.blocks import Answer, Block
from extrap.reporting.tables import Table
from extrap.training.coordinates import FLAT_SLOPE, CoordinateCheck


def coordinate_blocks(check: CoordinateCheck) -> list[Block]:
    """Whether every layer moves as far at every width, and a row for each."""
    steep = [layer.name for layer in check.coordinates if layer.verdict != "flat"]
    diverged = [layer.name for layer in check.coordinates if layer.verdict == "diverged"]
    text = "Every layer's outputs move equally far at every width"
    if diverged:
        text = f"The outputs of {', '.join(diverged)} diverge; give a smaller --lr"
    elif steep:
        text = (
            f"How far the outputs of {', '.join(steep)} move depends on the width. Tune the "
            "learning rate at every width"
        )
        if check.parametrization == "standard":
            text += ", or try --set recipe.parametrization=mup"
    rows = [
        (
            layer.name,
            *(format_scientific(change) for change in layer.changes),
            " ± ".join(
                format_decimals(number, 2)
                for number in (layer.slope, layer.slope_se)
                if number is not None
            ),
            layer.verdict,
        )
        for layer in check.coordinates
    ]
    widths = (f"width {width}" for width in check.widths)
    caption = f"Change of each layer's outputs after {counted(check.steps, 'update')}"
    note = (
        f"{check.parametrization} rule, {check.optimizer}, lr {format_quantity(check.lr)}, "
        f"{counted(len(check.seeds), 'seed')}. Flat: the slope over log2 width is within "
        f"± {format_quantity(FLAT_SLOPE)}."
    )
    return [
        Answer(text=f"{text}.", color="bad" if steep else "good"),
        Table(caption, ("layer", *widths, "slope", "verdict"), rows, note),
    ]
