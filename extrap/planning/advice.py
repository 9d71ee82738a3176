"""What a plan comes to, in sentences: what it buys, and where more small runs cannot help."""

from __future__ import annotations

import math
from collections.abc import Mapping

from extrap.planning.plans import LargerSize, Outlook, Plan

__all__ = ["NO_HELP", "advise", "widths_of"]

NO_HELP = 0.9
"""More runs at the swept sizes do not help where they leave this share of a width."""
NARROWS = 0.97
"""A larger size helps where it leaves less than this share."""


def advise(found: Plan) -> tuple[str, ...]:
    """Sentences for a terminal or a page; widths of the loss in percent, of others in octaves."""
    lines = [_bought(found)]
    for name, width in widths_of(found.now).items():
        least = widths_of(found.floor).get(name)
        if width is not None and least is not None and least >= NO_HELP * width:
            lines.append(_cannot_help(found, name, width, least))
    return tuple(lines)


def widths_of(outlook: Outlook) -> dict[str, float | None]:
    """`"loss"` or a tuned column → the width of its interval."""
    return {"loss": outlook.loss_width, **outlook.tuned_width}


def _bought(found: Plan) -> str:
    if not found.purchases:
        return "No run on offer within the budget narrows the forecast: buy none."
    now, then = widths_of(found.now), widths_of(found.then)
    share = f", {found.cost / found.spent:.1%} of what the sweep cost" if found.spent > 0 else ""
    price = f"{len(found.purchases)} runs for {found.cost:.3g} {found.unit}{share}"
    if None in now.values():
        return (
            f"{price} bracket optima that lie at an edge; no width can be told before: train "
            "them and plan again."
        )
    parts = [f"{_the(n)} from {_told(n, now[n])} to {_told(n, then[n])}" for n in now]
    return f"{price} narrow the interval of {', of '.join(parts)}."


def _cannot_help(found: Plan, name: str, width: float, least: float) -> str:
    causes = found.limits.get(name, {})
    most = max(causes, key=lambda cause: causes[cause]) if causes else None
    why = "" if most is None else f" ({causes[most]:.0%} of its variance: {most})"
    text = (
        f"More runs at the swept sizes leave {_the(name)} {_told(name, min(least, width))} wide, "
        f"now {_told(name, width)}{why}."
    )
    best = _best_larger(found, name, width)
    if best is None:
        return f"{text} No larger size that was looked at narrows it either."
    size = ", ".join(f"{column}={value:g}" for column, value in best.size.items())
    left = widths_of(best.outlook)[name]
    paid = "" if best.in_budget else ", beyond the budget"
    return (
        f"{text} Only a larger size helps: {best.outlook.n_runs} runs at {size} cost "
        f"{best.outlook.cost:.3g} {found.unit}{paid}, and leave {_told(name, left)}."
    )


def _best_larger(found: Plan, name: str, width: float) -> LargerSize | None:
    """The size beyond the sweep that narrows most for its cost."""

    def rate(each: LargerSize) -> float:
        left = widths_of(each.outlook)[name]
        return 0.0 if left is None else math.log(width / left) / each.outlook.cost

    useful = [
        e for e in found.larger if (widths_of(e.outlook)[name] or math.inf) < NARROWS * width
    ]
    return max(useful, key=rate, default=None)


def _the(name: str) -> str:
    return "the loss" if name == "loss" else name


def _told(name: str, width: float | None) -> str:
    if width is None:
        return "unknown"
    return f"{100 * math.expm1(width):.2g} %" if name == "loss" else f"{width:.2g} octaves"


def shares_of(limits: Mapping[str, float]) -> str:
    """What makes an interval wide, the largest part first."""
    ordered = sorted(limits.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{cause} {share:.0%}" for cause, share in ordered if share >= 0.005)
