"""Runs of W&B's public API: its objects, or `wandb://ENTITY/PROJECT`.

The last value of a metric is that of the run's summary. Its history, one request per run, is asked
for where a curve is wanted: for `--final best` or `tail`. The library is imported for an address
alone, not for objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from extrap.errors import DataError, first_line
from extrap.reading.contents import Contents, points_of, tracked
from extrap.reading.frames import single_values

SCHEME = "wandb://"
"""Before addresses of projects."""
STEP_KEY = "_step"
"""Key of the step in a history."""
NOT_FINITE = ("NaN", "Infinity", "-Infinity")
"""How W&B writes numbers that are not finite."""


def are_runs(source: Any) -> bool:
    """Whether these are W&B's run objects: a list of them, or what `Api().runs(…)` gives."""
    if isinstance(source, list | tuple):
        return bool(source) and all(hasattr(run, "config") for run in source)
    return type(source).__module__.startswith("wandb.") and hasattr(source, "__iter__")


def read_project(address: str) -> Contents:
    """The runs of `wandb://ENTITY/PROJECT`, asked of the server that wandb is logged into.

    Raises:
        DataError: The server does not give them.
    """
    import wandb

    try:
        runs = list(wandb.Api().runs(address.removeprefix(SCHEME).strip("/")))
    except (wandb.errors.Error, ValueError) as error:
        raise DataError(
            f"W&B does not give the runs of {address}: {first_line(error)}; an address is "
            "wandb://ENTITY/PROJECT. Check it, and run wandb login."
        ) from error
    return read_run_objects(runs, where=address)


def read_run_objects(objects: Iterable[Any], *, where: str = "the list of runs") -> Contents:
    """Runs as a table, and their points.

    The objects have `config`, `summary`, `state`, `id`, `name` and `scan_history`.

    Raises:
        DataError: There are none.
    """
    objects = list(objects)

    def points(metric: str) -> pd.DataFrame:
        rows = [
            (i, row.get(STEP_KEY), row.get(metric))
            for i, run in enumerate(objects)
            for row in run.scan_history(keys=[STEP_KEY, metric])
        ]
        table = pd.DataFrame(rows, columns=["run", "step", "value"], dtype=object)
        points = points_of(table["run"].astype(int), table["step"], table[["value"]])
        return points.assign(metric=metric)

    runs = [
        (str(run.name or run.id), _values(run.config), str(run.state or "")) for run in objects
    ]
    summaries = [
        {name: value for name, value in _values(run.summary).items() if _is_number(value)}
        for run in objects
    ]
    return tracked(runs, points, where=where, summaries=summaries)


def _values(nested: Any) -> dict[str, Any]:
    """Single values of a config or a summary, which is an object that holds a dictionary."""
    values = single_values(getattr(nested, "_json_dict", nested))
    return {name: value for name, value in values.items() if not name.startswith("_")}


def _is_number(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number or value in NOT_FINITE
