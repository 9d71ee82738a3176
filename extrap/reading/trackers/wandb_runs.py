"""Runs of W&B's public API: its objects, or `wandb://ENTITY/PROJECT`.

The last value of a metric is that of the run's summary, for which a server is asked once; its
history, one request a run, only where a curve is wanted: for `--final best` or `tail`. The library
is imported for an address alone, not for objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from extrap.errors import DataError
from extrap.reading.bounds import first_line
from extrap.reading.found import Found
from extrap.reading.trackers.tracked import (
    MOST_RUNS,
    LazyHistory,
    Points,
    TrackedRun,
    number_of,
    settings_of,
    table_of,
)

SCHEME = "wandb://"
STEP = "_step"
EXTREMES = ("min", "max", "mean", "best", "last")
"""What `define_metric` may make of a metric in the summary."""


def are_runs(source: Any) -> bool:
    """Whether these are W&B's run objects: a list of them, or what `Api().runs(…)` gives."""
    if isinstance(source, str | bytes | Mapping | pd.DataFrame) or hasattr(source, "read"):
        return False
    if type(source).__module__.startswith("wandb.") and hasattr(source, "__iter__"):
        return True
    is_list = isinstance(source, list | tuple) and bool(source)
    return is_list and all(_is_run(item) for item in source)


def _is_run(item: object) -> bool:
    return all(hasattr(item, name) for name in ("config", "summary", "id", "state"))


def read_project(address: str) -> Found:
    """The runs of `wandb://ENTITY/PROJECT`, asked of the server that wandb is logged into.

    Raises:
        DataError: The server does not give them.
    """
    import wandb

    path = address.removeprefix(SCHEME).strip("/")
    if not path:
        raise DataError(f"a project of W&B is wandb://ENTITY/PROJECT, got {address!r}.")
    try:
        return read_run_objects(wandb.Api().runs(path), where=f"{SCHEME}{path}")
    except (wandb.errors.Error, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"W&B does not give the runs of {path}: {first_line(error)}; check the name and run "
            "wandb login."
        ) from error


def read_run_objects(runs: Iterable[Any], *, where: str = "the list of runs") -> Found:
    """Runs as a table.

    Args:
        runs: Objects with `config`, `summary`, `state`, `id`, `name`, and `scan_history` or
            `history`.
        where: What to call them.

    Raises:
        DataError: There are none or too many.
    """
    tracked: list[TrackedRun] = []
    for run in runs:
        if len(tracked) >= MOST_RUNS:
            raise DataError(f"at most {MOST_RUNS:,} runs are read at once, got more of {where}.")
        tracked.append(_tracked(run))
    return table_of(tracked, where=where)


def _tracked(run: Any) -> TrackedRun:
    values = settings_of(_plain(run.summary))
    numbers = {key: number_of(value) for key, value in values.items() if not key.startswith("_")}
    summary = {key: number for key, number in numbers.items() if number is not None}
    settings = {k: v for k, v in settings_of(_plain(run.config)).items() if not k.startswith("_")}
    name = str(getattr(run, "name", None) or run.id)
    return TrackedRun(
        name=name,
        settings=settings,
        history=LazyHistory(_logged(summary), lambda metric: _history(run, metric)),
        summary=summary,
        status=str(run.state or ""),
    )


def _logged(summary: Mapping[str, float]) -> list[str]:
    """Metrics that have a history; a summary may hold an extreme alone, `loss.min` of `loss`.

    `define_metric("loss", summary="min")` leaves a run's summary without the last value.
    """
    parts = (name.rpartition(".") for name in summary)
    defined = [whole for whole, _, end in parts if whole and end in EXTREMES]
    return list(dict.fromkeys((*summary, *defined)))


def _plain(values: Any) -> dict[str, Any]:
    """A config or summary as a dictionary; W&B's summaries are objects that hold one."""
    inner = getattr(values, "_json_dict", values)
    return dict(inner) if isinstance(inner, Mapping) else dict(values)


def _history(run: Any, metric: str) -> Points:
    keys = [STEP, metric]
    if hasattr(run, "scan_history"):
        rows: Iterable[Mapping[str, Any]] = run.scan_history(keys=keys)
    else:
        rows = _rows(run.history(keys=keys))
    pairs = ((number_of(row.get(STEP)), number_of(row.get(metric))) for row in rows)
    return [(step, value) for step, value in pairs if step is not None and value is not None]


def _rows(history: Any) -> Sequence[Mapping[str, Any]]:
    return history.to_dict("records") if isinstance(history, pd.DataFrame) else list(history)
