"""Files as tables, and files that are none: one line, whatever they hold."""

import io
import json
import os
import struct

import numpy as np
import pandas as pd
import pytest

from extrap import errors
from extrap.errors import DataError
from extrap.reading.table_files import read_embedding, read_table

CSV = "width,lr,seed,loss\n16,0.1,0,2.5\n32,0.1,0,2.25\n"


def written(folder, name, content):
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder / name


def test_parquet_jsonl_tsv_and_open_text_hold_the_same_numbers(tmp_path):
    frame = pd.read_csv(io.StringIO(CSV))
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    frame.to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    sources = [tmp_path / "a.parquet", tmp_path / "a.jsonl", tmp_path / "a.tsv", io.StringIO(CSV)]
    for source in (*sources, frame):
        table = read_table(source)
        assert table.astype(float).to_dict("list") == frame.astype(float).to_dict("list")
    table.loc[0, "width"] = 2
    assert frame.loc[0, "width"] == 16  # what is handed in is copied


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
