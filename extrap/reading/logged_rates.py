"""Learning rates that are known from logs only: their peak, where the log tells it.

| the logged rates | give |
|---|---|
| from the first step on, or with neighbours that hardly differ | the largest of them |
| that follow a linear or cosine decay to 0 at the last step | the start of that decay |
| any others | `largest_logged_learning_rate`, which must be named to be used |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from extrap.errors import Choice, DataError
from extrap.reading.cells import numbers_of
from extrap.reading.names import (
    SCHEDULE_NAMES,
    TOTAL_STEP_NAMES,
    WARMUP_SHARE_NAMES,
    WARMUP_STEP_NAMES,
    short_name,
)
from extrap.records.notes import ELSEWHERE, note

Array = NDArray[np.float64]

LARGEST_LOGGED_PREFIX = "largest_logged_"
"""How a column is called of rates whose peak is not known."""
PEAK_TOLERANCE = 0.01
"""Relative error of a peak that is not worth a question."""
LEAST_SHARE_OF_PEAK = 0.1
"""Share of its peak below which a logged rate says little about the peak."""
DECAY_SHAPES: Mapping[str, Callable[[Array], Array]] = {
    "linear": lambda progress: 1 - progress,
    "cosine": lambda progress: (1 + np.cos(np.pi * progress)) / 2,
    "constant": np.ones_like,
}
"""Kind of a decay → the share of the peak at a share of its steps."""


def with_logged_rates(
    table: pd.DataFrame, points: pd.DataFrame, rates: Mapping[str, str], *, is_known: bool
) -> tuple[pd.DataFrame, list[str]]:
    """A table with logged rates as settings, or named so that nobody takes them for one; notes.

    Args:
        table: A row for each run.
        points: What was logged, see `Contents`.
        rates: Column of a rate → the metric of its points.
        is_known: Whether the rates of the runs are known from elsewhere; then these are left out.
    """
    ends, notes = points.groupby("run")["step"].max(), list[str]()
    for column, metric in rates.items():
        logged = points[points["metric"].eq(metric)].sort_values("step")
        by_run = {
            run: curve[["step", "value"]].to_numpy().T for run, curve in logged.groupby("run")
        }
        table, name = table.drop(columns=column), short_name(column)
        if is_known:
            continue
        peaks = {
            r: _peak(curve[0], curve[1], table.loc[r].to_dict(), ends[r])
            for r, curve in by_run.items()
        }
        known_peaks = {run: peak for run, peak in peaks.items() if peak is not None}
        values = {run: rate for run, (rate, _) in known_peaks.items()}
        if len(known_peaks) < len(peaks):
            name = f"{LARGEST_LOGGED_PREFIX}{name}"
            values = {run: curve[1].max() for run, curve in by_run.items()}
        else:
            ways = dict.fromkeys(way for _, way in known_peaks.values())
            notes.append(note(ELSEWHERE, name, f"log: {' or '.join(ways)}"))
        table = table.assign(**{name: table.index.map(values)})
    return table, notes


def refuse_largest_logged(tuned: tuple[str, ...], where: str) -> None:
    """Raise where an inferred tuned value is the largest logged rate."""
    for column in tuned:
        if column.startswith(LARGEST_LOGGED_PREFIX):
            name = column.removeprefix(LARGEST_LOGGED_PREFIX)
            raise DataError(
                f"{name} is known from the logs of {where} only, and they do not tell its peak, "
                f"which may be higher than any logged. Write it into the names of the runs, "
                f"{name}=0.001, or forecast the largest logged one:",
                [Choice({"tune": list(tuned)})],
            )


def _peak(
    steps: Array, rates: Array, settings: Mapping[str, Any], end: float
) -> tuple[float, str] | None:
    """The peak of a rate and how it is known; None where it is not."""
    is_there = np.isfinite(steps) & np.isfinite(rates) & (rates > 0)
    steps, rates = steps[is_there], rates[is_there]
    if not len(rates):
        return None
    last = len(rates) - 1 - int(np.argmax(rates[::-1]))  # the last of several
    largest = float(rates[last])
    before = float(steps[last - 1]) if last else 0.0
    fall = -np.diff(rates[last : last + 2]) / np.diff(steps[last : last + 2])
    is_seen = steps[last] <= 1 or (not len(fall) and last > 0)
    if is_seen or (len(fall) and fall[0] * (steps[last] - before) <= PEAK_TOLERANCE * largest):
        return largest, "the largest logged one"
    total = _number(settings, TOTAL_STEP_NAMES) or end
    warmup = _number(settings, WARMUP_STEP_NAMES)
    if warmup is None and (share := _number(settings, WARMUP_SHARE_NAMES)) is not None:
        warmup = share * total
    kind = str(_setting(settings, SCHEDULE_NAMES)).lower()
    named_kind = re.fullmatch(rf"(?:.*\.)?({'|'.join(DECAY_SHAPES)})(?:_with_warmup)?", kind)
    start = warmup or 0.0
    for kind in [named_kind[1]] if named_kind else ("linear", "cosine"):
        progress = (steps[last:] - start) / max(total - start, 1.0)
        shares = DECAY_SHAPES[kind](np.clip(progress, 0.0, 1.0))
        is_used = shares > LEAST_SHARE_OF_PEAK
        starts = rates[last:][is_used] / shares[is_used]
        if len(starts) < (1 if named_kind else 2):
            continue
        one_step = 2 / (total * shares[is_used].min())  # a log may be one step late
        if starts.max() / starts.min() - 1 <= PEAK_TOLERANCE + one_step:
            unless = "" if warmup is not None else ", if there was no warmup"
            return float(starts[0]), f"the start of its {kind} decay to 0{unless}"
    return None


def _setting(settings: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    called = {short_name(str(column)).lower(): value for column, value in settings.items()}
    return next((called[name] for name in names if called.get(name) is not None), None)


def _number(settings: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    number = float(numbers_of([_setting(settings, names)])[0])
    return number if np.isfinite(number) and number >= 0 else None
