"""Flags in words, for somebody who has not read the manual.

A flag is explained in three parts: what it means, why that matters, and what to do about it. The
table `MEANINGS` of each analysis has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from extrap.records.flags import IMPRECISE, REFUSED, Flag

Meaning = tuple[str, str, str]
"""What it means; why it matters; what to do."""
UNKNOWN_MEANING: Meaning = (
    "The library flagged this result.",
    "The result depends on more than the numbers show.",
    "See the documentation of this flag.",
)
"""Of a flag that the table of an analysis lacks."""


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
        meanings: Flag, or its code → what it means.
    """
    flag = Flag(flag)
    meaning = meanings.get(flag.name) or meanings.get(flag.code)
    if meaning is None:
        return Explanation(str(flag), *UNKNOWN_MEANING)
    return Explanation(flag.name, *meaning, flag.detail)


def explain_flags(
    flags: Iterable[str], meanings: Mapping[str, Meaning]
) -> tuple[Explanation, ...]:
    """Each flag in words once, with all it concerns.

    Why a size is refused is said elsewhere, and why it is imprecise of the last one alone.
    """
    explained: dict[str, Explanation] = {}
    for flag in map(Flag, dict.fromkeys(flags)):
        new = explain_flag(flag.name if flag.code == REFUSED else flag, meanings)
        old = explained.get(new.name)
        if old is not None and flag.code != IMPRECISE:
            details = ", ".join(dict.fromkeys(filter(None, [old.detail, new.detail])))
            new = replace(old, detail=details)
        explained[new.name] = new
    return tuple(explained.values())


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
    explained = explain_flags(flags, meanings)
    low = [flag for name in grave for flag in explained if flag.name == name]
    for reasons, level in ((low, "low"), (explained, "medium")):
        if reasons:
            return f"Confidence: {level}; {clause(reasons[0])}."
    return otherwise


def clause(flag: Explanation) -> str:
    """What a flag means, to go on a sentence, with what it concerns in parentheses."""
    about = f" ({flag.detail})" if flag.detail else ""
    return f"{flag.meaning[0].lower()}{flag.meaning[1:].rstrip('.')}{about}"
