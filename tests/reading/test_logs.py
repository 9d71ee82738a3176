from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from extrap.errors import DataError
from extrap.reading.logs import LogReader

HEADER = "step,loss\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.csv"


def append(path: Path, content: str | bytes) -> None:
    with path.open("ab") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def test_poll_gives_only_what_is_new(log):
    reader = LogReader(log)
    append(log, HEADER + "10,3.5\n20,3.25\n")
    assert reader.poll() == [(10.0, 3.5), (20.0, 3.25)]
    assert reader.poll() == []
    append(log, "30,3.0\n")
    assert reader.poll() == [(30.0, 3.0)]


def test_columns_are_found_by_name_in_any_order(tmp_path):
    append(tmp_path / "a.tsv", 'lr\ttrain loss\tglobal_step\n0.1\t"3.5"\t10\n')
    reader = LogReader(tmp_path / "a.tsv", step="global_step", loss="train loss")
    assert reader.poll() == [(10.0, 3.5)]


def test_absent_and_empty_logs_are_waited_for(log):
    reader = LogReader(log)
    assert reader.poll() == []
    log.touch()
    assert reader.poll() == []
    append(log, "step,")
    assert reader.poll() == []
    append(log, "loss\n10,3.5\n")
    assert reader.poll() == [(10.0, 3.5)]


def test_half_written_line_is_heard_once_and_whole(log):
    reader = LogReader(log)
    append(log, HEADER + "10,3.")
    assert reader.poll() == []
    append(log, "25\n")
    assert reader.poll() == [(10.0, 3.25)]
    assert reader.n_skipped == 0


def test_half_written_character_is_waited_for(tmp_path):
    row = '{"step": 10, "loss": 3.5, "note": "é"}\n'.encode()
    log = tmp_path / "log.jsonl"
    reader = LogReader(log)
    append(log, row[:-4])
    assert reader.poll() == []
    append(log, row[-4:])
    assert reader.poll() == [(10.0, 3.5)]


def test_truncated_file_is_read_from_its_beginning(log):
    reader = LogReader(log)
    append(log, HEADER + "10,3.5\n20,3.25\n")
    reader.poll()
    log.write_text("loss,step\n4.0,5\n")
    assert reader.poll() == [(5.0, 4.0)]
    append(log, "3.75,6\n")
    assert reader.poll() == [(6.0, 3.75)]


def test_file_cut_back_to_an_earlier_step_is_read_from_its_beginning(log):
    reader = LogReader(log)
    rows = [f"{step},3.5\n" for step in range(200)]
    append(log, HEADER + "".join(rows))
    assert len(reader.poll()) == 200
    with log.open("r+b") as file:
        file.truncate(len(HEADER + "".join(rows[:100])))
    assert len(reader.poll()) == 100


def test_rotated_file_is_read_from_its_beginning(log, tmp_path):
    reader = LogReader(log)
    append(log, HEADER + "10,3.5\n")
    reader.poll()
    log.rename(tmp_path / "log.csv.1")
    assert reader.poll() == []
    append(log, HEADER + "10,3.5\n20,3.25\n")
    assert reader.poll() == [(10.0, 3.5), (20.0, 3.25)]


def test_file_rewritten_in_place_and_longer_is_read_from_its_beginning(log):
    """Lightning's CSV logger does so when a new metric appears."""
    reader = LogReader(log)
    append(log, HEADER + "10,3.5\n")
    reader.poll()
    inode = log.stat().st_ino
    log.write_text("lr,step,loss\n0.1,10,3.5\n0.1,20,3.25\n")
    assert log.stat().st_ino == inode
    assert reader.poll() == [(10.0, 3.5), (20.0, 3.25)]


@pytest.mark.parametrize("word", ["nan", "NaN", "inf", "-Infinity", "null", "None", "1e999"])
def test_lost_losses_are_nan(log, word):
    append(log, HEADER + f"10,{word}\n")
    [(step, loss)] = LogReader(log).poll()
    assert step == 10
    assert math.isnan(loss)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "null", '"nan"', "1e999"])
def test_lost_losses_of_json_are_nan(tmp_path, word):
    append(tmp_path / "log.jsonl", f'{{"step": 10, "loss": {word}}}\n')
    [(step, loss)] = LogReader(tmp_path / "log.jsonl").poll()
    assert step == 10
    assert math.isnan(loss)


def test_steps_out_of_order_are_passed_on(log):
    append(log, HEADER + "20,3.5\n10,3.25\n20,3.0\n")
    assert [step for step, _ in LogReader(log).poll()] == [20, 10, 20]


def test_garbage_is_skipped_and_counted(log):
    append(log, HEADER + "10,3.5\n")
    append(log, b"\x00\xff\xfe,\x80\n" + b"x" * 200_000 + b"\n")
    append(log, "Traceback (most recent call last):\n10,3.5,7\nten,3.5\nnan,3.5\n10,low\n\n")
    append(log, HEADER + "20,3.25\r\n")
    reader = LogReader(log)
    assert reader.poll() == [(10.0, 3.5), (20.0, 3.25)]
    assert reader.n_skipped == 8


def test_garbage_among_json_is_skipped_and_counted(tmp_path):
    log = tmp_path / "log.jsonl"
    append(log, b"loading\n\xff\xfe\x00\n[1, 2]\n" + b"[" * 100_000 + b"\n\n")
    append(log, '{"step": true, "loss": 3.5}\n{"loss": 3.5}\n{"step": 5, "loss": [1]}\n')
    append(log, f'{{"step": {"9" * 400}, "loss": 3.5}}\n')
    append(log, '{"step": 10, "loss": 3.5}\n')
    reader = LogReader(log)
    assert reader.poll() == [(10.0, 3.5)]
    assert reader.n_skipped == 8


def test_rows_that_log_something_else_are_passed_over(tmp_path):
    append(tmp_path / "log.csv", "step,loss,val_loss\n10,3.5,\n10,,3.75\n")
    rows = [{"step": 10, "loss": 3.5}, {"step": 10, "eval_loss": 3.75}, {"train_runtime": 1.5}]
    append(tmp_path / "log.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    for name in ("log.csv", "log.jsonl"):
        reader = LogReader(tmp_path / name)
        assert reader.poll() == [(10.0, 3.5)]
        assert reader.n_skipped == 0
        assert reader.missing() is None


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl"])
def test_byte_order_mark_is_no_content(tmp_path, name):
    content = HEADER + "10,3.5\n" if name.endswith("csv") else '{"step": 10, "loss": 3.5}\n'
    append(tmp_path / name, b"\xef\xbb\xbf" + content.encode())
    reader = LogReader(tmp_path / name)
    assert reader.poll() == [(10.0, 3.5)]
    assert reader.n_skipped == 0


def test_missing_column_is_named_with_the_one_that_was_meant(log):
    append(log, "global_step,train_loss\n10,3.5\n")
    with pytest.raises(DataError, match=r"log.csv has no column 'step'; .*'global_step'"):
        LogReader(log).poll()
    with pytest.raises(DataError, match=r"has no column 'loss'; did you mean 'train_loss'\?"):
        LogReader(log, step="global_step").poll()


def test_binary_file_is_no_log(log):
    append(log, os.urandom(64).replace(b"\n", b" ") + b"\n")
    with pytest.raises(DataError, match="has no column 'step'"):
        LogReader(log).poll()


def test_json_that_never_logs_the_loss_says_what_it_logs(tmp_path):
    reader = LogReader(tmp_path / "log.jsonl", loss="los")
    assert reader.missing() is None
    append(tmp_path / "log.jsonl", '{"step": 10, "loss": 3.5}\n')
    assert reader.poll() == []
    assert "no column 'los'; did you mean 'loss'?" in str(reader.missing())


def test_file_of_another_kind_is_refused(tmp_path):
    reader = LogReader(tmp_path / "out.log")
    assert reader.poll() == []
    append(tmp_path / "out.log", "step 10 loss 3.5\n")
    with pytest.raises(DataError, match=r"a log ends in \.csv, .* got out\.log"):
        reader.poll()


def test_a_loss_and_a_step_are_made_by_formulas(tmp_path):
    append(tmp_path / "a.csv", "epoch,acc,note\n1,50,\n2,,x\n3,nan,\n4,75,\n5,odd,\n")
    let = ["step = 100 * epoch", "share = acc / 100", "error = 1 - share"]
    reader = LogReader(tmp_path / "a.csv", loss="error", let=let)
    found = reader.poll()
    assert found[0] == (100.0, 0.5)
    assert found[1][0] == 300.0
    assert math.isnan(found[1][1])  # a run that is lost
    assert found[2] == (400.0, 0.25)
    assert (len(found), reader.n_skipped) == (3, 1)

    rows = [{"step": 1, "a": 2.0, "b": 0.5}, {"step": 2, "a": 2.0}, {"a": 1, "b": 0}]
    append(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    reader = LogReader(tmp_path / "a.jsonl", let=["loss = a - b"])
    assert reader.poll() == [(1.0, 1.5)]
    assert reader.n_skipped == 2
    assert reader.missing() is None
    reader = LogReader(tmp_path / "a.jsonl", let=["loss = a - c"])
    assert reader.poll() == []
    assert "'c'" in str(reader.missing())


@pytest.mark.parametrize(
    ("let", "message"),
    [
        (["error = 1 - acc"], "the definition of 'error' makes neither; leave it out"),
        (["loss = loss / 2"], "'loss' is there already"),
        (["loss = a", "loss = b"], "'loss' is there already"),
        (["loss = open('x')"], "open"),
        (["half = 0.5", "loss = 2 * half"], "a formula over no name for 'loss'"),
    ],
)
def test_formulas_of_a_log_that_cannot_be_are_refused(log, let, message):
    with pytest.raises(ValueError, match=message):
        LogReader(log, let=let)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_formula_over_values_of_different_rows_is_counted_and_names_them(tmp_path, name):
    rows = [{"step": 1, "a": 2.0, "lr": 0.1}, {"step": 1, "b": 0.5}, {"step": 1, "lr": 0.1}]
    keys = ("step", "a", "b", "lr")
    lines = [",".join(keys), *(",".join(str(row.get(key, "")) for key in keys) for row in rows)]
    lines = lines if name == "a.csv" else [json.dumps(row) for row in rows]
    append(tmp_path / name, "\n".join(lines) + "\n")
    reader = LogReader(tmp_path / name, let=["loss = a - b"])
    assert reader.poll() == []
    assert reader.n_skipped == 2
    assert f"got 2 of {tmp_path / name} without 'a' or 'b'; log" in str(reader.missing())
    append(tmp_path / name, "2,2,0.5,\n" if name == "a.csv" else '{"step":2,"a":2,"b":0.5}\n')
    assert reader.poll() == [(2.0, 1.5)]
    assert reader.missing() is None


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_row_that_has_only_the_step_of_a_formula_logs_something_else(tmp_path, name):
    csv = "step,total,lr\n1,,0.1\n2,7,\n"
    rows = '{"step": 1, "lr": 0.1}\n{"step": 2, "total": 7}\n'
    append(tmp_path / name, csv if name == "a.csv" else rows)
    reader = LogReader(tmp_path / name, let=["loss = total / step"])
    assert reader.poll() == [(2.0, 3.5)]
    assert reader.n_skipped == 0


def test_a_step_that_is_logged_in_other_rows_is_named(tmp_path):
    append(tmp_path / "a.jsonl", '{"epoch": 1}\n{"loss": 3.5}\n')
    reader = LogReader(tmp_path / "a.jsonl", let=["step = 100 * epoch"])
    assert reader.poll() == []
    assert reader.n_skipped == 1
    assert "without 'epoch'; log them in the same row" in str(reader.missing())


@pytest.mark.parametrize("let", ["loss = 1 - acc", "step = 10 * epoch"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_formula_does_not_stand_before_a_column_of_its_name(tmp_path, name, let):
    row = {"step": 1, "epoch": 1, "acc": 0.5, "loss": 3.5}
    csv = ",".join(row) + "\n" + ",".join(map(str, row.values()))
    append(tmp_path / name, (csv if name == "a.csv" else json.dumps(row)) + "\n")
    with pytest.raises(DataError, match=rf"makes a new column, .*{name} has '\w+' already"):
        LogReader(tmp_path / name, let=[let]).poll()


def test_event_files_make_a_loss_of_one_tag(tmp_path):
    with pytest.raises(DataError, match="made of one, got a formula over a, b"):
        LogReader(tmp_path, let=["loss = a - b"]).poll()


@pytest.mark.parametrize(
    ("formula", "names"),
    [("390 * epoch", "epoch"), ("epoch + step", "epoch, step")],
)
def test_event_files_make_a_step_of_their_own_alone(tmp_path, formula, names):
    reader = LogReader(tmp_path, step="updates", let=[f"updates = {formula}"])
    with pytest.raises(DataError, match=f"got a formula over {names}; write it over step"):
        reader.poll()


def test_a_metric_to_be_maximised_becomes_the_loss_of_the_sweep(tmp_path):
    append(tmp_path / "a.csv", "step,acc,ll\n1,0.25,-2\n2,0.5,-1.5\n3,nan,nan\n")
    accuracy = LogReader(tmp_path / "a.csv", loss="acc", maximised=True)
    assert [loss for _, loss in accuracy.poll()][:2] == [0.75, 0.5]
    likelihood = LogReader(tmp_path / "a.csv", loss="ll", maximised=True)
    assert [loss for _, loss in likelihood.poll()][:2] == [2.0, 1.5]

    append(tmp_path / "a.csv", "4,1,0\n")
    with pytest.raises(DataError, match="which must be positive, got acc 1 in row 4"):
        accuracy.poll()
    with pytest.raises(DataError, match="a metric that is maximised lies in"):
        likelihood.poll()
    append(tmp_path / "b.csv", "step,acc\n1,37\n")
    with pytest.raises(DataError, match="got acc 37; say what its loss is"):
        LogReader(tmp_path / "b.csv", loss="acc", maximised=True).poll()
