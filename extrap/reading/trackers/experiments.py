"""What MLflow's readers share: which of several experiments, and what a stored value means."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from extrap.errors import DataError, argument
from extrap.reading.bounds import shown

MOST_NAMED = 12
LARGEST = 1.79e308
"""MLflow's databases store what is infinite as the largest number."""


def as_stored(value: float) -> float:
    """A value as it was before MLflow's database had it."""
    return math.copysign(math.inf, value) if abs(value) > LARGEST else value


def chosen_experiment(
    with_runs: Iterable[str], names: Mapping[str, str], study: str | None, *, where: str
) -> str:
    """The ID of the experiment of a name, or of the only one that has runs.

    Args:
        with_runs: IDs of the experiments of all runs.
        names: ID → name.
        study: Name or ID that was asked for.
        where: What to call the store.

    Raises:
        DataError: There is none of that name, or several and none was named.
    """
    ids = list(dict.fromkeys(with_runs))
    known = [names.get(each, each) for each in ids]
    listed = ", ".join(shown(name) for name in known[:MOST_NAMED]) or "none"
    if study is not None:
        found = [each for each in ids if study in (each, names.get(each))]
        if not found:
            raise DataError(f"{where} has no experiment {study!r} with runs; it has {listed}.")
        return found[0]
    if len(ids) > 1:
        raise DataError(
            f"{where} holds several experiments, {listed}; name one of them with "
            f"{argument('study', ...)}."
        )
    if not ids:
        raise DataError(f"{where} holds no runs of MLflow; check the path.")
    return ids[0]
