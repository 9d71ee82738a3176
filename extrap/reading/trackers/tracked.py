"""A run as a tracker knows it, and many of them as a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from extrap.errors import DataError
from extrap.reading.found import Found
from extrap.reading.frames import flat, frame_of_rows

Points = Sequence[tuple[float, float]]
"""Step and value of every time a metric was logged; of two of one step the later counts."""
MOST_RUNS = 20_000
MOST_POINTS = 10_000_000
"""Of all runs together."""
OURS = ("run", "status", "stage")
"""Columns that a table of runs has anyway; a setting of that name is `config.NAME`."""
WORDS = {"nan": math.nan, "infinity": math.inf, "-infinity": -math.inf}
"""How trackers spell in JSON what is not finite."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrackedRun:
    """One run, or a part of one that was begun again.

    Attributes:
        name: What to call it.
        settings: Name → single value.
        history: Metric → its points.
        summary: Metric → one value, for those that have no history.
        status: How it ended, in the tracker's word; empty if that is not known.
        identity: Parts of one run have the same; empty if that is not known.
        started: Orders the parts of a run.
    """

    name: str
    settings: Mapping[str, Any]
    history: Mapping[str, Points]
    summary: Mapping[str, float] = field(default_factory=dict)
    status: str = ""
    identity: str = ""
    started: float = 0.0


class LazyHistory(Mapping[str, Points]):
    """The points of metrics, asked for when they are needed: a server is asked for each.

    Args:
        metrics: Their names.
        fetch: Metric → its points.
    """

    def __init__(self, metrics: Iterable[str], fetch: Callable[[str], Points]) -> None:
        self._metrics = tuple(metrics)
        self._fetch = fetch
        self._fetched: dict[str, Points] = {}

    def __getitem__(self, metric: str) -> Points:
        if metric not in self._metrics:
            raise KeyError(metric)
        if metric not in self._fetched:
            self._fetched[metric] = self._fetch(metric)
        return self._fetched[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self._metrics)

    def __len__(self) -> int:
        return len(self._metrics)


def number_of(value: object) -> float | None:
    """A number, however a tracker spells what is not finite; None for anything else."""
    if isinstance(value, str):
        return WORDS.get(value.strip().lower())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def settings_of(nested: Mapping[Any, Any]) -> dict[str, Any]:
    """Settings that are single values, those within others with dots."""
    return {
        name: value
        for name, value in flat(nested).items()
        if value is None or isinstance(value, bool | int | float | str)
    }


def table_of(
    runs: Sequence[TrackedRun],
    *,
    where: str,
    losses: tuple[str, ...] = ("loss",),
    notes: Iterable[str] = (),
) -> Found:
    """Runs as a table: settings, and the last value of every metric; their curves beside it.

    Args:
        runs: The runs, in the order of the rows.
        where: What to call the source.
        losses: Metrics to take the loss from, the first there is.
        notes: What reading had to decide.

    Raises:
        DataError: There are none, or too many.
    """
    if not runs:
        raise DataError(f"{where} holds no run with a metric; check the path.")
    if len(runs) > MOST_RUNS:
        raise DataError(f"at most {MOST_RUNS:,} runs are read at once, got more in {where}.")
    metrics = dict.fromkeys(name for run in runs for name in (*run.history, *run.summary))
    called = {metric: f"summary.{metric}" if metric in OURS else metric for metric in metrics}
    rows = [_row(run, called) for run in runs]
    seen = {name for row in rows for name in row}
    unread = [column for column in called.values() if column not in seen]
    rows = [{**row, **dict.fromkeys(unread)} for row in rows]
    back = {column: metric for metric, column in called.items()}
    return Found(
        table=frame_of_rows(rows, where),
        where=where,
        curves=lambda loss: _curves(runs, back[loss]) if loss in back else None,
        is_remote=any(isinstance(run.history, LazyHistory) for run in runs),
        unread=frozenset(called[metric] for metric in _unread(runs)),
        notes=tuple(notes),
        losses=losses,
        metrics=tuple(back),
        names="run",
    )


def _row(run: TrackedRun, called: Mapping[str, str]) -> dict[str, Any]:
    taken = {*called.values(), *OURS}
    settings = {f"config.{k}" if k in taken else k: v for k, v in run.settings.items()}
    values = dict(run.summary)
    if not isinstance(run.history, LazyHistory):  # else the summary must do
        values |= {metric: _last(points) for metric, points in run.history.items() if points}
    return {
        "run": run.name,
        "status": run.status,
        **settings,
        **{called[metric]: value for metric, value in values.items()},
    }


def _unread(runs: Sequence[TrackedRun]) -> set[str]:
    """Metrics that a server has, and for whose last values it was not asked."""
    lazy = [run for run in runs if isinstance(run.history, LazyHistory)]
    return {name for run in lazy for name in run.history if name not in run.summary}


def _last(points: Points) -> float:
    return max(enumerate(points), key=lambda each: (each[1][0], each[0]))[1][1]


def _curves(runs: Sequence[TrackedRun], metric: str) -> pd.DataFrame:
    rows: list[tuple[int, float, float]] = []
    for number, run in enumerate(runs):
        rows += [(number, step, value) for step, value in run.history.get(metric, ())]
        if len(rows) > MOST_POINTS:
            raise DataError(
                f"curves have at most {MOST_POINTS:,} points together, got more of {metric!r}; "
                "read fewer runs at once."
            )
    return pd.DataFrame(rows, columns=["run", "step", "loss"])
