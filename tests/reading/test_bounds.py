"""What a stranger's file may ask of us: the message says the bound, and memory stays."""

import io
import json
import os
import sqlite3
import struct

import numpy as np
import pandas as pd
import pytest

from extrap import read_runs
from extrap.documents import load_forecast
from extrap.errors import DataError
from extrap.reading import bounds
from extrap.reading.embeddings import read_embedding
from extrap.reading.tables import read_table

GIB = 2**30


def sparse(path, size):
    """A file that says to be so large and takes no room."""
    with path.open("wb") as file:
        file.write(b"width,loss\n")
        file.truncate(size)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.jsonl", "a.json"])
def test_two_gigabytes_are_refused_unread(tmp_path, name):
    read = load_forecast if name.endswith(".json") else read_table
    with pytest.raises(DataError, match=r"35,456 .* 2,147,483,648"):
        read(sparse(tmp_path / name, 2 * GIB))


def test_what_is_exactly_at_a_bound_is_read(tmp_path, monkeypatch):
    bounds.require_file(sparse(tmp_path / "a.csv", 100), most=100)
    with pytest.raises(DataError, match="got 101 in"):
        bounds.require_file(sparse(tmp_path / "a.csv", 101), most=100)
    bounds.check_cells(bounds.MOST_CELLS, "here")
    with pytest.raises(DataError, match="got 100,000,001 in here"):
        bounds.check_cells(bounds.MOST_CELLS + 1, "here")
    monkeypatch.setattr(bounds, "MOST_BYTES", 9)
    assert bounds.bounded_text(io.StringIO("\ufeffa,b\n1,2\n")).read() == "a,b\n1,2\n"
    with pytest.raises(DataError, match="at most 9 bytes"):
        bounds.bounded_text(io.StringIO("a,b\n1,2\n3,"))


@pytest.mark.parametrize("place", ["/dev/zero", "/dev/urandom", "/dev/null", "pipe", "loop"])
def test_devices_pipes_and_loops_are_no_tables(tmp_path, place):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    words = "there is no file" if place == "loop" else "is a plain file"
    reads = {"a.csv": read_table, "a.parquet": read_table, "a.npy": read_embedding}
    for name, read in reads.items():
        (tmp_path / name).symlink_to(tmp_path / place)
        with pytest.raises(DataError, match=words):
            read(tmp_path / name)


def test_keys_that_never_repeat_make_no_huge_table(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "MOST_CELLS", 1_000)
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({f"k{i}": i}) for i in range(60)))
    with pytest.raises(DataError, match="got 1,024 in"):  # 32²
        read_table(tmp_path / "a.jsonl")


def test_parquet_is_measured_before_it_is_unpacked(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pd.DataFrame({"a": ["x" * 1000] * 5000}).to_parquet(path)
    assert len(read_table(path)) == 5000
    monkeypatch.setattr(bounds, "MOST_CELLS", 4999)
    with pytest.raises(DataError, match="got 5,000 in"):
        read_table(path)


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a":' * 100_000, '{"width": ' + "9" * 1_000_000 + "}", '{"a": "\\ud800"}'],
    ids=["lists", "objects", "digits", "half a character"],
)
def test_json_without_bounds_is_one_line(tmp_path, text):
    for name, read in (("a.jsonl", read_table), ("a.json", load_forecast)):
        (tmp_path / name).write_text(text + "\n")
        with pytest.raises(DataError) as caught:
            read(tmp_path / name)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500


def test_lines_of_json_end_at_newlines_only(tmp_path):
    row = json.dumps({"width": 16, "note": "a\u2028b\u0085c"}, ensure_ascii=False)
    (tmp_path / "a.jsonl").write_text(f"{row}\r\n{row}\n", encoding="utf-8")
    assert read_table(tmp_path / "a.jsonl")["note"].tolist() == ["a\u2028b\u0085c"] * 2


def test_arrays_that_promise_too_much_or_hold_objects(tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d, 4), }" % 2**50
    header += b" " * (118 - len(header) - 1) + b"\n"
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64))
    with pytest.raises(DataError, match=r"readable \.npy array"):
        read_embedding(path)
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"readable \.npy array"):
        read_embedding(path)


def test_a_storage_with_a_view_is_not_opened(tmp_path):
    """A view is a query of its author's, which may never end."""
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute(
        "CREATE VIEW studies AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
        "SELECT x AS study_id, 'a' AS study_name FROM c"
    )
    connection.close()
    with pytest.raises(DataError, match="only, got 'studies'"):
        read_runs(f"sqlite:///{tmp_path}/a.db", size="width")


def test_shown_values_are_bearable():
    assert [bounds.shown(x) for x in ("x", 3, "y" * 60)] == ["'x'", "3", repr("y" * 60)]
    assert bounds.shown("y" * 1061) == f"'{'y' * 60}'… (1,061 characters)"
    assert bounds.first_line(ValueError("x" * 200)) == "x" * 200
    assert bounds.first_line(ValueError("x" * 201)) == "x" * 200 + "…"
    assert bounds.first_line(ValueError("  a\nb")) == "a"
    assert bounds.first_line(ValueError()) == "ValueError"
