"""What a source holds, before anybody says what its columns mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain

import pandas as pd


def no_curves(loss: str) -> pd.DataFrame | None:
    """The curves of a table that has none."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """A table of runs and what its source knows of it.

    Attributes:
        table: One row a run, cells as they are; a metric's column has its last values.
        where: What to call the source in a message.
        curves: Of the metric in a column: `run` (row of the table), `step`, `loss`; or None.
        is_remote: Whether a server is asked for every curve, so that they are left where they are
            unless the final loss is one of them.
        unread: Columns of metrics whose last values stand in their curves alone.
        notes: What reading had to decide, one sentence each.
        sizes: Size columns, where the source says which they are.
        tuned: Tuned columns, where the source says which they are; None where it does not.
        tuned_note: What to say where these are taken.
        losses: Columns to take the loss from if none is named: the first there is.
        metrics: Columns that were measured, where the source says which they are.
        maximised: Columns of metrics that the source says are better when larger.
        names: The column of the runs' names, in which settings may stand.
        origins: Column that was read from names → how, by an example.
    """

    table: pd.DataFrame
    where: str
    curves: Callable[[str], pd.DataFrame | None] = no_curves
    is_remote: bool = False
    unread: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    tuned: tuple[str, ...] | None = None
    tuned_note: str = ""
    losses: tuple[str, ...] = ("loss",)
    metrics: tuple[str, ...] = ()
    maximised: tuple[str, ...] = ()
    names: str | None = None
    origins: Mapping[str, str] = field(default_factory=dict)


def joined(parts: Sequence[Found], where: str) -> Found:
    """The rows of several sources of one kind, one after the other, with their curves.

    Args:
        parts: The sources, at least one.
        where: What to call all of them.
    """
    starts = [0, *accumulate(len(part.table) for part in parts)]

    def curves(loss: str) -> pd.DataFrame | None:
        found = [(part.curves(loss), start) for part, start in zip(parts, starts, strict=False)]
        points = [own.assign(run=own["run"] + start) for own, start in found if own is not None]
        return pd.concat(points, ignore_index=True) if points else None

    return replace(
        parts[0],
        table=pd.concat([part.table for part in parts], ignore_index=True),
        where=where,
        curves=curves,
        is_remote=any(part.is_remote for part in parts),
        unread=frozenset().union(*(part.unread for part in parts)),
        notes=tuple(dict.fromkeys(chain.from_iterable(part.notes for part in parts))),
    )
