"""What flags, causes and parameters mean, for somebody who has not read the manual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

__all__ = [
    "CAUSES",
    "LIMITS",
    "PARAMETERS",
    "RULE_NAMES",
    "Explanation",
    "explain_flag",
    "explain_flags",
    "explain_parameter",
]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A flag in words.

    Attributes:
        name: The flag as the library returns it, without its detail.
        why: Why it matters.
        action: What to do about it.
        detail: What it concerns, such as a tuned column; may be empty.
    """

    name: str
    why: str
    action: str
    detail: str = ""


_FLAGS = {
    "optimum-not-bracketed-everywhere": (
        "At some size the best value tried lies at the end of the grid, so the true best may lie "
        "outside it; that size tells the laws nothing.",
        "Extend the grid there until worse values stand on both sides.",
    ),
    "no-loss-law": (
        "Too few sizes have a usable optimum, so the loss is only bounded from one side.",
        "Extend the grids, or add sizes; three bracketed sizes are the least.",
    ),
    "too-few-sizes-for-a-floor": (
        "A law with a floor needs one more size; without it a distant forecast is optimistic.",
        "Add a size; small ones are cheap.",
    ),
    "optimum-law-bends": (
        "The best values do not lie on a straight line on log-log axes, so the power law through "
        "them is known to be wrong beyond the sweep.",
        "Trust the value near the sweep only; add a larger size before going far.",
    ),
    "pinned": (
        "A parameter was given, not fitted; intervals take it as exact.",
        "Compare with the forecast that fits it.",
    ),
    "bound-hit": (
        "A parameter of a law ran into the end of its allowed range: the losses hardly pin it.",
        "Add sizes that are further apart, or more seeds.",
    ),
    "exponent-weakly-identified": (
        "The exponent of a law is known to no better than a factor of about two either way.",
        "Add sizes that are further apart, or pin the floor if it is known.",
    ),
    "ill-conditioned": (
        "Parameters of a law trade against each other: its curve is known, its numbers are not.",
        "Read the forecast, not the parameters; add sizes at the ends of the range.",
    ),
    "lack-of-fit": (
        "The losses lie further from a law than the noise between seeds explains; where no law "
        "follows all sizes, the largest ones alone make the forecast.",
        "Look for a size that is off, a break, or a setting that changed; add sizes.",
    ),
    "too-few-sizes": (
        "A law has nearly as many parameters as there are sizes, so it can hardly fail to fit.",
        "Add a size; small ones are cheap.",
    ),
    "starts-disagree": (
        "Two settings of a law's parameters fit the losses equally well and part beyond them.",
        "Add sizes that are further apart, or pin a parameter that is known.",
    ),
    "columns-collinear": (
        "The size columns grow together; only pinned parameters keep their effects apart.",
        "Add runs that vary the sizes separately.",
    ),
    "loss-turns-negative": (
        "A log-linear law falls below zero at some size, so it cannot hold for ever.",
        "Use it near the data only.",
    ),
    "size-without-effect": (
        "A size column does not lower the loss in the fitted range.",
        "Check the runs; a larger size that is no better is often badly tuned.",
    ),
    "floor-at-zero": (
        "The fitted floor is zero: the data do not yet show where the loss levels off.",
        "Treat distant forecasts as optimistic; add larger sizes.",
    ),
    "no-replicates": (
        "No run was repeated with another seed, so the noise is read from the scatter of the "
        "runs about smooth curves.",
        "Repeat the best cells with two more seeds.",
    ),
    "far-extrapolation": (
        "The target is more than 8 times the largest fitted size: the interval holds only if no "
        "new regime sets in on the way.",
        "Add a size in between before committing.",
    ),
}
_NO_TUNED_LAW = (
    "Too few sizes have a bracketed optimum to say how this value moves with size.",
    "Extend the grid of this value, or add sizes.",
)
_UNKNOWN = ("The library marked this result for caution.", "See the manual for this flag.")

RULE_NAMES = {
    "constant": "constant (muP)",
    "inverse_width": "1/width",
    "inverse_root_width": "1/√width",
    "step_law_lr": "Step Law",
    "step_law_batch": "Step Law",
    "deepseek_lr": "DeepSeek",
    "deepseek_batch": "DeepSeek",
}
"""Rule → what it is called in a picture."""

CAUSES = {
    "instability": "training became unstable",
    "mistuned": "tuned values far from the optimum",
    "data": "training data repeated too often",
    "batch": "batch above the critical size",
    "recipe": "recipe differs from the sweep's",
    "law": "the law itself does not reach this far",
    "unknown": "no known cause fits",
}

PARAMETERS = {
    "E": "floor: the loss no size removes",
}
_PREFIXES = {
    "power": {"b": "loss at the reference size", "c": "exponent: how fast the loss falls"},
    "power_floor": {
        "b": "loss above the floor, at the reference size",
        "c": "exponent: how fast it falls",
    },
    "chinchilla": {
        "b": "loss above the floor at the reference size, its share",
        "c": "exponent: how fast it falls",
    },
    "skaling": {
        "s": "loss above the floor at the reference sizes, its scale",
        "c": "exponent: how fast it falls",
        "k": "how fully the two terms add; 1 is the Chinchilla law",
        "r": "weight of the second size beside the first",
    },
    "log_linear": {
        "a": "loss at the reference size",
        "b": "fall of the loss when a size grows e-fold",
    },
    "optimum_power": {
        "a": "logarithm of the optimum at the reference size",
        "b": "exponent: how the optimum moves with size",
    },
}

LIMITS = (
    "Whether the laws hold much further than the sizes fitted; an interval speaks of the laws it "
    "mixes, not of a regime nobody has seen.",
    "Anything about another recipe. Schedule, depth, initialisation, precision, data order or "
    "batch size were held fixed; each may be the next thing that breaks.",
    "Whether a lower loss makes a better model for your purpose.",
    "Why a run deviates. Causes are named by rules and are leads to test, not findings.",
)


def explain_flag(flag: str) -> Explanation:
    """A flag of a forecast, a fit or a point in words; an unknown one is passed on as it is."""
    name, _, detail = map(str.strip, flag.partition(":"))
    if name in _FLAGS:
        return Explanation(name, *_FLAGS[name], detail)
    if name.startswith("no-") and name.endswith("-law"):
        return Explanation(name, *_NO_TUNED_LAW, detail)
    return Explanation(flag, *_UNKNOWN)


def explain_flags(flags: Sequence[str]) -> list[Explanation]:
    """Each flag in words once, with all it concerns."""
    found: dict[str, Explanation] = {}
    for flag in dict.fromkeys(flags):
        new = explain_flag(flag)
        if (old := found.get(new.name)) is not None:
            details = ", ".join(dict.fromkeys(filter(None, [old.detail, new.detail])))
            new = replace(old, detail=details)
        found[new.name] = new
    return list(found.values())


def explain_parameter(law: str, name: str) -> str:
    """What one parameter of a law stands for."""
    gloss = PARAMETERS.get(name) or _PREFIXES.get(law.removesuffix("_tied"), {}).get(name[:1], "")
    return f"{gloss}, column {name[1:]}" if name[1:].isdigit() else gloss
