from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs
from extrap.reading.frames import flat
from extrap.reading.tables import read_table
from extrap.reading.trackers.tracked import TrackedRun, table_of

COLUMNS = {
    "width": [16, 32, 64, 128],
    "lr": [0.1, 0.1, 0.1, 0.1],
    "seed": [0, 1, 2, 3],
    "loss": [2.5, None, math.nan, 1.5],
}


def statuses(source: object) -> list[str]:
    return read_runs(source, size="width", tune="lr").to_frame()["status"].tolist()


def test_a_polars_frame_keeps_apart_what_is_missing_and_what_is_no_number() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(COLUMNS)
    assert statuses(frame) == ["complete", "failed", "diverged", "complete"]
    assert read_runs(frame, size="width", tune="lr").source == "the polars frame"
    assert statuses(frame.lazy().collect()) == statuses(frame)


def test_polars_pyarrow_pandas_and_rows_are_the_same_runs() -> None:
    polars = pytest.importorskip("polars")
    whole = {name: [cells[0], cells[3]] for name, cells in COLUMNS.items()}
    rows = [dict(zip(whole, row, strict=True)) for row in zip(*whole.values(), strict=True)]
    sources = [polars.DataFrame(whole), pa.table(whole), pd.DataFrame(whole), rows]
    hashes = {read_runs(source, size="width", tune="lr").data_hash() for source in sources}
    assert len(hashes) == 1


def test_an_arrow_table_and_a_list_of_dictionaries_know_what_is_missing() -> None:
    assert statuses(pa.table(COLUMNS)) == ["complete", "failed", "diverged", "complete"]
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
    assert statuses(rows) == ["complete", "failed", "diverged", "complete"]


def test_nested_dictionaries_are_columns_with_dots() -> None:
    rows = [
        {"config": {"model": {"width": 16}, "lr": 0.1}, "summary": {"loss": 2.5}},
        {"config": {"model": {"width": 32}, "lr": 0.2}, "summary": {"loss": 2.0}},
    ]
    for source in (rows, pd.DataFrame(rows)):
        runs = read_runs(source, size="config.model.width", tune="lr")
        assert runs.to_frame()["lr"].tolist() == [0.1, 0.2]


def test_dictionaries_in_the_cells_of_a_csv_are_read_and_never_run() -> None:
    frame = pd.DataFrame(
        {
            "name": ["a", "b"],
            "config": [{"width": 16, "act": None}, {"width": 32, "act": True}],
            "summary": ['{"loss": 2.5}', '{"loss": 2.0}'],
        }
    )
    runs = read_runs(io.StringIO(frame.to_csv()), size="width")
    assert runs.to_frame()["loss"].tolist() == [2.5, 2.0]
    hostile = pd.DataFrame({"config": ["{'a': __import__('os').getcwd()}"], "loss": [1.0]})
    assert list(read_table(io.StringIO(hostile.to_csv(index=False)))) == ["config", "loss"]


def test_dictionaries_without_end_are_refused() -> None:
    nested: dict[str, object] = {}
    for _ in range(20):
        nested = {"a": nested}
    with pytest.raises(DataError, match="nested at most 8 times"):
        flat(nested)


def test_what_is_no_table_is_named() -> None:
    with pytest.raises(DataError, match="got int; convert it to a pandas DataFrame"):
        read_runs(3, size="width")
    with pytest.raises(DataError, match="at least one row"):
        read_runs([], size="width")


def test_a_polars_frame_with_text_and_bytes_is_read() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({**COLUMNS, "name": ["a", "b", None, "d"], "raw": [b"x"] * 4})
    assert statuses(frame) == ["complete", "failed", "diverged", "complete"]
    found = read_runs(frame, size="width", tune="lr").to_frame()
    assert found["name"].tolist()[:2] == ["a", "b"]


def test_a_frame_of_polars_that_was_not_collected_is_told_how() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(DataError, match=r"\.collect\(\)"):
        read_runs(polars.DataFrame(COLUMNS).lazy(), size="width", tune="lr")


def test_a_metric_that_a_run_never_logged_failed_and_did_not_diverge(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"width": 16, "lr": 0.1, "loss": 2.5},
        {"width": 32, "lr": 0.1},
        {"width": 64, "lr": 0.1, "loss": math.nan},
    ]
    lines = tmp_path / "runs.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    nested = [{"config": row, "summary": row} for row in rows]
    for source in (rows, lines):
        assert statuses(source) == ["complete", "failed", "diverged"]
    for table in (nested, pd.DataFrame(nested)):
        runs = read_runs(table, size="config.width", tune="config.lr", loss="summary.loss")
        assert runs.to_frame()["status"].tolist() == ["complete", "failed", "diverged"]
    tracked = [
        TrackedRun(name="a", settings={"width": 8}, history={"val": [(0.0, 2.0)]}),
        TrackedRun(name="b", settings={"width": 16}, history={"train": [(0.0, 3.0)]}),
    ]
    assert table_of(tracked, where="here").table["val"].tolist() == [2.0, None]
