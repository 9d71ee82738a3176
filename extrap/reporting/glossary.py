"""What flags, causes and parameters mean, for somebody who has not read the manual."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CAUSES", "LIMITS", "PARAMETERS", "Explanation", "explain_flag", "explain_parameter"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A flag in words.

    Attributes:
        name: The flag as the library returns it.
        why: Why it matters.
        action: What to do about it.
    """

    name: str
    why: str
    action: str


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
        "The losses lie further from a law than the noise between seeds explains.",
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

CAUSES = {
    "instability": "training became unstable",
    "mistuned": "tuned values far from the optimum",
    "data": "training data repeated too often",
    "batch": "batch larger than the noise allows",
    "recipe": "recipe differs from the sweep's",
    "law": "the law itself does not reach this far",
    "unknown": "no known cause fits",
}

PARAMETERS = {
    "E": "floor: the loss no size removes",
    "a": "logarithm of the optimum at the reference size",
}
_PREFIXES = {
    "power": {"b": "loss at the reference size", "c": "exponent: how fast the loss falls"},
    "power_floor": {
        "b": "loss above the floor, at the reference size",
        "c": "exponent: how fast it falls",
    },
    "optimum_power": {"b": "exponent: how the optimum moves with size"},
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
    name = flag.partition(":")[0]
    if name in _FLAGS:
        return Explanation(name, *_FLAGS[name])
    if name.startswith("no-") and name.endswith("-law"):
        return Explanation(name, *_NO_TUNED_LAW)
    return Explanation(flag, *_UNKNOWN)


def explain_parameter(law: str, name: str) -> str:
    """What one parameter of a law stands for."""
    gloss = PARAMETERS.get(name) or _PREFIXES.get(law, {}).get(name[:1], "")
    return f"{gloss}, column {name[1:]}" if name[1:].isdigit() else gloss
