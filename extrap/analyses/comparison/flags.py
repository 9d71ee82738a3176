"""What the flags of a comparison mean."""

from __future__ import annotations

from extrap.reporting.flags import Meaning

MEANINGS: dict[str, Meaning] = {
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
