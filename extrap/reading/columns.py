"""The name of a column that is not there, and the one that was meant."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from extrap.errors import DataError
from extrap.reading.bounds import shown

__all__ = ["missing_column"]

MOST_NAME, MOST_COMPARED = 100, 2000
"""Longer names, and more of them, are not searched for the one that was meant."""


def missing_column(name: str, have: Sequence[str], where: str) -> DataError:
    """The error to raise: what is missing where, and the nearest of the names there are."""
    short = [c for c in have if len(c) <= MOST_NAME][:MOST_COMPARED]
    near = difflib.get_close_matches(name, short, n=1, cutoff=0.5)
    lowered = {c.lower(): c for c in short}
    guess = lowered.get(name.lower()) or (near[0] if near else None)
    names = ", ".join(c if len(c) <= MOST_NAME else shown(c) for c in have[:12])
    hint = f"did you mean {guess!r}?" if guess else f"it has {names}."
    return DataError(f"{where} has no column {name!r}; {hint}")
