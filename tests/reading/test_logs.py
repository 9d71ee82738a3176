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


def whole(path, *, rate=None, **options):
    return LogReader(path, **options).read_all(rate=rate)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_whole_log_has_its_learning_rates(tmp_path, name):
    rows = [{"step": 10, "loss": 3.5, "lr": 0.25}, {"step": 20, "loss": 3.25, "lr": 0.5}]
    append_rows(tmp_path / name, rows)
    run = whole(tmp_path / name)
    assert (run.steps.tolist(), run.losses.tolist()) == ([10, 20], [3.5, 3.25])
    assert (run.rate_steps.tolist(), run.rates.tolist()) == ([10, 20], [0.25, 0.5])
    assert run.total_steps is None


def test_rates_in_rows_of_their_own_are_read_and_steps_that_go_back_are_left_as_they_are(tmp_path):
    append(tmp_path / "a.csv", "step,loss,lr\n10,3.5,\n10,,.5\n20,3,\n15,3.25,\n20,,.25\n30,,\n")
    run = whole(tmp_path / "a.csv")
    assert run.steps.tolist() == [10, 20, 15]
    assert (run.rate_steps.tolist(), run.rates.tolist()) == ([10, 20], [0.5, 0.25])


def test_of_several_columns_of_rates_one_is_named_unless_they_are_equal(tmp_path):
    append(tmp_path / "a.csv", "step,loss,optim/lr,head/lr\n10,3.5,.5,.25\n20,3,.5,.125\n")
    with pytest.raises(DataError, match="optim/lr, head/lr"):
        whole(tmp_path / "a.csv")
    assert whole(tmp_path / "a.csv", rate="head/lr").rates.tolist() == [0.25, 0.125]
    with pytest.raises(DataError, match="'nope'"):
        whole(tmp_path / "a.csv", rate="nope")
    append(tmp_path / "b.csv", "step,loss,optim/lr,head/lr\n10,3.5,.5,.5\n20,3,.25,.25\n")
    assert whole(tmp_path / "b.csv").rates.tolist() == [0.5, 0.25]
    append(tmp_path / "c.csv", "step,loss\n10,3.5\n")
    assert whole(tmp_path / "c.csv").rates.tolist() == []


def test_a_whole_log_of_a_metric_that_is_maximised(tmp_path):
    append(tmp_path / "a.csv", "step,acc\n10,.5\n20,.75\n")
    assert whole(tmp_path / "a.csv", loss="acc", maximised=True).losses.tolist() == [0.5, 0.25]


@pytest.mark.parametrize("content", ["", "step,loss\n", "step,loss"])
def test_a_log_without_a_row_is_refused_as_a_whole(tmp_path, content):
    append(tmp_path / "a.csv", content)
    with pytest.raises(DataError, match="no row"):
        whole(tmp_path / "a.csv")
    with pytest.raises(DataError, match="no row"):
        whole(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"log_history": 5}', "nonsense"])
def test_a_state_without_a_history_is_refused(tmp_path, content):
    append(tmp_path / "trainer_state.json", content)
    with pytest.raises(DataError, match="log_history"):
        whole(tmp_path)
