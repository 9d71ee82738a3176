import json
import math
from pathlib import Path

import pytest

from extrap.errors import DataError
from extrap.reading.logs import LogReader
from extrap.records.codec import encode
from extrap.watching import watch

from .monitors import FakeMonitor


class Script:
    """A log that gains the given losses look by look; running out of them is an error."""

    path = Path(__file__)
    n_skipped = 0
    has_more = False

    def __init__(self, *looks, reason=None):
        self._looks = list(looks)
        self._reason = reason

    def poll(self):
        return self._looks.pop(0)

    def missing(self):
        return self._reason


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    found: list[float] = []
    monkeypatch.setattr("extrap.watching.time.sleep", found.append)
    return found


def steps(*numbers, loss=3.0):
    return [(float(number), loss) for number in numbers]


def test_readings_come_as_comparison_points_complete(pauses):
    monitor = FakeMonitor(every=2)
    script = Script(steps(10, 20, 30), steps(), steps(40, 50, 60, 100))
    readings = list(watch(monitor, script, interval=2.5))
    assert [reading.step for reading in readings] == [20, 40, 60, 100]
    assert readings[-1] == monitor.reading
    assert pauses == [2.5, 2.5]


def test_alarm_ends_it_at_once_and_is_given():
    monitor = FakeMonitor(every=2, limit=4.0)
    readings = list(watch(monitor, Script([*steps(10, 20, 30), (40, 9.0), (50, 3.0)])))
    assert [(reading.step, reading.alarm) for reading in readings] == [(20, False), (40, True)]
    assert [step for step, _ in monitor.heard] == [10, 20, 30, 40]


def test_alarm_between_comparison_points_is_given():
    readings = list(watch(FakeMonitor(every=10), Script([(10, 3.0), (20, math.nan)])))
    assert [(reading.step, reading.alarm) for reading in readings] == [(20, True)]


@pytest.mark.parametrize(
    "numbers",
    [
        (25, 50, 75, 100),
        (30, 60, 90),  # every 30 of 100: the next would be 120
        (1, 10, 20, 95),
        (97, 98, 99),  # counted from zero
        (50, 130),
    ],
)
def test_run_is_over_when_no_loss_is_to_come(numbers):
    assert list(watch(FakeMonitor(), Script(steps(*numbers))))


@pytest.mark.parametrize("numbers", [(0,), (90,), (10, 20, 80), (80, 90), (98,)])
def test_run_is_not_over_before(numbers):
    with pytest.raises(IndexError):  # it looks again
        list(watch(FakeMonitor(), Script(steps(*numbers))))


def test_once_reads_what_there_is(pauses):
    readings = list(watch(FakeMonitor(every=2), Script(steps(10, 20, 30)), once=True))
    assert [reading.step for reading in readings] == [20, 30]
    assert list(watch(FakeMonitor(), Script([]), once=True)) == []
    assert pauses == []


def test_once_refuses_a_log_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"absent\.csv"):
        list(watch(FakeMonitor(), LogReader(tmp_path / "absent.csv"), once=True))


def test_loss_that_is_never_logged_is_said_once_and_refused_with_once(caplog):
    reason = DataError("log.jsonl has no column 'los'; did you mean 'loss'?")
    with pytest.raises(IndexError):
        list(watch(FakeMonitor(), Script([], [], [], reason=reason)))
    (record,) = caplog.records
    assert str(reason) in record.getMessage()
    with pytest.raises(DataError, match="did you mean 'loss'"):
        list(watch(FakeMonitor(), Script([], reason=reason), once=True))


def test_document_of_a_reading_holds_its_fields_and_no_nan():
    monitor = FakeMonitor()
    document = encode(monitor.update(20.0, math.nan))
    assert json.loads(json.dumps(document, allow_nan=False)) == {
        "step": 20,
        "fraction": 0.2,
        "loss": None,
        "expected": 3,
        "band": [2.5, None],
        "e_value": None,
        "alarm": True,
        "cause": "instability",
        "advice": "Stop the run.",
    }


def test_log_that_begins_again_is_heard_anew(caplog):
    monitor = FakeMonitor(every=2)
    script = Script([*steps(20, 40, 60), *steps(10, 20, loss=2.0)], steps(40, 100, loss=2.0))
    list(watch(monitor, script))
    assert monitor.n_restarts == 1
    assert monitor.heard == steps(10, 20, 40, 100, loss=2.0)
    assert "at step 10" in caplog.text


def test_one_stray_step_is_no_new_start():
    monitor = FakeMonitor(every=2)
    list(watch(monitor, Script(steps(20, 40, 60, 5, 80, 100))))
    assert monitor.n_restarts == 0


def test_few_steps_are_no_updates():
    monitor = FakeMonitor(every=1, total_steps=2.0)
    list(watch(monitor, Script(steps(0.5, 1.0), steps(1.5, 2.0))))
    assert monitor.heard[-1] == (2.0, 3.0)


def test_log_without_a_readable_row_is_refused(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("step,loss\nep20,high\nep40,low\n")
    reader = LogReader(path, step="step", loss="loss")
    with pytest.raises(DataError, match="none of the 2 rows"):
        list(watch(FakeMonitor(), reader, once=True))


def test_values_that_are_never_logged_together_are_named(tmp_path, caplog, monkeypatch):
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 10, "train": 3.0}\n{"step": 10, "val": 3.5}\n')
    let = ["loss = val - train"]
    with pytest.raises(DataError, match="'train' or 'val'"):
        list(watch(FakeMonitor(), LogReader(path, let=let), once=True))

    def log_both(_):
        with path.open("a") as file:
            file.write('{"step": 100, "train": 3.0, "val": 3.5}\n')

    monkeypatch.setattr("extrap.watching.time.sleep", log_both)
    [reading] = watch(FakeMonitor(), LogReader(path, let=let))
    assert (reading.step, reading.loss) == (100, 0.5)
    [record] = caplog.records
    assert record.getMessage().startswith("waiting for a loss: ")
    assert "without 'train' or 'val'" in record.getMessage()
