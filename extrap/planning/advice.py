"""What a plan comes to, in sentences: what it buys, and where more small runs cannot help."""

from __future__ import annotations

import math

from extrap.planning.plans import Expectation, LargerSize, Plan

NO_HELP = 0.9
"""More runs at the swept sizes do not help where they leave this share of a width."""
NARROWS = 0.97
"""A larger size helps where it leaves less than this share."""
WIDEST_LOSS, WIDEST_TUNED = math.log(100), 20.0
"""Widths, in log loss and in octaves, beyond which an interval says nothing."""


def advise(found: Plan, *, why: str = "") -> tuple[str, ...]:
    """Sentences for a terminal or a page; widths of the loss in percent, of others in octaves.

    Args:
        found: The plan.
        why: Why it buys nothing, as a clause.
    """
    lines = [_bought(found, why)]
    for name, width in widths_of(found.now).items():
        least = widths_of(found.floor).get(name)
        if width is not None and least is not None and least >= NO_HELP * width:
            lines.append(_cannot_help(found, name, width, least))
    return tuple(lines)


def widths_of(expectation: Expectation) -> dict[str, float | None]:
    """`"loss"` or a tuned column → the width of its interval."""
    return {"loss": expectation.loss_width, **expectation.tuned_width}


def _bought(found: Plan, why: str) -> str:
    if not found.purchases:
        return f"No further run is suggested: {why or 'no available run narrows the forecast'}."
    now, then = widths_of(found.now), widths_of(found.then)
    share = ""
    if found.spent > 0:
        share = f", {100 * found.cost / found.spent:.1f} % of the sweep's cost"
    price = f"{runs_in_words(len(found.purchases))} for {found.cost:.3g} {found.unit}{share}"
    if None in now.values():
        return (
            f"{price}, to bracket optima at the edge of their grid. The effect on the "
            "intervals is not known yet: train these runs and plan again."
        )
    return f"{price}: {', '.join(_change(n, now[n], then[n]) for n in now)}."


def _change(name: str, now: float | None, then: float | None) -> str:
    """What becomes of one interval; where both are written alike, it stays."""
    before, after = _in_words(name, now), _in_words(name, then)
    if before == after:
        return f"the interval of {_the(name)} stays at {before}"
    verb = "narrows" if now is not None and then is not None and then < now else "widens"
    return f"the interval of {_the(name)} {verb} from {before} to {after}"


def runs_in_words(n_runs: int) -> str:
    """A number of runs in words."""
    return f"{n_runs} run" + "s" * (n_runs != 1)


def _cannot_help(found: Plan, name: str, width: float, least: float) -> str:
    causes = found.limits.get(name, {})
    most = max(causes, key=lambda cause: causes[cause]) if causes else None
    why = "" if most is None else f" ({100 * causes[most]:.0f} % of its variance: {most})"
    text = (
        "Any number of further runs at the swept sizes leaves the interval of "
        f"{_the(name)} at least {_in_words(name, min(least, width))} wide, now "
        f"{_in_words(name, width)}{why}."
    )
    best = _best_larger(found, name, width)
    planned = widths_of(found.then)[name]
    is_helped = planned is not None and planned < NARROWS * width
    if best is None and is_helped:
        return f"{text} The other sizes of the plan reduce it to {_in_words(name, planned)}."
    if best is None:
        return f"{text} None of the larger sizes considered narrows it either."
    size = ", ".join(f"{column}={value:g}" for column, value in best.size.items())
    left = widths_of(best.expectation)[name]
    paid = "" if best.in_budget else ", beyond the budget"
    return (
        f"{text} {'Also' if is_helped else 'Only'} a larger size helps: "
        f"{runs_in_words(best.expectation.n_runs)} at {size} cost {best.expectation.cost:.3g} "
        f"{found.unit}{paid}, and reduce it to {_in_words(name, left)}."
    )


def _best_larger(found: Plan, name: str, width: float) -> LargerSize | None:
    """The size beyond the sweep that narrows most for its cost."""

    def rate(each: LargerSize) -> float:
        left = widths_of(each.expectation)[name]
        return 0.0 if left is None else math.log(width / left) / each.expectation.cost

    useful = [
        e for e in found.larger if (widths_of(e.expectation)[name] or math.inf) < NARROWS * width
    ]
    return max(useful, key=rate, default=None)


def _the(name: str) -> str:
    return "the loss" if name == "loss" else name


def _in_words(name: str, width: float | None) -> str:
    if width is None:
        return "unknown"
    if width > (WIDEST_LOSS if name == "loss" else WIDEST_TUNED):
        return "unknown"
    if name == "loss":
        percent = 100 * math.expm1(width)
        return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"
    octaves = f"{width:.2g}"
    return f"{octaves} octave" + "s" * (octaves != "1")
