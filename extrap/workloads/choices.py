"""Names a user chose, checked against the names there are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def require_known(kind: str, given: str, known: Iterable[str]) -> None:
    """Raise unless a name is one of the known ones.

    Args:
        kind: What the name is of, for the message: `"workload"`, `"option of bytes-mlp"`.
        given: The name.
        known: All names that exist.

    Raises:
        ValueError: The name is unknown; the message says the nearest one and lists all.
    """
    names = sorted(known)
    if given in names:
        return
    near = difflib.get_close_matches(given, names, n=1)
    hint = f"did you mean {near[0]!r}? There are: " if near else "choose one of "
    raise ValueError(f"unknown {kind} {given!r}; {hint}{', '.join(names)}.")
