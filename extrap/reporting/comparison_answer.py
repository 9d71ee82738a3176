"""The answer of a comparison: is a treated recipe better, by how much, and how sure is that?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from extrap.comparing import SizeDifference
from extrap.comparing.findings import OPEN, Treatment, has_misfit
from extrap.records import Measure
from extrap.reporting.blocks import Answer
from extrap.reporting.glossary import Explanation, explain_flag
from extrap.reporting.numbers import (
    NBSP,
    format_estimate,
    format_interval,
    format_quantity,
    format_value,
    name_size,
)

__all__ = [
    "VERDICTS",
    "comparison_answer",
    "difference",
    "explained",
    "gains",
    "pairs",
    "percent",
    "sentence",
]

MOST_SENTENCES = 2
"""Treated recipes that an answer gives a sentence each."""
FAR = 4.0
"""Target over the largest measured size, from which the confidence is not high."""
VERDICTS = {
    "better": ("▼", "{} is better than {}", "better", "on"),
    "worse": ("▲", "{} is worse than {}", "worse", "off"),
    "depends on size": (
        "■",
        "Whether {} is better than {} depends on size",
        "better or worse by size",
        "mixed",
    ),
    "differs": ("◆", "{} differs from {}, without a significant sign", "undecided", "mixed"),
    "not significant": (
        "●",
        "{} does not differ significantly from {}",
        "without a significant difference",
        "mixed",
    ),
    "cannot tell": ("?", "Whether {} differs from {} cannot be told", "not comparable", "none"),
}
"""Verdict → its mark, its sentence, what several are called, the kind of the answer."""


def comparison_answer(shown: Sequence[Treatment]) -> Answer:
    """Whether each treated recipe is better, by how much, and how sure that is."""
    if not shown:
        return Answer(text="Cannot tell: the runs do not support a comparison.", kind="none")
    kinds = {VERDICTS[each.verdict][3] for each in shown}
    text = " ".join(map(sentence, shown)) if len(shown) <= MOST_SENTENCES else _counted(shown)
    order = ("low", "medium", "high")
    level, reason = min(map(_certainty, shown), key=lambda found: order.index(found[0]))
    return Answer(
        text=text,
        confidence=f"Confidence: {level}; {reason}.",
        kind=kinds.pop() if len(kinds) == 1 else "mixed",
    )


def sentence(each: Treatment) -> str:
    """Whether a treated recipe is better, by how much, and how that depends on size."""
    text = VERDICTS[each.verdict][1].format(each.contrast.treated, each.comparison.plain)
    if each.decisive is not None:
        text += f": {_found(each, f'{100 * each.comparison.level:g}{NBSP}%: ')}"
    return f"{'; '.join(filter(None, [text, _by_size(each)]))}."


def _found(each: Treatment, level: str = "") -> str:
    """The difference that counts, and where it was found."""
    place = each.decisive
    if place is None:
        return "unknown"
    how = "forecast" if place.is_forecast else "measured"
    return f"{difference(place, level)} in loss at {name_size(place.size)}, {how}"


def _by_size(each: Treatment) -> str:
    """How the difference depends on size."""
    contrast = each.contrast
    for pair in contrast.sign_changes[:1]:
        return "measured " + ", ".join(f"{_short(p)} at {name_size(p.size)}" for p in pair)
    if has_misfit(contrast):
        return "the laws do not fit"
    if contrast.verdict == "shift":
        return "the law is shifted, the exponents do not differ significantly"
    if contrast.verdict != "exponent" or not contrast.by_size:
        return ""
    how, first = "gains" if gains(each) else "loses", contrast.by_size[0]
    return f"it {how} with size ({_short(first)} at {name_size(first.size)})"


def gains(each: Treatment) -> bool:
    """Whether the difference falls from the smallest size to where it counts."""
    places = [*each.contrast.by_size[:1], *filter(None, [each.decisive])]
    values = [place.difference.value or 0.0 for place in places]
    return bool(values) and values[-1] < values[0]


def _counted(shown: Sequence[Treatment]) -> str:
    """How many treated recipes have which verdict, and the extremes."""
    verdicts = [each.verdict for each in shown]
    counts = ", ".join(
        f"{verdicts.count(verdict)} {words}"
        for verdict, (_, _, words, _) in VERDICTS.items()
        if verdict in verdicts
    )
    known = [(p.difference.value or 0.0, e) for e in shown if (p := e.decisive) is not None]
    text = f"Of {len(shown)} treated recipes: {counts}."
    for name, choose in (("Best", min), ("Worst", max)) if known else ():
        each = choose(known, key=lambda pair: pair[0])[1]
        text += f" {name}: {each.label}, {_found(each)}."
    return text


def _certainty(each: Treatment) -> tuple[str, str]:
    """High, medium or low, and why."""
    contrast, place, name = each.contrast, each.decisive, each.label
    flags = [explained(flag).meaning.rstrip(".") for flag in contrast.flags]
    about = f"{name}: {flags[0][0].lower()}{flags[0][1:]}" if flags else ""
    where = name_size(each.comparison.target)
    if each.check is not None and each.check.agrees is False:
        return "low", f"{name}: the forecast did not hold at {where}"
    if contrast.verdict == "unknown" or place is None or None in tuple(place.difference.ci):
        return "low", about or f"{name}: the runs do not bound the difference"
    if flags:
        return "low" if has_misfit(contrast) else "medium", about
    if not place.is_forecast:
        return "high", f"measured at {where} with {pairs(place)}"
    largest = contrast.by_size[-1].size if contrast.by_size else place.size
    ratio = max(place.size[c] / largest[c] for c in largest)
    text = f"forecast at {format_quantity(ratio)} times the largest measured size, no warnings"
    return ("high" if ratio <= FAR else "medium"), text


def explained(flag: str) -> Explanation:
    """A flag in words; one without an explanation speaks for itself."""
    found = explain_flag(flag, of="comparison")
    return replace(found, meaning=flag) if found.name == flag else found


def pairs(place: SizeDifference) -> str:
    """How many pairs of seeds a measured difference rests on."""
    return f"{place.n_pairs} pair{'s' * (place.n_pairs != 1)}"


def _short(place: SizeDifference) -> str:
    """A difference with two digits, whole percents from ten on."""
    value = 100 * (place.difference.value or 0.0)
    text = f"{abs(value):.0f}" if abs(value) >= 9.95 else f"{abs(value):.2g}"
    return f"{'−' if value < 0 else '+'}{text}{NBSP}%"


def difference(place: SizeDifference, level: str = "") -> str:
    """A difference at one size; see `percent`."""
    is_single = not place.is_forecast and place.n_pairs <= 1
    return percent(place.difference, level, "one seed: no interval" if is_single else "")


def percent(measure: Measure, level: str = "", why: str = "") -> str:
    """A relative difference with its interval, `−3.4 % (95 %: −5.4 to −1.4 %)`."""
    shown = measure.map(lambda share: 100 * share)
    value, ends = shown.value, shown.ci
    if value is None:
        return "unknown" if ends == OPEN else f"{format_interval(ends)}{NBSP}%"
    sign = "+" * (value > 0)
    if ends == OPEN:
        return f"{sign}{format_value(value)}{NBSP}% ({why or 'interval unknown'})"
    number, _, interval = format_estimate(value, ends).partition(" (")
    return f"{sign}{number}{NBSP}% ({level}{interval[:-1]}{NBSP}%)"
