"""What the flags of critical batch sizes mean."""

from __future__ import annotations

from extrap.reporting.flags import Meaning

MEANINGS: dict[str, Meaning] = {
    "perfect-only": (
        "Steps fall in proportion to the batch throughout.",
        "The critical batch size is larger than every batch measured and has no upper bound.",
        "Measure larger batches.",
    ),
    "flat-only": (
        "Steps do not fall with the batch.",
        "The critical batch size is smaller than every batch measured and has no lower bound.",
        "Measure smaller batches.",
    ),
    "lack-of-fit": (
        "The batch sizes deviate from the hyperbola by more than replicates scatter.",
        "The hyperbola misses the measured steps, so its critical batch size is doubtful; "
        "intervals use the mean of each batch size.",
        "Trust the measured steps, and tune every batch size again.",
    ),
    "steps-rise": (
        "The largest batch takes more steps than a smaller one.",
        "A batch that needs more steps is badly tuned and distorts the curve.",
        "Tune its learning rate again.",
    ),
    "censored": (
        "Some measurements did not reach the target within their budget.",
        "They count as lower bounds only.",
        "Train them longer if the critical batch size depends on them.",
    ),
    "infeasible": (
        "Some measurements diverged or failed.",
        "They are left out, which may bias the rest.",
        "Lower the learning rate there, or leave that batch size out.",
    ),
}
