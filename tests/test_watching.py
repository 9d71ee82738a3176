import json
import math

import pytest

from extrap.errors import DataError
from extrap.monitoring import watch
from extrap.reading.logs import LogReader
from extrap.records.codec import encode

from .monitors import FakeMonitor


class Script:
    """A log that gains the given losses look by look; running out of them is an error."""

    def __init__(self, *looks):
        self._looks = list(looks)

    def poll(self):
        look = self._looks.pop(0)
        if isinstance(look, DataError):
            raise look
        return look


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    found: list[float] = []
    monkeypatch.setattr("extrap.monitoring.time.sleep", found.append)
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


def test_once_reads_what_there_is(pauses):
    readings = list(watch(FakeMonitor(every=2), Script(steps(10, 20, 30)), once=True))
    assert [reading.step for reading in readings] == [20, 30]
    assert list(watch(FakeMonitor(), Script([]), once=True)) == []
    assert pauses == []


def test_once_refuses_a_log_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"absent\.csv"):
        list(watch(FakeMonitor(), LogReader(tmp_path / "absent.csv"), once=True))


def test_log_without_a_loss_is_waited_for_once_and_one_that_breaks_is_not(caplog):
    reason = DataError("log.jsonl has no column 'los'; did you mean 'loss'?")
    with pytest.raises(IndexError):
        list(watch(FakeMonitor(), Script(reason, reason, [])))
    (record,) = caplog.records
    assert str(reason) in record.getMessage()
    with pytest.raises(DataError, match="'los'"):
        list(watch(FakeMonitor(), Script(reason), once=True))
    with pytest.raises(DataError, match="'los'"):
        list(watch(FakeMonitor(), Script(steps(10), reason)))


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
