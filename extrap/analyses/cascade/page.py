"""What `extrap cascade` prints: the threshold of a small model before a large one."""

from __future__ import annotations

from extrap.analyses.cascade import Cascade
from extrap.analyses.cascade.flags import MEANINGS
from extrap.records.numbers import format_level, format_percent, format_quantity
from extrap.reporting.blocks import Answer, Block, Paragraph, Warnings
from extrap.reporting.flags import explain_flags
from extrap.reporting.study_page import estimate, in_percent
from extrap.reporting.tables import Table, tabulated

QUALITY_NAMES = {"correct": "accuracy", "loss": "mean loss"}
"""Kind of outcome → what its mean is called."""


def cascade_blocks(cascade: Cascade) -> list[Block]:
    """The answer of one pair of models, its curve of cost against quality, warnings."""
    notes = [Paragraph(f"note: {note}.") for note in cascade.notes]
    warnings = Warnings(explain_flags(cascade.flags, MEANINGS))
    return [_cascade_answer(cascade), _curve_table(cascade), *notes, warnings]


def _cascade_answer(cascade: Cascade) -> Answer:
    """The threshold, what it saves and what it keeps."""
    chosen, what = cascade.chosen, QUALITY_NAMES[cascade.kind]
    if chosen.threshold is None:
        text = (
            "Let the large model answer all inputs: no confidence of the small model is high "
            f"enough for the {what} asked for, {_threshold(cascade.requested)}."
        )
    else:
        text = (
            "Let the small model answer where its confidence is "
            f"{_threshold(chosen.threshold)} or more: it answers {in_percent(chosen.share)} of "
            f"the inputs, and the cost is {in_percent(chosen.cost)} of the large model's. The "
            f"{what} is {estimate(chosen.quality)}, {estimate(chosen.difference)} from the large "
            "model's."
        )
    if cascade.share_filtered:
        text += f" The rule answers {format_percent(cascade.share_filtered, signed=False)}."
    request = f"the {what} asked for, {_threshold(cascade.requested)}"
    if not cascade.is_reached:
        reason = f"low; no threshold reached {request}"
    elif cascade.requested not in chosen.quality.ci and cascade.flags:
        reason = f"low; on the test inputs the interval of the {what} excludes {request}"
    elif cascade.flags:
        reason = f"medium; on the test inputs the {what} is worse than {request}"
    else:
        reason = f"high; {request}, is reached on {cascade.n_judged} test inputs"
    return Answer(text=text, confidence=f"Confidence: {reason}.")


def _threshold(value: float | None) -> str:
    return "none" if value is None else format_quantity(value, digits=4)


def _curve_table(cascade: Cascade) -> Table:
    what = QUALITY_NAMES[cascade.kind]
    return tabulated(
        f"Cost against quality, each point with its own {format_level(cascade.level)} interval",
        [cascade.chosen, *cascade.curve],
        {
            "": lambda p: "chosen" if p is cascade.chosen else "",
            "confidence from": lambda p: (
                "any" if p is cascade.curve[-1] else _threshold(p.threshold)
            ),
            "small answers": lambda p: format_percent(p.share.value, signed=False),
            what: lambda p: estimate(p.quality),
            "difference": lambda p: estimate(p.difference),
            "cost, large = 1": lambda p: estimate(p.cost),
        },
        note=f"Chosen on {cascade.n_validation} inputs, tested on {cascade.n_judged} others. "
        f"Large model alone: {what} {estimate(cascade.large)}; "
        f"without it: {estimate(cascade.small)}.",
    )
