"""The name of a column that is not there, and the one that was meant."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from extrap.errors import DataError

__all__ = ["missing_column"]


def missing_column(name: str, have: Sequence[str], where: str) -> DataError:
    """The error to raise: what is missing where, and the nearest of the names there are."""
    near = difflib.get_close_matches(name, have, n=1, cutoff=0.5)
    lowered = {c.lower(): c for c in have}
    guess = lowered.get(name.lower()) or (near[0] if near else None)
    hint = f"did you mean {guess!r}?" if guess else f"it has {', '.join(have[:12])}."
    return DataError(f"{where} has no column {name!r}; {hint}")
