"""Columns by name: the one that was asked for, and the one that was meant."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence

from extrap.errors import Choice, DataError, argument, shown
from extrap.reading.names import MEASURED, bare_name, known_name, short_name, synonyms

MOST_NAME = 100
"""Characters of a name that an error shows."""
MOST_NEAR, NEARLY = 6, 0.1
"""Names that an error offers; those whose likeness is within this of the nearest are as near."""


def find_column(
    name: str, have: Sequence[str], where: str, *, is_metric: bool = False
) -> str | None:
    """The column of that name, whatever a tracker writes before it; else the one that ends so.

    Settings come before metrics of that name, unless a metric is asked for.

    Raises:
        DataError: Several do.
    """
    if name in have:
        return name
    bare = [column for column in have if bare_name(column) == bare_name(name)]
    ends = [c for c in have if c.endswith((f".{name}", f"/{name}", f":{name}"))]
    tiers = [
        [c for c in tier if bool(MEASURED.match(c)) == wanted]
        for wanted in (is_metric, not is_metric)
        for tier in (bare, ends)
    ]
    found = next(filter(None, tiers), [])
    if len(found) > 1:
        raise DataError(
            f"{where} has several columns that could be {name!r}: "
            f"{', '.join(map(shown, found))}; write the whole name of one."
        )
    return found[0] if found else None


def require_column(
    name: str,
    have: Sequence[str],
    where: str,
    *,
    option: str | None = None,
    is_metric: bool = False,
) -> str:
    """As `find_column`; `option` is the argument that would name the right one.

    Raises:
        DataError: None does; the nearest are named. Or several do.
    """
    column = find_column(name, have, where, is_metric=is_metric)
    if column is None:
        raise missing_column(name, have, where, option=option)
    return column


def display_name(column: str, have: Collection[str]) -> str:
    """The shortest name to which a column alone answers, among settings or among metrics."""
    short, bare = short_name(column), bare_name(column)
    is_metric = bool(MEASURED.match(column))
    like = [c for c in have if bool(MEASURED.match(c)) == is_metric]
    if short not in have and sum(short in (short_name(c), bare_name(c)) for c in like) == 1:
        return short
    is_dotted = column.endswith((f".{bare}", f"/{bare}", f":{bare}"))
    is_alone = bare not in have and sum(bare == bare_name(c) for c in like) == 1
    return bare if is_dotted and is_alone else column


def missing_column(
    name: str, have: Sequence[str], where: str, *, option: str | None = None
) -> DataError:
    """The error to raise: what is missing where, and the nearest of the names there are."""
    near = _nearest(name, have)
    names = ", ".join(c if len(c) <= MOST_NAME else shown(c) for c in have[:12])
    if not near:
        todo = f"; name one with {argument(option, ...)}" if option else ""
        return DataError(f"{where} has no column {name!r}; it has {names}{todo}.")
    guesses = [display_name(guess, have) if option else guess for guess in near]
    if len(guesses) > 1:
        choices = [Choice({option: guess}) for guess in guesses] if option else []
        listed = " or ".join(map(repr, guesses))
        return DataError(f"{where} has no column {name!r}; did you mean {listed}?", choices)
    todo = f" write {argument(option, guesses[0])}" if option else ""
    return DataError(f"{where} has no column {name!r}; did you mean {guesses[0]!r}?{todo}")


def _nearest(name: str, have: Sequence[str]) -> list[str]:
    """The names that differ in their case, that mean the same, or that are spelled nearly so."""
    asked = known_name(name)
    for means in ({asked}, synonyms(asked)):
        if same := [column for column in have if known_name(column) in means]:
            return same[:MOST_NEAR]
    bare = {bare_name(column).lower(): column for column in reversed(have)}
    for names in (bare, {known_name(column): column for column in reversed(have)}):
        near = difflib.get_close_matches(name.lower(), names, n=MOST_NEAR, cutoff=0.5)
        ratios = [difflib.SequenceMatcher(None, name.lower(), each).ratio() for each in near]
        if near:
            kept = zip(near, ratios, strict=True)
            return [names[each] for each, ratio in kept if ratio > max(ratios) - NEARLY]
    return []
