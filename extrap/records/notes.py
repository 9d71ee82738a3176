"""Notes on what reading had to decide, as data that reads as text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

USING, LOSS_COLUMN, LOSS_KIND, MAXIMISED, POOLED, UNUSED_TABLE = (
    "using",
    "loss-column",
    "loss-kind",
    "share",
    "pooled",
    "unused",
)
ELSEWHERE, MARKED, COUNTED_COMPLETE, OTHER_NAME, COPIES_LEFT_OUT, SEEDLESS_COPIES = (
    "elsewhere",
    "marked",
    "counted",
    "other-name",
    "copies",
    "seedless-copies",
)
TEXTS = {
    LOSS_COLUMN: "the loss is the column {}",
    LOSS_KIND: "the losses are said to be of the kind {}",
    MAXIMISED: "{} is maximised: the loss is 1 − {}",
    POOLED: "pooled: runs that differ in {}",
    UNUSED_TABLE: "another table has the columns of {}",
    ELSEWHERE: "{} was read from the {}",
    MARKED: "{} cell(s) of {} hold more than a number: {} is read as {}",
    COUNTED_COMPLETE: "{}: counted as complete",
    OTHER_NAME: "{} stands in the column {}",
    COPIES_LEFT_OUT: "{} row(s) are copies of an earlier one, seed and loss included: left out",
    SEEDLESS_COPIES: "{} run(s) without a seed equal an earlier one in every column: leave copies "
    "out, they say nothing about noise",
    USING: "Using {}",
}
"""Code → the text of a note, with its values; all other notes are text alone. What files hold is
taken for the first that it fits, so the text that fits most comes last."""
SHOWN_AT_ONCE = (ELSEWHERE, MARKED, COUNTED_COMPLETE)
"""Notes that are said with the announcement of which columns were taken for what."""


class Note(str):
    """What reading had to decide, a sentence; `note` makes those that have a code.

    Attributes:
        code: One of `TEXTS`, or empty.
        values: What its text holds.
    """

    __slots__ = ("code", "values")
    code: str
    values: tuple[str, ...]

    def __new__(cls, text: str) -> Note:
        """Made of its text, as files hold it; a note stays what it is."""
        if isinstance(text, Note):
            return text
        instance = super().__new__(cls, text)
        matches = ((code, pattern.fullmatch(text)) for code, pattern in _patterns().items())
        match = next(((code, m.groups()) for code, m in matches if m is not None), ("", ()))
        instance.code, instance.values = match
        return instance


def note(code: str, *values: object) -> Note:
    """The note of a code with its values."""
    made_note = Note(TEXTS[code].format(*values))
    made_note.code, made_note.values = code, tuple(map(str, values))  # whatever names they hold
    return made_note


def values_of(notes: Iterable[str], code: str) -> list[tuple[str, ...]]:
    """The values of each of the notes that have a code."""
    return [parsed.values for parsed in map(Note, notes) if parsed.code == code]


def of_codes(notes: Iterable[str], *codes: str) -> list[str]:
    """The notes that have one of a few codes, each once."""
    return list(dict.fromkeys(text for text in notes if Note(text).code in codes))


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    return {
        code: re.compile("(.*?)".join(map(re.escape, text.split("{}"))), re.DOTALL)
        for code, text in TEXTS.items()
    }
