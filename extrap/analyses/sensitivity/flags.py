"""What the flags of a ranking of fixed values mean."""

from __future__ import annotations

from extrap.reporting.flags import Meaning

MEANINGS: dict[str, Meaning] = {
    "bends": (
        "The gradient is not linear in log size.",
        "A linear extrapolation to the target is doubtful.",
        "Add a size closer to the target.",
    ),
    "curvature-drifts": (
        "The excess-loss curve is not equally narrow at all sizes.",
        "The ranking assumes that it is, so the cost is doubtful.",
        "Vary it at another size before relying on its rank.",
    ),
    "far": (
        "The optimum at the target is far from the fixed value.",
        "The parabola gives a rough cost only.",
        "Tune it at small sizes, then rank again.",
    ),
    "lost-runs": (
        "Runs diverged or failed where it was varied.",
        "The remaining seeds may be biased.",
        "Vary it by less, or find out why the runs failed.",
    ),
}
