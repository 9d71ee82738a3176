"""What `extrap cascade` prints: the threshold of a small model before a large one."""

from __future__ import annotations

from extrap.analyses.cascade import Cascade
from extrap.analyses.cascade.flags import MEANINGS
from extrap.records.numbers import format_level, format_percent, format_quantity
from extrap.reporting.blocks import Answer, Block, Paragraph, Warnings
from extrap.reporting.flags import explain_flags
from extrap.reporting.study_page import estimate, in_percent
from extrap.reporting.tables import Table, tabulated

OUTCOMES = {"correct": "accuracy", "loss": "mean loss"}


def cascade_blocks(found: Cascade) -> list[Block]:
    """The answer of one pair of models, its curve of cost against quality, warnings."""
    notes = [Paragraph(f"note: {note}.") for note in found.notes]
    warnings = Warnings(explain_flags(found.flags, MEANINGS))
    return [_cascade_answer(found), _curve_table(found), *notes, warnings]


def _cascade_answer(found: Cascade) -> Answer:
    """The threshold, what it saves and what it keeps."""
    chosen, what = found.chosen, OUTCOMES[found.kind]
    if chosen.threshold is None:
        text = (
            "Let the large model answer all inputs: no confidence of the small model is high "
            f"enough for the {what} asked for, {_threshold(found.asked)}."
        )
    else:
        text = (
            "Let the small model answer where its confidence is "
            f"{_threshold(chosen.threshold)} or more: it answers {in_percent(chosen.share)} of "
            f"the inputs, and the cost is {in_percent(chosen.cost)} of the large model's. The "
            f"{what} is {estimate(chosen.quality)}, {estimate(chosen.difference)} from the large "
            "model's."
        )
    if found.share_filtered:
        text += f" The rule answers {format_percent(found.share_filtered, signed=False)}."
    asked = f"the {what} asked for, {_threshold(found.asked)}"
    if not found.is_reached:
        reason = f"low; no threshold reached {asked}"
    elif found.asked not in chosen.quality.ci and found.flags:
        reason = f"low; on the test inputs the interval of the {what} excludes {asked}"
    elif found.flags:
        reason = f"medium; on the test inputs the {what} is worse than {asked}"
    else:
        reason = f"high; {asked}, is reached on {found.n_judged} test inputs"
    return Answer(text=text, confidence=f"Confidence: {reason}.")


def _threshold(value: float | None) -> str:
    return "none" if value is None else format_quantity(value, digits=4)


def _curve_table(found: Cascade) -> Table:
    what = OUTCOMES[found.kind]
    return tabulated(
        f"Cost against quality, each point with its own {format_level(found.level)} interval",
        [found.chosen, *found.curve],
        {
            "": lambda p: "chosen" if p is found.chosen else "",
            "confidence from": lambda p: (
                "any" if p is found.curve[-1] else _threshold(p.threshold)
            ),
            "small answers": lambda p: format_percent(p.share.value, signed=False),
            what: lambda p: estimate(p.quality),
            "difference": lambda p: estimate(p.difference),
            "cost, large = 1": lambda p: estimate(p.cost),
        },
        note=f"Chosen on {found.n_validation} inputs, tested on {found.n_judged} others. Large "
        f"model alone: {what} {estimate(found.large)}; without it: {estimate(found.small)}.",
    )
