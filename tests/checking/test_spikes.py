import numpy as np
import pytest

from extrap.checking.spikes import climbs_steadily, find_spike

STEP = np.arange(20.0, 1001.0, 20.0)
LOSS = 1.5 + 3 * STEP**-0.3


def test_spike_is_found_where_it_peaks_and_recovers():
    loss = LOSS.copy()
    loss[30:33] *= (1.1, 1.3, 1.05)
    spike = find_spike(STEP, loss)
    assert spike.step == STEP[31]
    assert spike.height == pytest.approx(np.log(1.3), abs=0.02)
    assert spike.before == pytest.approx(np.log(LOSS[28]), abs=0.01)
    assert spike.fraction == pytest.approx(STEP[28] / 1000)


def ripple(n, *, step, peak, at):
    """Losses whose logarithm goes up, on and down by a step, and once to a peak."""
    logs = np.where(np.arange(n) % 3, step, 0.0)
    logs[at] = np.median(logs[at - 5 : at]) + peak
    return np.exp(logs)


@pytest.mark.parametrize(
    ("n", "step", "peak", "is_spike"),
    [
        (50, 0.0, 0.0201, True),  # 2 % at least
        (50, 0.0, 0.0199, False),
        (50, 0.004, 0.0594, True),  # ten of the steps' median deviation, .004 · 1.4826
        (50, 0.004, 0.0592, False),
        (11, 0.0, 0.1, True),
        (10, 0.0, 0.1, False),
    ],
)
def test_spike_is_two_percent_and_ten_deviations_high(n, step, peak, is_spike):
    loss = ripple(n, step=step, peak=peak, at=7)
    found = find_spike(np.arange(1.0, n + 1), loss, length=100.0)
    assert (found is not None) == is_spike
    if found and not step:
        assert (found.step, found.fraction) == (8, pytest.approx(0.05))
        assert found.height == pytest.approx(peak)
        assert found.before == pytest.approx(np.median(np.log(loss[2:7])), abs=1e-12)


def test_first_loss_that_is_none_has_what_was_before_it():
    loss = np.exp(np.arange(12.0))
    loss[8:] = np.nan
    found = find_spike(10 * np.arange(1.0, 13), loss)
    assert (found.step, found.before, found.fraction) == (90, 5.0, 60 / 120)
    loss[0] = -1.0
    found = find_spike(10 * np.arange(1.0, 13), loss)
    assert (found.step, found.fraction) == (10, 10 / 120)
    assert np.isnan(found.before)


@pytest.mark.parametrize(
    ("n", "rise", "climbs"), [(8, 0.0501, True), (7, 0.0501, False), (8, 0.0499, False)]
)
def test_climb_takes_eight_points_and_five_percent(n, rise, climbs):
    loss = np.exp(np.append([2.0, 1.0], np.linspace(0, rise, n)))
    assert climbs_steadily(np.arange(n + 2), loss) == climbs
    jumps = np.append(np.zeros(7), [0.06])
    assert not climbs_steadily(np.arange(8), np.exp(jumps))  # correlation .58
    assert not climbs_steadily(np.array([]), np.array([]))
    assert not climbs_steadily(np.arange(10), np.append(0.0, np.linspace(1, 2, 9)))


def test_rise_during_the_first_points_is_no_spike():
    loss = LOSS.copy()
    loss[1] *= 2
    assert find_spike(STEP, loss) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0, -1.0])
def test_loss_that_is_none_is_a_spike_without_end(bad):
    loss = LOSS.copy()
    loss[10] = bad
    assert find_spike(STEP, loss).step == STEP[10]
    assert np.isinf(find_spike(STEP, loss).height)


def test_order_of_points_does_not_matter():
    loss = LOSS.copy()
    loss[30] *= 1.3
    order = np.random.default_rng(1).permutation(len(STEP))
    assert find_spike(STEP[order], loss[order]) == find_spike(STEP, loss)
