"""Files that are no tables: one line, whatever they hold."""

import json
import os
import struct

import numpy as np
import pytest

from extrap import errors
from extrap.documents import load_forecast
from extrap.errors import DataError
from extrap.reading.tables import read_embedding, read_table


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


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"width": ' + "9" * 1_000_000 + "}",
    ],
    ids=["lists", "objects", "digits"],
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


def test_shown_values_are_bearable():
    assert [errors.shown(x) for x in ("x", 3, "y" * 60)] == ["'x'", "3", repr("y" * 60)]
    assert errors.shown("y" * 1061) == f"'{'y' * 60}'… (1,061 characters)"
    assert errors.first_line(ValueError("x" * 200)) == "x" * 200
    assert errors.first_line(ValueError("x" * 201)) == "x" * 200 + "…"
    assert errors.first_line(ValueError("  a\nb")) == "a"
    assert errors.first_line(ValueError()) == "ValueError"
