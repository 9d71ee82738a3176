"""Studies as one Parquet file: every finished trial a row, and back.

| column | is |
|---|---|
| `study`, `number`, `state` | name of the Optuna study, number of the trial there, how it ended |
| `values` | what it gave |
| `params`, `distributions`, `user_attrs` | as JSON, by name |
| `intermediate_values` | as JSON, pairs of step and value |
| `datetime_start`, `datetime_complete` | in UTC |

The file's metadata have, as JSON under `extrap`, the `format`, and of each study its `name`,
`directions` and `attributes`, the fingerprint, schema and seals among them. Beats of workers and
addresses of storages are not in it, nor trials that were set aside. A file from a stranger is
checked for all of that before anything is made of it, and never run: there is JSON in it and
nothing else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import optuna
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from optuna.distributions import BaseDistribution, distribution_to_json, json_to_distribution
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from extrap.errors import DataError
from extrap.reading.bounds import first_line, shown
from extrap.reading.optuna import (
    ASKED,
    DRIVER,
    FINGERPRINT,
    ORIGIN,
    SEALED,
    our_studies,
    parse_study_name,
    problem_of,
    require_schema,
)

FORMAT = 1
KEY = b"extrap"
TIME = pa.timestamp("us", tz="UTC")
COLUMNS = pa.schema(
    [
        ("study", pa.string()),
        ("number", pa.int64()),
        ("state", pa.string()),
        ("values", pa.list_(pa.float64())),
        ("params", pa.string()),
        ("distributions", pa.string()),
        ("user_attrs", pa.string()),
        ("intermediate_values", pa.string()),
        ("datetime_start", TIME),
        ("datetime_complete", TIME),
    ]
)
DOCUMENTS = ("params", "distributions", "user_attrs", "intermediate_values")
TEXTS = ["study", "state", *DOCUMENTS]
ENDED = {state.name: state for state in TrialState if state.is_finished()}
MOST_ROWS = 100_000
MOST_BYTES = 128 * 2**20
"""Of a file's columns once they are unpacked; ten thousand runs with curves take some 25 MB."""
MOST_VALUES = 6_000_000
"""Of the JSON in a file; in memory each takes some eighty bytes at most, whatever it is."""
WRITTEN_AT_ONCE = 16 * 2**20
A_ROW = 256
"""Bytes of what is no JSON in a row, at most as a rule."""
MOST_METADATA = 16 * 2**20
LEFT_OUT = (DRIVER, ASKED, ORIGIN)
"""Beginnings of attributes that are not in a file, for what they tell of is not."""
LONGEST_TEXT = 16 * 2**20
"""Of one cell of the table; a curve of a million points is about as long."""
LONGEST_NAME = 1000
DEEPEST = 20
BATCH = 1000


def write_export(storage: BaseStorage, names: Iterable[str], path: str | Path) -> int:
    """Write the finished trials of some of our studies to a file, whole or not at all.

    Args:
        storage: Where they are.
        names: Names of studies of ours; every size and stage of each is written.
        path: The file, ending in `.parquet`.

    Returns:
        How many trials were written.

    Raises:
        DataError: There is none, or the file does not end in `.parquet`.
        StudyError: A newer version wrote one of the studies.
    """
    place, wanted = Path(path), set(names)
    if place.suffix.lower() != ".parquet":
        raise DataError(f"an export ends in .parquet, got {place}; name it so.")
    studies: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for study in our_studies(storage, wanted):
        kept = {k: v for k, v in study.attributes.items() if not k.startswith(LEFT_OUT)}
        directions = [direction.name for direction in storage.get_study_directions(study.id)]
        studies.append({"name": study.full_name, "directions": directions, "attributes": kept})
        rows += _rows(study.full_name, storage.get_all_trials(study.id, deepcopy=False))
    if not rows:
        raise DataError(
            f"an export holds finished runs, there is none of {', '.join(sorted(wanted))} yet; "
            "check the address, or tune first."
        )
    told = json.dumps({"format": FORMAT, "studies": studies})
    _check_amount(rows, told)
    table = pa.Table.from_pylist(rows, schema=COLUMNS.with_metadata({KEY: told.encode()}))
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = place.with_name(f"{place.name}.{uuid4().hex[:8]}.part")
    try:
        n_rows = max(1, min(BATCH, WRITTEN_AT_ONCE * len(rows) // table.nbytes))
        pq.write_table(table, unfinished, row_group_size=n_rows, compression="zstd")
        unfinished.replace(place)
    finally:
        with suppress(OSError):
            unfinished.unlink()
    return len(rows)


def _check_amount(rows: Sequence[Mapping[str, Any]], told: str) -> None:
    """Raise unless `read_export` would read what is to be written."""
    texts = [row[name] for row in rows for name in DOCUMENTS]
    amounts = {
        "trials": (len(rows), MOST_ROWS),
        "bytes": (sum(map(len, [*texts, told])) + A_ROW * len(rows), MOST_BYTES),
        "bytes of attributes of studies": (len(told), MOST_METADATA),
        "values": (sum(map(_n_values, [*texts, told])), MOST_VALUES),
    }
    for name, (n, most) in amounts.items():
        if n > most:
            raise DataError(
                f"an export holds at most {most} {name}, this one would have {n}; copy the "
                "storage itself."
            )


def _rows(study: str, trials: Iterable[FrozenTrial]) -> Iterator[dict[str, Any]]:
    """The rows of those trials that are finished."""
    for trial in trials:
        if not trial.state.is_finished():
            continue
        if trial.state != TrialState.FAIL and problem_of(trial):
            continue  # as whoever reads the storage leaves it out
        yield _row(study, trial)


def _row(study: str, trial: FrozenTrial) -> dict[str, Any]:
    distributions = trial.distributions.items()
    return {
        "study": study,
        "number": trial.number,
        "state": trial.state.name,
        "values": trial.values,
        "params": json.dumps(trial.params),
        "distributions": json.dumps({k: distribution_to_json(v) for k, v in distributions}),
        "user_attrs": json.dumps(dict(sorted(trial.user_attrs.items()))),
        "intermediate_values": json.dumps(sorted(trial.intermediate_values.items())),
        "datetime_start": _utc(trial.datetime_start),
        "datetime_complete": _utc(trial.datetime_complete),
    }


def _utc(moment: datetime | None) -> datetime | None:
    """Optuna writes local time without saying so."""
    return None if moment is None else moment.astimezone(UTC)


def read_export(path: str | Path) -> BaseStorage:
    """Read a file that `write_export` wrote into memory; nothing in it is believed unseen.

    Args:
        path: The file.

    Raises:
        DataError: There is no such file, or it is none of ours in any respect.
        StudyError: A newer version wrote one of its studies.
    """
    place = Path(path)
    if not place.is_file():
        raise DataError(f"there is no file {place}; check the path.")
    if place.stat().st_size > MOST_BYTES:
        raise _foreign(place, f"it is larger than {MOST_BYTES} bytes")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        return _read(place)
    except DataError:
        raise
    except (pa.ArrowException, OSError, MemoryError, OverflowError, ValueError) as error:
        raise _foreign(place, f"it cannot be read ({first_line(error)})") from error


def _read(place: Path) -> BaseStorage:
    with pq.ParquetFile(place, memory_map=False) as file:
        _check_frame(place, file)
        budget = _Budget(place)
        told = _metadata(place, file, budget)
        storage = InMemoryStorage()
        ids: dict[str, int] = {}
        for study in told["studies"]:
            name, own = _study(place, study)
            if name in ids:
                raise _foreign(place, f"it has the study {shown(name)} twice")
            require_schema(own, study=name)
            ids[name] = storage.create_new_study([StudyDirection.MINIMIZE], name)
            for key, value in own.items():
                storage.set_study_user_attr(ids[name], key, value)
        for name, trial in _trials(place, budget):
            if name not in ids:
                raise _foreign(place, f"a trial is of {shown(name)}, which it does not name")
            storage.create_new_trial(ids[name], trial)
    return storage


def _check_frame(place: Path, file: pq.ParquetFile) -> None:
    """Columns, rows and size, before anything is unpacked."""
    if not file.schema_arrow.remove_metadata().equals(COLUMNS):
        raise _foreign(place, "it has other columns")
    frame = file.metadata
    groups = [frame.row_group(i) for i in range(frame.num_row_groups)]
    if frame.num_rows > MOST_ROWS or sum(group.num_rows for group in groups) > MOST_ROWS:
        raise _foreign(place, f"it has more than {MOST_ROWS} rows")
    sizes = [group.total_byte_size for group in groups]
    if min(sizes, default=0) < 0 or sum(sizes) > MOST_BYTES:
        raise _foreign(place, f"it unpacks to more than {MOST_BYTES} bytes")
    file.scan_contents()  # raises where metadata of a column are broken; `column` aborts Python
    columns = [group.column(i) for group in groups for i in range(group.num_columns)]
    if any(not 0 <= column.num_values <= MOST_ROWS for column in columns):
        raise _foreign(place, f"a column of it has more than {MOST_ROWS} values")


@dataclass(slots=True)
class _Budget:
    """What may still be unpacked of a file; it is asked before anything is made of a text."""

    place: Path
    n_bytes: int = 0
    n_values: int = 0

    def take(self, n_bytes: int) -> None:
        """Count bytes."""
        self.n_bytes += n_bytes
        if self.n_bytes > MOST_BYTES:
            raise _foreign(self.place, f"it unpacks to more than {MOST_BYTES} bytes")

    def take_values(self, text: object) -> None:
        """Count what a text of JSON may hold at most: each value is behind one of these signs."""
        if isinstance(text, str):
            self.n_values += _n_values(text)
        if self.n_values > MOST_VALUES:
            raise _foreign(self.place, f"it holds more than {MOST_VALUES} values")


def _n_values(text: str) -> int:
    """How many values a text of JSON has at most."""
    return 1 + sum(text.count(sign) for sign in "[{,:")


def _metadata(place: Path, file: pq.ParquetFile, budget: _Budget) -> dict[str, Any]:
    text = (file.schema_arrow.metadata or {}).get(KEY)
    if text is None or len(text) > MOST_METADATA:
        raise _foreign(place, "its metadata name no studies of ours")
    budget.take(len(text))
    budget.take_values(text.decode())
    told = _json(place, "metadata", text.decode())
    if not isinstance(told, dict) or not isinstance(told.get("studies"), list):
        raise _foreign(place, "its metadata name no studies of ours")
    version = told.get("format")
    if type(version) is not int:
        raise _foreign(place, "its metadata name no format of ours")
    if version > FORMAT:
        raise DataError(
            f"an export must have format {FORMAT} or older, {place} has {version}: a newer extrap "
            "wrote it; install that version here."
        )
    if version != FORMAT:
        raise _foreign(place, "its metadata name no format of ours")
    return told


def _study(place: Path, told: object) -> tuple[str, dict[str, Any]]:
    """Name and attributes of a study."""
    if not isinstance(told, dict) or set(told) != {"name", "directions", "attributes"}:
        raise _foreign(place, "its metadata describe no studies of ours")
    name, attributes = told["name"], told["attributes"]
    key = parse_study_name(name) if isinstance(name, str) and len(name) < LONGEST_NAME else None
    if key is None or not all(0 < value < math.inf for _, value in key.size):
        raise _foreign(place, f"a study is called {shown(name)}")
    if told["directions"] != ["MINIMIZE"] or not isinstance(attributes, dict):
        raise _foreign(place, f"the study {shown(name)} is none of ours")
    own = {k: v for k, v in attributes.items() if not k.startswith(LEFT_OUT)}
    if not isinstance(own.get(FINGERPRINT), dict):
        raise _foreign(place, f"the study {shown(name)} has no fingerprint")
    if not all(_is_time(value) for key, value in own.items() if key.startswith(SEALED)):
        raise _foreign(place, f"a seal of {shown(name)} has no time")
    return name, own


def _is_time(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _trials(place: Path, budget: _Budget) -> Iterator[tuple[str, FrozenTrial]]:
    """The trials in the order of the file, which is that of their numbers."""
    last: dict[str, int] = {}
    # a text that all rows share is in the file and in memory once, until it is made one of each
    with pq.ParquetFile(place, memory_map=False, read_dictionary=TEXTS) as file:
        for batch in file.iter_batches(batch_size=BATCH):
            budget.take(_size(batch))
            yield from _rows_of(place, batch, budget, last)


def _size(batch: pa.RecordBatch) -> int:
    """Bytes of a batch whose texts are written out."""
    batch.validate(full=True)
    n_bytes = 0
    for column in batch.columns:
        if isinstance(column, pa.DictionaryArray):
            lengths = pc.binary_length(column.dictionary).cast(pa.int64())
            n_bytes += pc.sum(lengths.take(column.indices)).as_py() or 0
        else:
            n_bytes += column.nbytes
    return int(n_bytes)


def _rows_of(
    place: Path, batch: pa.RecordBatch, budget: _Budget, last: dict[str, int]
) -> Iterator[tuple[str, FrozenTrial]]:
    for i in range(len(batch)):
        row = batch.slice(i, 1).to_pylist()[0]
        for name in DOCUMENTS:
            budget.take_values(row[name])
        name, number = row["study"], row["number"]
        if not isinstance(name, str) or not isinstance(number, int):
            raise _foreign(place, "a trial has no study or no number")
        if number <= last.get(name, -1):
            raise _foreign(place, f"the trials of {shown(name)} are not in order")
        last[name] = number
        yield name, _trial(place, row)


def _trial(place: Path, row: Mapping[str, Any]) -> FrozenTrial:
    where = f"trial {row['number']} of {shown(row['study'])}"
    if row["state"] not in ENDED:
        raise _foreign(place, f"{where} ended as {shown(row['state'])}")
    params, told, attributes, steps = (
        _json(place, f"{name} of {where}", row[name]) for name in DOCUMENTS
    )
    if not all(isinstance(each, dict) for each in (params, told, attributes)):
        raise _foreign(place, f"{where} has no tables by name")
    if not all(isinstance(v, str | int | float | None) for v in params.values()):
        raise _foreign(place, f"{where} has parameters that are no single values")
    if not isinstance(steps, list) or not all(map(_is_point, steps)):
        raise _foreign(place, f"{where} has intermediate values that are no pairs")
    state, values = ENDED[row["state"]], row["values"]
    if values is not None and (len(values) != 1 or values[0] is None or math.isnan(values[0])):
        raise _foreign(place, f"{where} has not one value")
    if state != TrialState.FAIL and values is None:
        raise _foreign(place, f"{where} is finished without a value")
    try:
        trial = create_trial(
            state=state,
            values=values,
            params=params,
            distributions={name: _distribution(text) for name, text in told.items()},
            user_attrs=attributes,
            intermediate_values={step: float(value) for step, value in steps},
        )
        trial.datetime_start = _local(row["datetime_start"])
        trial.datetime_complete = _local(row["datetime_complete"])
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, OSError) as error:
        raise _foreign(place, f"{where} is none that Optuna could have made") from error
    if state != TrialState.FAIL and (problem := problem_of(trial)):
        raise _foreign(place, f"of {where} {problem}")
    trial.number = row["number"]
    return trial


def _distribution(text: object) -> BaseDistribution:
    if not isinstance(text, str):
        raise TypeError
    found = json_to_distribution(text)
    if not isinstance(found, BaseDistribution):
        raise TypeError
    return found


def _is_point(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and type(value[0]) is int
        and abs(value[0]) < 2**53
        and type(value[1]) in (int, float)
    )


def _local(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone().replace(tzinfo=None)


def _json(place: Path, what: str, text: object) -> Any:
    """The content of a text of JSON that is neither too long nor too deep."""
    if not isinstance(text, str) or len(text) > LONGEST_TEXT:
        raise _foreign(place, f"the {what} are no text, or too long")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _foreign(place, f"the {what} are no JSON") from error
    if _is_deep(found):
        raise _foreign(place, f"the {what} are nested deeper than {DEEPEST}")
    return found


def _is_deep(value: object) -> bool:
    """Whether lists and tables are nested deeper than anything of ours."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for each in level
            if isinstance(each, list | dict)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def _foreign(place: Path, why: str) -> DataError:
    return DataError(
        f"an export is a file that extrap study export wrote, got {place}: {why}; export the "
        "study anew."
    )
