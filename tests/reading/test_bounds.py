"""What a stranger's file may ask of us: the message says the bound, and memory stays."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from extrap import read_runs
from extrap.documents import load_forecast
from extrap.errors import DataError
from extrap.reading import bounds, tailing
from extrap.reading.embeddings import read_embedding
from extrap.reading.logs import LogReader
from extrap.reading.tables import read_table

GIB = 2**30


def sparse(path: Path, size: int) -> Path:
    """A file that says to be so large and takes no room."""
    with path.open("wb") as file:
        file.write(b"width,loss\n")
        file.truncate(size)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.jsonl", "a.json"])
def test_two_gigabytes_are_refused_unread(tmp_path: Path, name: str) -> None:
    read = load_forecast if name.endswith(".json") else read_table
    with pytest.raises(DataError, match=r"at most 268,435,456 bytes, got 2,147,483,648"):
        read(sparse(tmp_path / name, 2 * GIB))


@pytest.mark.parametrize("place", ["/dev/zero", "/dev/urandom", "/dev/null"])
def test_devices_are_no_tables(tmp_path: Path, place: str) -> None:
    for name, read in (
        ("a.csv", read_table),
        ("a.parquet", read_table),
        ("a.npy", read_embedding),
    ):
        (tmp_path / name).symlink_to(place)
        with pytest.raises(DataError, match="is a plain file, got"):
            read(tmp_path / name)
    (tmp_path / "log.csv").symlink_to(place)
    with pytest.raises(DataError, match="a log is a plain file"):
        LogReader(tmp_path / "log.csv").poll()


def test_pipes_loops_and_impossible_names(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    for path, message in (
        (tmp_path / "pipe.csv", "is a plain file"),
        (tmp_path / "loop.csv", "there is no file"),
        (tmp_path / ("x" * 5000 + ".csv"), "File name too long"),
        (tmp_path / "a\x00b.csv", "there is no file"),
    ):
        with pytest.raises(DataError, match=message) as caught:
            read_table(path)
        assert len(str(caught.value)) < 1000
    for name in ("pipe.csv", "loop.csv"):
        with pytest.raises(DataError, match="a log is a plain file"):
            LogReader(tmp_path / name).poll()


def test_a_million_columns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",".join(f"c{i}" for i in range(1_000_000)) + "\n1\n")
    with pytest.raises(DataError, match=r"at most 20,000 columns, got 1,000,000"):
        read_table(tmp_path / "a.csv")


def test_keys_that_never_repeat_make_no_huge_table(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps({f"k{i}": i}) for i in range(21_000))
    (tmp_path / "a.jsonl").write_text(lines)
    with pytest.raises(DataError, match="a table has at most"):
        read_table(tmp_path / "a.jsonl")


def test_a_table_has_so_many_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extrap.reading.bounds.MOST_CELLS", 100)
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n" * 49)
    assert len(read_table(tmp_path / "a.csv")) == 49
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n" * 60)
    with pytest.raises(DataError, match="at most 100 cells"):
        read_table(tmp_path / "a.csv")


def test_parquet_is_measured_before_and_while_it_is_unpacked(tmp_path, monkeypatch) -> None:
    path = tmp_path / "a.parquet"
    pd.DataFrame({"a": ["x" * 1000] * 5000}).to_parquet(path)
    assert path.stat().st_size < 20_000
    assert len(read_table(path)) == 5000
    monkeypatch.setattr("extrap.reading.tables.MOST_STORED_BYTES", 2_000_000)
    with pytest.raises(DataError, match="unpacks to at most 2,000,000 bytes"):
        read_table(path)
    monkeypatch.setattr("extrap.reading.tables.MOST_STORED_CELLS", 4000)
    with pytest.raises(DataError, match="at most 4,000 cells, got 5,000"):
        read_table(path)


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a":' * 100_000, '{"width": ' + "9" * 1_000_000 + "}", '{"a": "\\ud800"}'],
    ids=["lists", "objects", "digits", "half a character"],
)
def test_json_without_bounds_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.jsonl").write_text(text + "\n")
    with pytest.raises(DataError, match="line 1 is not JSON") as caught:
        read_table(tmp_path / "a.jsonl")
    assert len(str(caught.value)) < 500
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DataError, match=r"is not JSON|is no forecast"):
        load_forecast(tmp_path / "a.json")


def test_lines_of_json_end_at_newlines_only(tmp_path: Path) -> None:
    row = json.dumps({"width": 16, "note": "a\u2028b\u0085c"}, ensure_ascii=False)
    (tmp_path / "a.jsonl").write_text(f"{row}\r\n{row}\n", encoding="utf-8")
    assert read_table(tmp_path / "a.jsonl")["note"].tolist() == ["a\u2028b\u0085c"] * 2


def test_arrays_that_promise_too_much(tmp_path: Path) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d, 4), }" % 2**50
    header += b" " * (118 - len(header) - 1) + b"\n"
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"\x00" * 64)
    with pytest.raises(DataError, match=r"no readable \.npy array"):
        read_embedding(path)
    np.savez(tmp_path / "b.npz", a=np.zeros(3))
    (tmp_path / "b.npz").rename(path)
    with pytest.raises(DataError, match=r"no readable \.npy array"):
        read_embedding(path)
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"no readable \.npy array"):
        read_embedding(path)


def test_a_line_without_end_is_passed_over(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tailing, "READ_BYTES", 1000)
    log = tmp_path / "log.csv"
    log.write_text("step,loss\n" + "10,3.5\n" * 3 + "x" * 5000)
    reader = LogReader(log)
    found = reader.poll()
    while reader.has_more:
        found += reader.poll()
    assert found == [(10.0, 3.5)] * 3
    assert reader.n_skipped == 1
    with log.open("a") as file:
        file.write("x" * 900 + "\n20,3.25\n")
    found = reader.poll()
    while reader.has_more:
        found += reader.poll()
    assert found == [(20.0, 3.25)]
    assert reader.n_skipped == 1


def test_a_long_log_comes_in_parts_and_whole(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tailing, "READ_BYTES", 100)
    log = tmp_path / "log.csv"
    log.write_text("step,loss\n" + "".join(f"{step},3.5\n" for step in range(500)))
    reader, steps = LogReader(log), []
    while True:
        steps += [step for step, _ in reader.poll()]
        if not reader.has_more:
            break
    assert steps == list(range(500))
    assert reader.n_skipped == 0


def test_an_event_of_a_huge_shape_is_no_loss(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.compat.proto.types_pb2 import DT_FLOAT
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
    from tensorboard.summary.writer.record_writer import RecordWriter

    axes = [TensorShapeProto.Dim(size=2**20), TensorShapeProto.Dim(size=2**20)]
    tensor = TensorProto(dtype=DT_FLOAT, float_val=[1.0], tensor_shape=TensorShapeProto(dim=axes))
    path = tmp_path / "events.tfevents.1"
    with path.open("wb") as file:
        writer = RecordWriter(file)
        for value in (
            Summary.Value(tag="loss", tensor=tensor),
            Summary.Value(tag="loss", simple_value=2.0),
        ):
            event = Event(step=5, summary=Summary(value=[value]))
            writer.write(event.SerializeToString())
        length = struct.pack("<Q", 2**60)
        file.write(length + struct.pack("<I", masked_crc32c(length)) + b"x")
        file.flush()
        reader = LogReader(path)
        assert reader.poll() == [(5.0, 2.0)]
    assert reader.n_skipped >= 1


def test_a_storage_with_a_view_is_not_opened(tmp_path: Path) -> None:
    """A view is a query of its author's, which may never end."""
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE VIEW studies AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
        "SELECT x AS study_id, 'a' AS study_name FROM c"
    )
    connection.close()
    with pytest.raises(DataError, match="has tables only, got 'studies'"):
        read_runs(f"sqlite:///{path}", size="width")


def test_shown_values_are_bearable() -> None:
    assert bounds.shown("x") == "'x'"
    assert bounds.shown(3) == "3"
    assert len(bounds.shown("x" * 10**6)) < 100
    assert len(bounds.first_line(ValueError("x" * 10**6))) < 300
    assert bounds.first_line(ValueError()) == "ValueError"
