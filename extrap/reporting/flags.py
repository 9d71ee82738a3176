"""Flags in words, for somebody who has not read the manual.

A flag is explained in three parts: what it means, why that matters, and what to do about it. The
table `MEANINGS` of each analysis has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from extrap.records.results import IMPRECISE, REFUSED

Meaning = tuple[str, str, str]
"""What it means; why it matters; what to do."""
UNKNOWN: Meaning = (
    "The library flagged this result.",
    "The result depends on more than the numbers show.",
    "See the documentation of this flag.",
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


def explain_flag(flag: str, meanings: Mapping[str, Meaning]) -> Explanation:
    """A flag in words; an unknown one is passed on as it is.

    Args:
        flag: As the library returns it: a name, or `name: detail`.
        meanings: Flag → what it means; one that ends in a dash is followed by a column.
    """
    name, _, detail = map(str.strip, flag.partition(":"))
    for key in [name, *(start for start in meanings if start.endswith("-"))]:
        if key in meanings and name.startswith(key):
            return Explanation(name, *meanings[key], detail)
    return Explanation(flag, *UNKNOWN)


def explain_flags(
    flags: Iterable[str], meanings: Mapping[str, Meaning]
) -> tuple[Explanation, ...]:
    """Each flag in words once, with all it concerns.

    Why a size is refused is said elsewhere, and why it is imprecise of the last one alone.
    """
    found: dict[str, Explanation] = {}
    for flag in dict.fromkeys(flags):
        shown = flag.partition(":")[0] if flag.startswith(REFUSED) else flag
        new = explain_flag(shown, meanings)
        old = found.get(new.name)
        if old is not None and not flag.startswith(IMPRECISE):
            details = ", ".join(dict.fromkeys(filter(None, [old.detail, new.detail])))
            new = replace(old, detail=details)
        found[new.name] = new
    return tuple(found.values())


def confidence(
    flags: Sequence[str],
    meanings: Mapping[str, Meaning],
    *,
    grave: Sequence[str] = (),
    otherwise: str,
) -> str:
    """How far to trust an answer, with its first reason: low with a grave flag, medium with any.

    Args:
        flags: As the library returns them.
        meanings: Flag → what it means.
        grave: Flags that make it low, the gravest first.
        otherwise: The sentence where there is no flag.
    """
    found = explain_flags(flags, meanings)
    low = [flag for name in grave for flag in found if flag.name == name]
    for reasons, level in ((low, "low"), (found, "medium")):
        if reasons:
            return f"Confidence: {level}; {clause(reasons[0])}."
    return otherwise


def clause(flag: Explanation) -> str:
    """What a flag means, to go on a sentence, with what it concerns in parentheses."""
    about = f" ({flag.detail})" if flag.detail else ""
    return f"{flag.meaning[0].lower()}{flag.meaning[1:].rstrip('.')}{about}"
