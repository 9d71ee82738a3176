"""What a cascade of two models saves, and what it keeps."""

from __future__ import annotations

from dataclasses import dataclass

from extrap.records import Measure, Shown
from extrap.records.codec import shape


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadePoint:
    """The cascade at one threshold, on inputs that had no part in choosing it.

    Attributes:
        threshold: The small model answers where its confidence is at least this; None: nowhere.
        share: Of all inputs, those that the small model answers.
        quality: Share of correct answers, or mean loss.
        difference: The same minus that of the large model, paired by input.
        cost: Mean cost of an input, in units of one by the large model alone.
    """

    threshold: float | None
    share: Measure
    quality: Measure
    difference: Measure
    cost: Measure


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cascade(Shown):
    """A cascade of two models: the threshold chosen on one part, judged on the other.

    Attributes:
        kind: What a quality is: `correct`, a share, or `loss`, a mean that is better when lower.
        asked: The quality asked for.
        is_reached: Whether some threshold reached it on the validation part.
        validation_quality: There, of the chosen threshold; flattered by the choice.
        chosen: The cascade at that threshold; where none reached it, the large model answers all.
        curve: From no answer of the small model to all, at up to 52 thresholds; intervals hold
            for each point, not for all at once.
        small: Quality without the large model.
        large: Quality of the large model alone.
        share_filtered: Of all inputs judged, those that the rule answers.
        n_validation: Inputs on which the threshold was chosen.
        n_judged: Inputs on which all else was measured.
        cost_small: Cost of one input by the small model, in any unit.
        cost_large: The same by the large one.
        cost_filter: The same by the rule, where it answers.
        level: Of all intervals.
        seed: Of the split and the bootstrap.
        notes: What to beware of, one sentence each.
        flags: Named reasons to doubt the choice, each `name: detail`.
    """

    kind: str
    asked: float
    is_reached: bool
    validation_quality: float
    chosen: CascadePoint
    curve: tuple[CascadePoint, ...]
    small: Measure
    large: Measure
    share_filtered: float
    n_validation: int
    n_judged: int
    cost_small: float
    cost_large: float
    cost_filter: float
    level: float
    seed: int
    notes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


shape(
    Cascade,
    kind="extrap-cascade",
    omit=("cost_small", "cost_large", "cost_filter"),
    names={"kind": "outcome"},
    inline=("chosen",),
    add={
        "costs": lambda found: {
            "small": found.cost_small,
            "large": found.cost_large,
            "filter": found.cost_filter,
        }
    },
)
