"""The log of a running job: its losses, as they are written."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from extrap.errors import DataError, argument
from extrap.expressions import Expression, parse_definition
from extrap.reading.columns import missing_column, taken_column
from extrap.reading.events import EventLog, is_event_log
from extrap.reading.losses import loss_of_metric
from extrap.reading.tailing import Tail

SEPARATORS = {".csv": ",", ".tsv": "\t"}
JSON_LINES = (".jsonl", ".ndjson")
NO_NUMBER = ("null", "none")
ABSENT = ""
"""The cell of what a row does not log."""
MOST_NAMES = 10_000
"""Keys that are remembered to say what a log has."""


class LogReader:
    """Reads the losses a job has logged since they were last asked for.

    A log is a CSV file with a header, a file of JSON objects, one a line, or TensorBoard's event
    files, alone or in a folder. It may be absent, empty, half written, or start again: then its
    losses come again from the beginning. A line counts once its newline is written. Lines that log
    something else are passed over; lines that are no rows at all, or hold only a part of what is
    needed, are counted in `n_skipped`.

    Args:
        path: The log, which need not exist yet.
        step: The column or key of the step. Event files know theirs.
        loss: The column, key or tag of the loss.
        let: Definitions `name = formula` of the loss, or of the step, over what is logged; a later
            one may use an earlier. Event files log each tag on its own: there the loss is over one
            tag, and the step over `step`.
        maximised: Whether the loss is a metric that is better when larger: it becomes 1 − x of a
            share, −x below 0, as `read_runs(maximise=…)` has it.

    Raises:
        ValueError: A definition cannot be read, is there twice, is used by nothing, or uses
            nothing that is logged.
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
        self.path = Path(path)
        formulas = _formulas(let, (step, loss))
        self._made = tuple(formulas)
        self._step, self._loss = _Part(step, formulas), _Part(loss, formulas)
        self._metric = _Maximised(loss) if maximised else None
        self._log: _Log | None = None
        self._n_skipped = 0
        self._has_found = False
        self._n_torn = 0
        self._torn: set[str] = set()

    @property
    def n_skipped(self) -> int:
        """Lines that could not be read, or lack a part of what is needed."""
        return self._n_skipped + (self._log.n_skipped if self._log else 0)

    @property
    def has_more(self) -> bool:
        """Whether more is logged than the last poll gave: a long log comes in parts."""
        return self._log is not None and self._log.has_more

    def poll(self) -> list[tuple[float, float]]:
        """The new (step, loss) in the order of the log; a loss that is not finite is NaN.

        Raises:
            DataError: The path is no log, its header lacks a column, or it has one that a
                definition makes; or a metric to be maximised is neither a share nor below 0.
        """
        if self._log is None:
            if not os.path.lexists(self.path):
                return []
            _require_log(self.path)
            self._log = _open(self.path, self._step, self._loss)
        found = []
        rows = self._log.poll()
        for name in self._made:
            if name in self._log.names:
                raise taken_column(name, str(self.path))
        for steps, losses in rows:
            try:
                pair = _step(self._step.value(steps)), _loss(self._loss.value(losses))
            except (TypeError, ValueError, OverflowError):
                self._n_skipped += 1
                self._note_torn((*steps, *losses))
                continue
            self._has_found = True
            found.append(pair if self._metric is None else (pair[0], self._metric.loss(pair[1])))
        return found

    def missing(self) -> DataError | None:
        """What the log, or each of its rows, lacks though something is logged; else None."""
        have = list(self._log.names) if self._log else []
        needed = self._loss.names
        if not isinstance(self._log, EventLog):
            needed = (*self._step.names, *needed)
        absent = [name for name in needed if name not in have]
        if have and absent:
            return missing_column(absent[-1], have, str(self.path))
        if self._has_found or not self._torn:
            return None
        return DataError(
            f"a step and a loss are made of what one row logs, got {self._n_torn} of {self.path} "
            f"without {' or '.join(map(repr, sorted(self._torn)))}; log them in the same row."
        )

    def _note_torn(self, cells: Sequence[object]) -> None:
        """Remember what a row lacks, for `missing`."""
        names = (*self._step.names, *self._loss.names)
        lacking = [name for name, cell in zip(names, cells, strict=True) if cell == ABSENT]
        self._n_torn += bool(lacking)
        self._torn.update(lacking)


def _formulas(let: Iterable[str], wanted: Sequence[str]) -> dict[str, Expression]:
    """Name → formula; each is used by what is wanted or by a later one."""
    formulas: dict[str, Expression] = {}
    for text in let:
        name, formula = parse_definition(text)
        if name in formulas or name in formula.names:
            raise ValueError(
                f"a definition makes a new column, {name!r} is there already; choose another name."
            )
        formulas[name] = formula
    used = {name for formula in formulas.values() for name in formula.names}
    for name in formulas:
        if name not in used and name not in wanted:
            raise ValueError(
                f"of a log the step and the loss are read, {wanted[0]} and {wanted[1]}, and the "
                f"definition of {name!r} makes neither; leave it out, or name it with "
                f"{argument('loss', ...)}."
            )
    return formulas


class _Part:
    """The step or the loss: a name in the log, or formulas over such names.

    Args:
        name: Its name.
        formulas: Name → formula, in the order they are defined.
    """

    def __init__(self, name: str, formulas: Mapping[str, Expression]) -> None:
        self._name = name
        needed = {name}
        self._formulas: dict[str, Expression] = {}
        for made, formula in reversed(list(formulas.items())):
            if made in needed:
                needed.remove(made)
                needed.update(dict.fromkeys(formula.names))
                self._formulas = {made: formula, **self._formulas}
        self.names = tuple(sorted(needed))
        self.is_made = bool(self._formulas)
        if not needed:
            raise ValueError(
                "a step and a loss are made of what is logged, got a formula over no name for "
                f"{name!r}; name a column in it."
            )

    def value(self, cells: Sequence[object]) -> object:
        """What the cells of `names` make of it."""
        if not self._formulas:
            return cells[0]
        numbers = {name: _loss(cell) for name, cell in zip(self.names, cells, strict=True)}
        for made, formula in self._formulas.items():
            numbers[made] = formula(numbers)
        return numbers[self._name]


def _telling(step: _Part, loss: _Part) -> tuple[str, ...]:
    """The names of which a row has one if it logs the loss: every row may have the step's."""
    return tuple(name for name in loss.names if name not in step.names) or loss.names


class _Maximised:
    """A metric that is better when larger, as a loss: the first value says by which rule."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._first: float | None = None
        self._n = 0

    def loss(self, value: float) -> float:
        self._n += 1
        if not math.isfinite(value):
            return value
        first = self._first = value if self._first is None else self._first
        if first >= 0 and 0 <= value < 1:
            return 1 - value
        if first < 0 and value < 0:
            return -value
        rows = [0] if self._n == 1 else [0, self._n - 1]
        values = pd.Series([first, value][-len(rows) :], index=rows)
        return float(loss_of_metric(values, self._name).turn(values).iloc[-1])


class _Log(Protocol):
    """One kind of log: raw (cells of the step, of the loss), and the names it has seen."""

    names: dict[str, None]

    @property
    def n_skipped(self) -> int: ...

    @property
    def has_more(self) -> bool: ...

    def poll(self) -> Iterable[tuple[Sequence[object], Sequence[object]]]: ...


class _CsvLog:
    def __init__(self, path: Path, step: _Part, loss: _Part, *, separator: str) -> None:
        self._path = path
        self._step, self._loss = step.names, loss.names
        self._telling = _telling(step, loss)
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

    def poll(self) -> list[tuple[list[str], list[str]]]:
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
        for name in (*self._step, *self._loss):
            if name not in header:
                raise missing_column(name, header, str(self._path))
        self.names = dict.fromkeys(header)
        return header

    def _pair(self, row: Sequence[str]) -> tuple[list[str], list[str]] | None:
        """Step and loss of a row, None if all of its loss was left out or it is no row."""
        if len(row) != len(self._header):
            self._n_skipped += 1
            return None
        step = [row[self._header.index(name)] for name in self._step]
        loss = [row[self._header.index(name)] for name in self._loss]
        is_logged = any(row[self._header.index(name)] for name in self._telling)
        return (step, loss) if is_logged else None


class _JsonLog:
    def __init__(self, path: Path, step: _Part, loss: _Part) -> None:
        self._step, self._loss = step.names, loss.names
        self._telling = _telling(step, loss)
        self._tail = Tail(path)
        self.names: dict[str, None] = {}
        self._n_skipped = 0

    @property
    def n_skipped(self) -> int:
        return self._n_skipped + self._tail.n_dropped

    @property
    def has_more(self) -> bool:
        return self._tail.has_more

    def poll(self) -> list[tuple[list[object], list[object]]]:
        rows = [self._row(line) for line in self._tail.read()[0] if line.strip()]
        return [
            ([row.get(n, ABSENT) for n in self._step], [row.get(n, ABSENT) for n in self._loss])
            for row in rows
            if any(name in row for name in self._telling)
        ]

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


def _open(path: Path, step: _Part, loss: _Part) -> _Log:
    suffix = path.suffix.lower()
    if is_event_log(path):
        if len(loss.names) != 1:
            raise DataError(
                "event files log each tag on its own, so that a loss is made of one, got a "
                f"formula over {', '.join(loss.names)}; log the loss itself."
            )
        if step.is_made and step.names != ("step",):
            raise DataError(
                "event files know their step, so that another is made of it alone, got a formula "
                f"over {', '.join(step.names)}; write it over step."
            )
        return EventLog(path, tag=loss.names[0])
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
