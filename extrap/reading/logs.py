"""The log of a running job, read again at each look by the reader of every table."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from extrap.files import require_file
from extrap.reading.cells import is_empty, read_numbers
from extrap.reading.columns import find_column, missing_column
from extrap.reading.losses import loss_of_metric
from extrap.reading.selecting import with_definitions
from extrap.reading.table_files import JSON_LINES, json_rows, read_table
from extrap.reading.trackers.tensorboard import MARK, EventLog


class LogReader:
    """Reads the losses that a job has logged since they were last asked for.

    A log is CSV or JSONL as `read_runs` takes it, or TensorBoard's event files, alone or in a
    folder. A last line counts once its newline is written. A row without a loss logs something
    else.

    Args:
        path: The log.
        step: Column or key of the step; event files have it as `step`.
        loss: Column, key or tag of the loss.
        let: Definitions `name = formula` over what is logged, as of `read_runs`.
        maximised: Whether the loss is a metric that is better when larger, as of `read_runs`.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        step: str = "step",
        loss: str = "loss",
        let: Iterable[str] = (),
        maximised: bool = False,
    ) -> None:
        self._path = Path(path)
        self._step, self._loss = step, loss
        self._let, self._maximised = tuple(let), maximised
        self._events: EventLog | None = None
        self._last_step = -math.inf
        self._columns: dict[str, str] = {}

    def poll(self) -> list[tuple[float, float]]:
        """The (step, loss) of every row whose step lies beyond the last, in the order of the log.

        Raises:
            ValueError: A definition cannot be read.
            DataError: The log is missing or no table; or it lacks a column so far.
        """
        table = self._read()
        if table.empty:
            return []
        table = with_definitions(table, self._let, str(self._path))
        cells = self._column(table, self._loss, is_metric=True)
        steps = read_numbers(self._column(table, self._step), self._step)
        losses = read_numbers(cells, self._loss)
        if self._maximised:
            losses = loss_of_metric(losses, self._loss)[0] - losses
        is_new = (steps > self._last_step) & np.isfinite(steps) & ~is_empty(cells)
        self._last_step = float(np.fmax(self._last_step, steps[is_new].max()))  # NaN: none is new
        return list(zip(steps[is_new].tolist(), losses[is_new].tolist(), strict=True))

    def _column(self, table: pd.DataFrame, name: str, *, is_metric: bool = False) -> pd.Series:
        """A column; once it is found, columns of a like name that come later are others."""
        have, where = [str(column) for column in table], str(self._path)
        logged_name = self._columns.get(name, name)
        column = find_column(logged_name, have, where, is_metric=is_metric)
        if column is None:
            raise missing_column(name, have, where)
        self._columns[name] = column
        return table[column]

    def _read(self) -> pd.DataFrame:
        if not self._path.is_dir():
            require_file(self._path, "log")
        if self._path.is_dir() or MARK in self._path.name:
            self._events = self._events or EventLog(self._path)
            return read_table(_rows_by_step(self._events.points()))
        content = self._path.read_bytes()
        text = content[: content.rfind(b"\n") + 1].decode("utf-8-sig", errors="replace")
        if not text:
            return pd.DataFrame()
        if self._path.suffix.lower() in JSON_LINES:
            return read_table(json_rows(text, str(self._path)))
        return read_table(io.StringIO(text), name=str(self._path))


def _rows_by_step(points: dict[str, list[tuple[float, float]]]) -> list[dict[str, float]]:
    """One row per step, with the tags that were logged there."""
    rows: dict[float, dict[str, float]] = {}
    for tag, values in points.items():
        for step, value in values:
            rows.setdefault(step, {})[tag] = value
    return [{**row, "step": step} for step, row in sorted(rows.items())]
