import json

import numpy as np
import pytest

from extrap.errors import DataError
from extrap.reading.logs import LogReader


def append(path, content):
    with path.open("ab") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def append_rows(path, rows):
    """Rows as CSV, with a header where the file is new, or as JSON."""
    keys = dict.fromkeys(key for row in rows for key in row)
    lines = [",".join(str(row.get(key, "")) for key in keys) for row in rows]
    head = [] if path.exists() else [",".join(keys)]
    lines = [*head, *lines] if path.suffix == ".csv" else [json.dumps(row) for row in rows]
    append(path, "\n".join(lines) + "\n")


def heard(path, **options):
    return LogReader(path, **options).poll()


def test_poll_gives_only_what_is_new(tmp_path):
    log = tmp_path / "log.csv"
    reader = LogReader(log)
    for content, points in (
        ("", []),
        ("step,", []),
        ("loss\n10,3.5\n20,3.25\n", [(10.0, 3.5), (20.0, 3.25)]),
        ("", []),
        ("30,3.", []),  # half a line is heard once and whole
        ("125\n", [(30.0, 3.125)]),
        ("30,3.0\n25,3.0\n40,2.5\n", [(40.0, 2.5)]),  # a restart from a checkpoint
    ):
        append(log, content)
        assert reader.poll() == points
    log.write_text("lr,step,loss\n.1,40,2.5\n.1,50,2.25\n")  # Lightning rewrites its log
    assert reader.poll() == [(50.0, 2.25)]


def test_half_written_character_is_waited_for(tmp_path):
    row = '{"step": 10, "loss": 3.5, "note": "é"}\n'.encode()
    log = tmp_path / "log.jsonl"
    reader = LogReader(log)
    append(log, row[:-4])
    assert reader.poll() == []
    append(log, row[-4:])
    assert reader.poll() == [(10.0, 3.5)]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
@pytest.mark.parametrize("word", ["nan", "inf", "-inf"])
def test_lost_losses_are_heard_and_rows_that_log_something_else_are_not(tmp_path, name, word):
    append(tmp_path / name, b"\xef\xbb\xbf")
    rows = [{"step": 10, "loss": 3.5}, {"step": 10, "val": 3.75}, {"step": 20, "loss": word}]
    if name == "a.csv":
        append(tmp_path / name, f"step,loss,val\n10,3.5,\n10,,3.75\n20,{word},\n")
    else:
        append_rows(tmp_path / name, [*rows[:2], {"step": 20, "loss": float(word)}])
    np.testing.assert_equal(heard(tmp_path / name), [(10.0, 3.5), (20.0, float(word))])


def test_a_column_that_was_found_stays_the_one_when_another_of_its_name_appears(tmp_path):
    path = tmp_path / "log.jsonl"
    append_rows(path, [{"step": 1, "train/loss": 3.5}])
    reader = LogReader(path)
    assert reader.poll() == [(1.0, 3.5)]
    append_rows(path, [{"step": 2, "train/loss": 3.25, "val/loss": 3.0}])
    assert reader.poll() == [(2.0, 3.25)]
    with pytest.raises(DataError, match="'train/loss', 'val/loss'"):
        heard(path)


@pytest.mark.parametrize("place", [None, "/dev/null"])
def test_log_is_a_plain_file(tmp_path, place):
    if place is not None:
        (tmp_path / "log.csv").symlink_to(place)
    with pytest.raises(DataError, match="plain file" if place else r"log\.csv"):
        heard(tmp_path / "log.csv")


def test_a_loss_and_a_step_are_made_by_formulas(tmp_path):
    append(tmp_path / "a.csv", "epoch,acc,note\n1,50,\n2,,x\n3,nan,\n4,75,\n")
    let = ["step = 100 * epoch", "share = acc / 100", "error = 1 - share"]
    points = heard(tmp_path / "a.csv", loss="error", let=let)
    np.testing.assert_equal(points, [(100.0, 0.5), (300.0, np.nan), (400.0, 0.25)])
    rows = [{"step": 1, "a": 2.0, "b": 0.5}, {"step": 2, "a": 2.0}, {"a": 1, "b": 0}]
    append_rows(tmp_path / "a.jsonl", rows)
    assert heard(tmp_path / "a.jsonl", let=["loss = a - b"]) == [(1.0, 1.5)]
    with pytest.raises(DataError, match="'a'"):
        heard(tmp_path / "a.jsonl", let=["a = 2 * b"])
