"""A cascade of a small and a large model as plain text for a terminal."""

from __future__ import annotations

from extrap.cascading import Cascade, CascadePoint
from extrap.records import Measure
from extrap.reporting.glossary import flag_lines
from extrap.reporting.numbers import NBSP, format_estimate, format_percent
from extrap.reporting.text import text_columns

__all__ = ["cascade_text"]

EVERY = 5
"""Of the points of the curve, one in so many is printed."""


def cascade_text(found: Cascade) -> str:
    """The threshold, what it saves and keeps, and the curve of cost against quality."""
    what = "share correct" if found.kind == "correct" else "mean loss"
    chosen = found.chosen
    answers = [chosen, *found.curve[::EVERY]]
    lines = [
        _rule(chosen),
        f"chosen on {found.n_validation} inputs for a {what} of {found.asked:.4g}, judged on "
        f"{found.n_judged} others; {found.level:.0%} intervals",
        "",
        f"{what}: {_estimate(chosen.quality)}, large model {_estimate(found.large)}, without it "
        f"{_estimate(found.small)}",
        f"difference from the large model: {_estimate(chosen.difference)}",
        f"cost, large model alone = 1: {_estimate(chosen.cost)}",
        f"the small model answers {_percent(chosen.share)} of the inputs",
    ]
    if found.share_filtered:
        lines.append(f"the rule answers {format_percent(found.share_filtered, signed=False)}")
    lines += ["", "cost against quality, each point with its own interval"]
    lines += text_columns(
        ["", "confidence from", "small answers", what, "difference", "cost"],
        [_row(point, is_chosen=not i) for i, point in enumerate(answers)],
    )
    lines += ["", *(f"beware: {note}." for note in found.notes)]
    lines += flag_lines(found.flags, of="cascade")
    return "\n".join(lines).rstrip().replace(NBSP, " ")


def _rule(chosen: CascadePoint) -> str:
    if chosen.threshold is None:
        return "cascade: no confidence is high enough for the small model to answer"
    return (
        f"cascade: the small model answers where its confidence is {chosen.threshold:.4g} or more"
    )


def _row(point: CascadePoint, *, is_chosen: bool) -> list[str]:
    return [
        "chosen" if is_chosen else "",
        "none" if point.threshold is None else f"{point.threshold:.4g}",
        format_percent(point.share.value, signed=False),
        _estimate(point.quality),
        _estimate(point.difference),
        _estimate(point.cost),
    ]


def _estimate(measure: Measure) -> str:
    return format_estimate(measure.value, measure.ci)


def _percent(measure: Measure) -> str:
    value, low, high = (
        format_percent(number, signed=False)
        for number in (measure.value, measure.ci.lower, measure.ci.upper)
    )
    return f"{value} ({low} to {high})"
