"""What a stranger's file may ask of us: the message says the bound, and memory stays."""

import json
import os
import struct

import numpy as np
import pytest

from extrap.documents import load_forecast
from extrap.errors import DataError
from extrap.reading import bounds, tailing
from extrap.reading.embeddings import read_embedding
from extrap.reading.logs import LogReader
from extrap.reading.tables import read_table


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
    (tmp_path / "log.csv").symlink_to(tmp_path / place)
    with pytest.raises(DataError, match="is a plain file"):
        LogReader(tmp_path / "log.csv").poll()


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


def test_arrays_that_promise_too_much(tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d, 4), }" % 2**50
    header += b" " * (118 - len(header) - 1) + b"\n"
    path = tmp_path / "a.npy"
    np.savez(tmp_path / "b.npz", a=np.zeros(3))
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
    for content in (start + header + b"\x00" * 64, (tmp_path / "b.npz").read_bytes(), None):
        if content is None:
            np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
        else:
            path.write_bytes(content)
        with pytest.raises(DataError, match=r"readable \.npy array"):
            read_embedding(path)


def heard(reader):
    """All that a log holds by now."""
    found = reader.poll()
    while reader.has_more:
        found += reader.poll()
    return found


def test_a_line_without_end_is_passed_over_and_a_long_log_comes_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(tailing, "READ_BYTES", 1000)
    log = tmp_path / "log.csv"
    log.write_text("step,loss\n" + "10,3.5\n" * 3 + "x" * 5000)
    reader = LogReader(log)
    assert (heard(reader), reader.n_skipped) == ([(10.0, 3.5)] * 3, 1)
    with log.open("a") as file:
        file.write("x" * 900 + "\n20,3.25\n")
    assert (heard(reader), reader.n_skipped) == ([(20.0, 3.25)], 1)
    log.write_text("step,loss\n" + "".join(f"{step},3.5\n" for step in range(500)))
    assert heard(LogReader(log)) == [(step, 3.5) for step in range(500)]


def test_an_event_of_a_huge_shape_is_no_loss(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.compat.proto.types_pb2 import DT_FLOAT
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c
    from tensorboard.summary.writer.record_writer import RecordWriter

    axes = TensorShapeProto(dim=[TensorShapeProto.Dim(size=2**20)] * 2)
    tensor = TensorProto(dtype=DT_FLOAT, float_val=[1.0], tensor_shape=axes)
    path = tmp_path / "events.tfevents.1"
    with path.open("wb") as file:
        writer = RecordWriter(file)
        for value in ({"tensor": tensor}, {"simple_value": 2.0}):
            summary = Summary(value=[Summary.Value(tag="loss", **value)])
            writer.write(Event(step=5, summary=summary).SerializeToString())
        length = struct.pack("<Q", 2**60)
        file.write(length + struct.pack("<I", masked_crc32c(length)) + b"x")
        file.flush()
        reader = LogReader(path)
        assert reader.poll() == [(5.0, 2.0)]
    assert reader.n_skipped >= 1


def test_shown_values_are_bearable():
    assert [bounds.shown(x) for x in ("x", 3, "y" * 60)] == ["'x'", "3", repr("y" * 60)]
    assert bounds.shown("y" * 1061) == f"'{'y' * 60}'… (1,061 characters)"
    assert bounds.first_line(ValueError("x" * 200)) == "x" * 200
    assert bounds.first_line(ValueError("x" * 201)) == "x" * 200 + "…"
    assert bounds.first_line(ValueError("  a\nb")) == "a"
    assert bounds.first_line(ValueError()) == "ValueError"
