import json
import math

import pytest

from extrap.errors import DataError
from extrap.reading.logs import LogReader

HEADER = "step,loss\n"


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.csv"


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
    """The points of a log, and how many rows were skipped."""
    reader = LogReader(path, **options)
    return reader.poll(), reader.n_skipped


BOTH = pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])


def test_poll_gives_only_what_is_new(log):
    reader = LogReader(log)
    for content, points in (
        (None, []),  # absent and empty logs are waited for
        ("", []),
        ("step,", []),
        ("loss\n10,3.5\n20,3.25\n", [(10.0, 3.5), (20.0, 3.25)]),
        ("", []),
        ("30,3.", []),  # half a line is heard once and whole
        ("125\n", [(30.0, 3.125)]),
    ):
        if content is not None:
            append(log, content)
        assert reader.poll() == points
    assert reader.n_skipped == 0


def test_half_written_character_is_waited_for(tmp_path):
    row = '{"step": 10, "loss": 3.5, "note": "é"}\n'.encode()
    reader = LogReader(tmp_path / "log.jsonl")
    append(reader.path, row[:-4])
    assert reader.poll() == []
    append(reader.path, row[-4:])
    assert reader.poll() == [(10.0, 3.5)]


def test_a_file_that_was_cut_or_replaced_is_read_from_its_beginning(log, tmp_path):
    reader = LogReader(log)
    append(log, HEADER + "10,3.5\n20,3.25\n")
    assert len(reader.poll()) == 2
    log.write_text("loss,step\n4.0,5\n")
    assert reader.poll() == [(5.0, 4.0)]
    append(log, "3.75,6\n")
    assert reader.poll() == [(6.0, 3.75)]
    log.rename(tmp_path / "log.csv.1")
    assert reader.poll() == []
    rows = [f"{step},3.5\n" for step in range(200)]
    append(log, HEADER + "".join(rows))
    assert len(reader.poll()) == 200
    with log.open("r+b") as file:
        file.truncate(len(HEADER + "".join(rows[:100])))
    assert len(reader.poll()) == 100
    inode = log.stat().st_ino  # Lightning's CSV logger rewrites it when a new metric appears
    log.write_text("lr,step,loss\n" + "".join(f"0.1,{row}" for row in rows))
    assert log.stat().st_ino == inode
    assert len(reader.poll()) == 200


@pytest.mark.parametrize("word", ["nan", "NaN", "inf", "-Infinity", "null", "None", "1e999"])
def test_lost_losses_are_nan(log, tmp_path, word):
    append(log, HEADER + f"10,{word}\n")
    value = {"nan": '"nan"', "inf": "Infinity", "None": "null"}.get(word, word)
    append(tmp_path / "log.jsonl", f'{{"step": 10, "loss": {value}}}\n')
    for path in (log, tmp_path / "log.jsonl"):
        assert [str(number) for number in heard(path)[0][0]] == ["10.0", "nan"]


def test_garbage_is_skipped_and_counted(log, tmp_path):
    append(log, HEADER + "10,3.5\n")
    append(log, b"\x00\xff\xfe,\x80\n" + b"x" * 200_000 + b"\n")
    append(log, "Traceback (most recent call last):\n10,3.5,7\nten,3.5\nnan,3.5\n10,low\n\n")
    append(log, HEADER + "20,3.25\r\n")
    assert heard(log) == ([(10.0, 3.5), (20.0, 3.25)], 8)
    log = tmp_path / "log.jsonl"
    append(log, b"loading\n\xff\xfe\x00\n[1, 2]\n" + b"[" * 100_000 + b"\n\n")
    append(log, '{"step": true, "loss": 3.5}\n{"loss": 3.5}\n{"step": 5, "loss": [1]}\n')
    append(log, f'{{"step": {"9" * 400}, "loss": 3.5}}\n')
    append(log, '{"step": 10, "loss": 3.5}\n')
    assert heard(log) == ([(10.0, 3.5)], 8)


@BOTH
def test_rows_that_log_something_else_and_byte_order_marks_are_passed_over(tmp_path, name):
    append(tmp_path / name, b"\xef\xbb\xbf")
    rows = [{"step": 10, "loss": 3.5}, {"step": 10, "eval_loss": 3.75}, {"train_runtime": 1.5}]
    if name == "a.csv":
        append(tmp_path / name, "step,loss,val_loss\n10,3.5,\n10,,3.75\n")
    else:
        append_rows(tmp_path / name, rows)
    reader = LogReader(tmp_path / name)
    assert reader.poll() == [(10.0, 3.5)]
    assert (reader.n_skipped, reader.missing()) == (0, None)


def test_missing_column_is_named_with_the_one_that_was_meant(log, tmp_path):
    append(log, "global_step,train_loss\n10,3.5\n")
    with pytest.raises(DataError, match="mean 'global_step'"):
        heard(log)
    with pytest.raises(DataError, match="did you mean 'train_loss"):
        heard(log, step="global_step")
    reader = LogReader(tmp_path / "log.jsonl", loss="los")
    assert reader.missing() is None
    append(tmp_path / "log.jsonl", '{"step": 10, "loss": 3.5}\n')
    assert reader.poll() == []
    assert "mean 'loss'" in str(reader.missing())


def test_file_of_another_kind_is_refused(tmp_path):
    reader = LogReader(tmp_path / "out.log")
    assert reader.poll() == []
    append(tmp_path / "out.log", "step 10 loss 3.5\n")
    with pytest.raises(DataError, match=r"got out\.log"):
        reader.poll()


def test_a_loss_and_a_step_are_made_by_formulas(tmp_path):
    append(tmp_path / "a.csv", "epoch,acc,note\n1,50,\n2,,x\n3,nan,\n4,75,\n5,odd,\n")
    let = ["step = 100 * epoch", "share = acc / 100", "error = 1 - share"]
    found, n_skipped = heard(tmp_path / "a.csv", loss="error", let=let)
    assert [found[0], found[2]] == [(100.0, 0.5), (400.0, 0.25)]
    assert found[1][0] == 300.0
    assert math.isnan(found[1][1])  # a run that is lost
    assert (len(found), n_skipped) == (3, 1)

    rows = [{"step": 1, "a": 2.0, "b": 0.5}, {"step": 2, "a": 2.0}, {"a": 1, "b": 0}]
    append_rows(tmp_path / "a.jsonl", rows)
    reader = LogReader(tmp_path / "a.jsonl", let=["loss = a - b"])
    assert reader.poll() == [(1.0, 1.5)]
    assert (reader.n_skipped, reader.missing()) == (2, None)
    reader = LogReader(tmp_path / "a.jsonl", let=["loss = a - c"])
    assert reader.poll() == []
    assert "'c'" in str(reader.missing())


@pytest.mark.parametrize("let", ["loss = 1 - acc", "step = 10 * epoch"])
@BOTH
def test_a_formula_does_not_stand_before_a_column_of_its_name(tmp_path, name, let):
    append_rows(tmp_path / name, [{"step": 1, "epoch": 1, "acc": 0.5, "loss": 3.5}])
    with pytest.raises(DataError, match=f"has '{let.split()[0]}' already"):
        heard(tmp_path / name, let=[let])


def test_a_metric_to_be_maximised_becomes_the_loss_of_the_sweep(tmp_path):
    append(tmp_path / "a.csv", "step,acc,ll\n1,0.25,-2\n2,0.5,-1.5\n3,nan,nan\n")
    accuracy = LogReader(tmp_path / "a.csv", loss="acc", maximised=True)
    assert [loss for _, loss in accuracy.poll()][:2] == [0.75, 0.5]
    likelihood = LogReader(tmp_path / "a.csv", loss="ll", maximised=True)
    assert [loss for _, loss in likelihood.poll()][:2] == [2.0, 1.5]
    append(tmp_path / "a.csv", "4,1,0\n")
    with pytest.raises(DataError, match="got acc 1 in row 4"):
        accuracy.poll()
    with pytest.raises(DataError, match="got ll -2;"):
        likelihood.poll()
    append(tmp_path / "b.csv", "step,acc\n1,37\n")
    with pytest.raises(DataError, match="got acc 37;"):
        heard(tmp_path / "b.csv", loss="acc", maximised=True)


def test_event_files_make_a_loss_of_one_tag_and_a_step_of_their_own_alone(tmp_path):
    with pytest.raises(DataError, match="formula over a, b"):
        heard(tmp_path, let=["loss = a - b"])
    with pytest.raises(DataError, match="over epoch, step;"):
        heard(tmp_path, step="updates", let=["updates = epoch + step"])
