"""The log of a running job, read again at each look by the reader of every table."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from extrap.errors import DataError, argument
from extrap.files import require_file
from extrap.reading.cells import is_empty, read_numbers
from extrap.reading.columns import find_column, missing_column
from extrap.reading.losses import loss_of_metric
from extrap.reading.names import RATE_PATTERN, known_name, short_name
from extrap.reading.selecting import with_definitions
from extrap.reading.table_files import JSON_LINES, json_rows, read_table
from extrap.reading.trackers.tensorboard import MARK, EventLog

Array = NDArray[np.float64]
TRAINER_STATE = "trainer_state.json"
"""What Hugging Face's Trainer writes beside its checkpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRun:
    """All that a log says of one run, in its order.

    Attributes:
        steps: Of the losses.
        losses: The losses; NaN where one is not a number.
        rate_steps: Steps of the learning rates, rising; empty where none are logged.
        rates: The learning rates.
        total_steps: The intended last step, where the log says it.
    """

    steps: Array
    losses: Array
    rate_steps: Array
    rates: Array
    total_steps: float | None = None


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

    def read_all(self, *, rate: str | None = None) -> LoggedRun:
        """The whole log, with its learning rates.

        Args:
            rate: Their column; by default the only one that is called so and changes.

        Raises:
            ValueError: A definition cannot be read.
            DataError: The log is missing or no table; it lacks a column; or several columns may be
                the rate.
        """
        total_steps = None
        state = self._path / TRAINER_STATE if self._path.is_dir() else self._path
        if state.name == TRAINER_STATE and state.is_file():
            table, total_steps = _trainer_log(state)
        else:
            table = self._read()
        return logged_run(
            with_definitions(table, self._let, str(self._path)),
            where=str(self._path),
            step=self._step,
            loss=self._loss,
            rate=rate,
            maximised=self._maximised,
            total_steps=total_steps,
        )

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


def logged_run(
    table: pd.DataFrame,
    *,
    where: str,
    step: str = "step",
    loss: str = "loss",
    rate: str | None = None,
    maximised: bool = False,
    total_steps: float | None = None,
) -> LoggedRun:
    """A table of a log as a run; the arguments are those of `LogReader.read_all`.

    Raises:
        DataError: As there.
    """
    if table.empty:
        raise DataError(
            f"{where} has no row yet; give a log with a row for each loss, a trainer's state, or "
            "a folder with TensorBoard's event files."
        )
    have = [str(column) for column in table]
    step_column, loss_column = (
        find_column(name, have, where, is_metric=is_metric)
        for name, is_metric in ((step, False), (loss, True))
    )
    for name, column in ((step, step_column), (loss, loss_column)):
        if column is None:
            raise missing_column(name, have, where)
    steps, losses = (
        read_numbers(table[column], name)
        for name, column in ((step, step_column), (loss, loss_column))
    )
    if maximised:
        losses = loss_of_metric(losses, loss)[0] - losses
    steps, losses = (np.asarray(values, dtype=float) for values in (steps, losses))
    has_loss = ~np.asarray(is_empty(table[loss_column])) & np.isfinite(steps)
    rates = np.full(len(table), np.nan)
    rate_column = _rate_column(table, rate, where)
    if rate_column is not None:
        rates = np.asarray(read_numbers(table[rate_column], rate_column), dtype=float)
    has_rate = np.isfinite(rates) & np.isfinite(steps)
    rate_steps, first = np.unique(steps[has_rate], return_index=True)
    return LoggedRun(
        steps=steps[has_loss],
        losses=losses[has_loss],
        rate_steps=rate_steps,
        rates=rates[has_rate][first],
        total_steps=total_steps,
    )


def _rate_column(table: pd.DataFrame, rate: str | None, where: str) -> str | None:
    """The column of the learning rate, if there is one."""
    have = [str(column) for column in table]
    if rate is not None:
        column = find_column(rate, have, where)
        if column is None:
            raise missing_column(rate, have, where)
        return column
    named = [
        column
        for column in have
        if known_name(column) == "lr" or RATE_PATTERN.search(short_name(column).lower())
    ]
    if len(named) > 1 and all(table[c].equals(table[named[0]]) for c in named):
        named = named[:1]
    if len(named) > 1:
        raise DataError(
            f"{where} has several columns that could be the learning rate: {', '.join(named)}; "
            f"name one with {argument('rate', ...)}."
        )
    return named[0] if named else None


def _trainer_log(path: Path) -> tuple[pd.DataFrame, float | None]:
    """The log in a state of Hugging Face's Trainer, and the steps that it intends."""
    try:
        state: Any = json.loads(path.read_text(encoding="utf-8"))
        entries = state["log_history"]
        table = read_table(entries)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is no state of a Trainer with a log_history.") from error
    total_steps = state.get("max_steps")
    is_number = isinstance(total_steps, int | float) and total_steps > 0  # −1: epochs decide
    return table, float(total_steps) if is_number else None
