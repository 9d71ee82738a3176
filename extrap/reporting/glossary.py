"""What flags, causes and parameters mean, for somebody who has not read the manual."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from extrap.reporting.flag_words import (
    FAMILIES,
    FIXED_TUNED,
    FLAT_TUNED,
    IMPRECISE_TUNED,
    NO_TUNED_LAW,
    REFUSED_TUNED,
    UNKNOWN,
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """A flag in words.

    Attributes:
        name: The flag as the library returns it, without its detail.
        meaning: What it means.
        why: Why that matters.
        action: What to do about it.
        detail: What it concerns, such as a tuned column; may be empty.
    """

    name: str
    meaning: str
    why: str
    action: str
    detail: str = ""


FLOOR = "floor: the loss no size removes"
PARAMETERS = {
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
        "bend": "change of the exponent with the logarithm of size",
    },
}

LIMITS = (
    "The laws may not hold much further than the sizes fitted: an interval covers the laws it "
    "mixes, not a new regime.",
    "The forecast holds for this recipe only. Schedule, depth, initialisation, precision, data "
    "order and batch size were held fixed.",
    "A lower loss does not guarantee better downstream results.",
    "Causes of deviations are hypotheses to test, not findings.",
)


def explain_flag(flag: str, *, of: str = "forecast") -> Explanation:
    """A flag in words; an unknown one is passed on as it is.

    Args:
        flag: As the library returns it: a name, or `name: detail`.
        of: What carries it, a key of `FAMILIES`.
    """
    name, _, detail = map(str.strip, flag.partition(":"))
    if (words := FAMILIES[of].get(name)) is not None:
        return Explanation(name, *words, detail)
    if of == "forecast" and name.startswith("no-") and name.endswith("-law"):
        return Explanation(name, *NO_TUNED_LAW, detail)
    for start, words in (
        ("refused-", REFUSED_TUNED),
        ("imprecise-", IMPRECISE_TUNED),
        ("flat-", FLAT_TUNED),
        ("fixed-", FIXED_TUNED),
    ):
        if of == "forecast" and name.startswith(start):
            return Explanation(name, *words, detail)
    return Explanation(flag, *UNKNOWN)


def explain_flags(flags: Iterable[str], *, of: str = "forecast") -> tuple[Explanation, ...]:
    """Each flag in words once, with all it concerns; why a size is refused is said elsewhere."""
    found: dict[str, Explanation] = {}
    for flag in dict.fromkeys(flags):
        new = explain_flag(flag.partition(":")[0] if flag.startswith("refused-") else flag, of=of)
        if (old := found.get(new.name)) is not None:
            details = ", ".join(dict.fromkeys(filter(None, [old.detail, new.detail])))
            new = replace(old, detail=details)
        found[new.name] = new
    return tuple(found.values())


def confidence(
    flags: Sequence[str], *, of: str = "forecast", grave: Sequence[str] = (), otherwise: str
) -> str:
    """How far to trust an answer, with its first reason: low with a grave flag, medium with any.

    Args:
        flags: As the library returns them.
        of: What carries them, a key of `FAMILIES`.
        grave: Flags that make it low, the gravest first.
        otherwise: The sentence where there is no flag.
    """
    found = explain_flags(flags, of=of)
    low = [flag for name in grave for flag in found if flag.name == name]
    for reasons, level in ((low, "low"), (found, "medium")):
        if reasons:
            about = f" ({reasons[0].detail})" if reasons[0].detail else ""
            meaning = reasons[0].meaning
            return f"Confidence: {level}; {meaning[0].lower()}{meaning[1:].rstrip('.')}{about}."
    return otherwise


def explain_parameter(law: str, name: str) -> str:
    """What one parameter of a law stands for."""
    known = PARAMETERS.get(law.removesuffix("_tied"), {})
    gloss = FLOOR if name == "E" else known.get(name, known.get(name[:1], ""))
    return f"{gloss}, column {name[1:]}" if name[1:].isdigit() else gloss
