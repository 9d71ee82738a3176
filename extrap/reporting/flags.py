"""Flags in words, for somebody who has not read the manual.

A flag is explained in three parts: what it means, why that matters, and what to do about it. The
table `MEANINGS` of each analysis has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from extrap.records.flags import IMPRECISE, REFUSED, Flag
from extrap.registry import meanings_for

Meaning = tuple[str, str, str]
"""What it means; why it matters; what to do."""
UNKNOWN_MEANING: Meaning = (
    "The library flagged this result.",
    "The result depends on more than the numbers show.",
    "See the documentation of this flag.",
)
"""Of a flag that the table of an analysis lacks."""
FLAG_KEYS = ("flags", "warnings")
"""Keys below which the JSON of a result holds flags."""


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


def with_flag_meanings(document: dict[str, Any], result: object) -> dict[str, Any]:
    """The JSON of a result and, under `flag_meanings`, what each flag in it means.

    Its keys are the flags without their details; a document without flags stays as it is.
    """
    flags = list(flags_in(document))
    if not flags:
        return document
    explained = {
        flag.name: {"meaning": flag.meaning, "why": flag.why, "action": flag.action}
        for flag in explain_flags(flags, meanings_for(result))
    }
    return {**document, "flag_meanings": explained}


def flags_in(document: Any) -> Iterator[str]:
    """All flags in the JSON of a result, as often as they occur."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            if key in FLAG_KEYS and isinstance(value, list):
                yield from value
            else:
                yield from flags_in(value)
    elif isinstance(document, list):
        for item in document:
            yield from flags_in(item)


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
