"""What the flags of a comparison mean."""

from __future__ import annotations

from extrap.reporting.flags import Meaning

MEANINGS: dict[str, Meaning] = {
    "lack-of-fit": (
        "A recipe's law deviates from its losses by more than their noise.",
        "Forecasts beyond the measured sizes hold only if the laws are roughly right.",
        "Look for a size that is off, or add sizes; the measured differences are not affected.",
    ),
    "edge": (
        "The best value of a recipe is at the edge of its grid.",
        "Its loss is an upper bound, so the recipe looks worse than it is.",
        "Extend the grid.",
    ),
    "untuned": (
        "A recipe tried one learning rate at its largest size.",
        "Its best rate may lie elsewhere there, and the gain or loss be that of the rate.",
        "Add two other rates at that size, or compare where both are tuned.",
    ),
    "one-common-size": (
        "The recipes were run at one common size only.",
        "Nothing shows how the difference changes with size.",
        "Run both recipes at two other sizes.",
    ),
    "no-loss": (
        "No run of a recipe at its largest size has a loss.",
        "It may not train there at all, whatever it gains at smaller sizes.",
        "Find out why these runs failed before anything larger is run.",
    ),
    "speed-missing": (
        "A recipe has no numbers of speed.",
        "Effective speeds cannot be given.",
        "Add the column to every recipe, or name it (--speed, --cost).",
    ),
}
