"""The log of a running job: its losses, as they are written."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from extrap.errors import DataError
from extrap.reading.columns import missing_column
from extrap.reading.events import EventLog, is_event_log
from extrap.reading.tailing import Tail

__all__ = ["LogReader"]

SEPARATORS = {".csv": ",", ".tsv": "\t"}
JSON_LINES = (".jsonl", ".ndjson")
NO_NUMBER = ("null", "none")
MOST_NAMES = 10_000
"""Keys that are remembered to say what a log has."""


class LogReader:
    """Reads the losses a job has logged since they were last asked for.

    A log is a CSV file with a header, a file of JSON objects, one a line, or TensorBoard's event
    files, alone or in a folder. It may be absent, empty, half written, or start again: then its
    losses come again from the beginning. A line counts once its newline is written. Lines that log
    something else are passed over; lines that are no rows at all are counted in `n_skipped`.

    Args:
        path: The log, which need not exist yet.
        step: The column or key of the step. Event files know theirs.
        loss: The column, key or tag of the loss.
    """

    def __init__(self, path: str | Path, *, step: str = "step", loss: str = "loss") -> None:
        self.path = Path(path)
        self._names = (step, loss)
        self._log: _Log | None = None
        self._n_skipped = 0

    @property
    def n_skipped(self) -> int:
        """Lines that could not be read."""
        return self._n_skipped + (self._log.n_skipped if self._log else 0)

    @property
    def has_more(self) -> bool:
        """Whether more is logged than the last poll gave: a long log comes in parts."""
        return self._log is not None and self._log.has_more

    def poll(self) -> list[tuple[float, float]]:
        """The new (step, loss) in the order of the log; a loss that is not finite is NaN.

        Raises:
            DataError: The path is no log, or its header lacks a column.
        """
        if self._log is None:
            if not os.path.lexists(self.path):
                return []
            _require_log(self.path)
            self._log = _open(self.path, *self._names)
        found = []
        for step, loss in self._log.poll():
            try:
                found.append((_step(step), _loss(loss)))
            except (TypeError, ValueError, OverflowError):
                self._n_skipped += 1
        return found

    def missing(self) -> DataError | None:
        """What the log lacks though something is logged; None if it lacks nothing."""
        have = list(self._log.names) if self._log else []
        needed = self._names[1:] if isinstance(self._log, EventLog) else self._names
        absent = [name for name in needed if name not in have]
        return missing_column(absent[-1], have, str(self.path)) if have and absent else None


class _Log(Protocol):
    """One kind of log: raw (step, loss) as they come, and the names it has seen."""

    names: dict[str, None]

    @property
    def n_skipped(self) -> int: ...

    @property
    def has_more(self) -> bool: ...

    def poll(self) -> Iterable[tuple[object, object]]: ...


class _CsvLog:
    def __init__(self, path: Path, step: str, loss: str, *, separator: str) -> None:
        self._path = path
        self._needed = (step, loss)
        self._separator = separator
        self._tail = Tail(path)
        self._header: list[str] = []
        self.names: dict[str, None] = {}
        self._n_skipped = 0

    @property
    def n_skipped(self) -> int:
        return self._n_skipped + self._tail.n_dropped

    @property
    def has_more(self) -> bool:
        return self._tail.has_more

    def poll(self) -> list[tuple[object, object]]:
        lines, is_beginning = self._tail.read()
        if is_beginning:
            self._header = []
        rows = [row for row in map(self._cells, lines) if any(row)]
        if rows and not self._header:
            self._header = self._read_header(rows.pop(0))
        return [pair for pair in map(self._pair, rows) if pair is not None]

    def _cells(self, line: str) -> list[str]:
        try:
            cells = next(csv.reader([line], delimiter=self._separator), [])
        except csv.Error:  # a cell as long as a file
            cells = [line]
        return [cell.strip() for cell in cells]

    def _read_header(self, header: list[str]) -> list[str]:
        for name in self._needed:
            if name not in header:
                raise missing_column(name, header, str(self._path))
        self.names = dict.fromkeys(header)
        return header

    def _pair(self, row: Sequence[str]) -> tuple[object, object] | None:
        """Step and loss of a row, None if its loss was left out or it is no row."""
        if len(row) != len(self._header):
            self._n_skipped += 1
            return None
        step, loss = (row[self._header.index(name)] for name in self._needed)
        return (step, loss) if loss else None


class _JsonLog:
    def __init__(self, path: Path, step: str, loss: str) -> None:
        self._needed = (step, loss)
        self._tail = Tail(path)
        self.names: dict[str, None] = {}
        self._n_skipped = 0

    @property
    def n_skipped(self) -> int:
        return self._n_skipped + self._tail.n_dropped

    @property
    def has_more(self) -> bool:
        return self._tail.has_more

    def poll(self) -> list[tuple[object, object]]:
        step, loss = self._needed
        rows = [self._row(line) for line in self._tail.read()[0] if line.strip()]
        return [(row.get(step, ""), row[loss]) for row in rows if loss in row]

    def _row(self, line: str) -> dict[str, Any]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            self._n_skipped += 1
            return {}
        if len(self.names) < MOST_NAMES:
            self.names.update(dict.fromkeys(row))
        return row


def _require_log(path: Path) -> None:
    try:
        is_log = path.is_file() or path.is_dir()
    except OSError:
        is_log = False
    if not is_log:
        raise DataError(
            f"a log is a plain file, or the folder of TensorBoard's event files, got {path}; "
            "let the job write one."
        )


def _open(path: Path, step: str, loss: str) -> _Log:
    suffix = path.suffix.lower()
    if is_event_log(path):
        return EventLog(path, tag=loss)
    if suffix in SEPARATORS:
        return _CsvLog(path, step, loss, separator=SEPARATORS[suffix])
    if suffix in JSON_LINES:
        return _JsonLog(path, step, loss)
    raise DataError(
        f"a log ends in {', '.join((*SEPARATORS, *JSON_LINES))} or holds TensorBoard's event "
        f"files, got {path.name}; rename or convert it."
    )


def _step(value: Any) -> float:
    step = _number(value)
    if not math.isfinite(step):
        raise ValueError(f"a step must be a number, got {value!r}.")
    return step


def _loss(value: Any) -> float:
    """A loss; whatever is not finite is NaN, for a trainer that logs null has lost its run."""
    if value is None or (isinstance(value, str) and value.lower() in NO_NUMBER):
        return math.nan
    loss = _number(value)
    return loss if math.isfinite(loss) else math.nan


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError(f"a truth value is no number, got {value}.")
    return float(value)
