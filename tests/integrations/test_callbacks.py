"""What the callbacks of every library do alike."""

import pytest

from ..monitors import FakeMonitor

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers.*"),  # on many cores
    pytest.mark.filterwarnings("ignore:GPU available but not used.*"),
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated.*"),
]


@pytest.mark.parametrize(("stops", "n_steps"), [(False, 12), (True, 6)])
def test_alarm_is_logged_once_and_stops_the_training_on_request(
    integration, warnings_of, stops, n_steps
):
    callback = integration.module.MonitorCallback(FakeMonitor(), stop=stops)
    assert integration.train(callback, breaks_at=5) == n_steps
    assert warnings_of() == ["Stop the run."]


def test_broken_monitor_is_logged_once_and_ends_the_training_on_request(
    integration, warnings_of, caplog
):
    monitor = FakeMonitor(fails_at=4)
    assert integration.train(integration.module.MonitorCallback(monitor, stop=True)) == 12
    heard = {"huggingface": [2], "lightning": [1, 2, 3]}  # every logged loss, and every loss
    assert [step for step, _ in monitor.heard] == heard[integration.name]
    assert len(warnings_of()) == 1
    assert "monitor is broken" in caplog.text
    broken = integration.module.MonitorCallback(FakeMonitor(fails_at=4), raises=True)
    with pytest.raises(ZeroDivisionError):
        integration.train(broken)


def test_metric_that_is_never_logged_is_said(integration, warnings_of):
    monitor = FakeMonitor()
    integration.train(integration.module.MonitorCallback(monitor, metric="nll"))
    assert monitor.heard == []
    assert ["'nll'" in said for said in warnings_of()] == [True]


def test_batch_that_is_not_split_is_said_once_and_ends_the_training_on_request(
    integration, warnings_of
):
    assert integration.train(integration.module.NoiseCallback(every=1)) == 12
    assert ["split the batch" in said for said in warnings_of()] == [True]
    with pytest.raises(ValueError, match="split the batch"):
        integration.train(integration.module.NoiseCallback(raises=True))
