from __future__ import annotations

import numpy as np
import pytest

from extrap.checking import find_spike
from extrap.checking.spikes import climbs_steadily

STEP = np.arange(20.0, 1001.0, 20.0)
LOSS = 1.5 + 3 * STEP**-0.3


def test_smooth_curve_has_no_spike():
    assert find_spike(STEP, LOSS) is None


def test_spike_is_found_where_it_peaks_and_recovers():
    loss = LOSS.copy()
    loss[30:33] *= (1.1, 1.3, 1.05)
    spike = find_spike(STEP, loss)
    assert spike.step == STEP[31]
    assert spike.height == pytest.approx(np.log(1.3), abs=0.02)
    assert spike.before == pytest.approx(np.log(LOSS[28]), abs=0.01)
    assert spike.fraction == pytest.approx(STEP[28] / 1000)


def test_curve_that_climbs_steadily_is_told_from_one_that_jumps():
    climbing = np.where(STEP > 300, LOSS[14] * np.exp((STEP - 300) / 600), LOSS)
    assert climbs_steadily(STEP, climbing)
    assert not climbs_steadily(STEP, LOSS)
    assert not climbs_steadily(STEP, np.where(STEP > 700, 2 * LOSS, LOSS))
    assert not climbs_steadily(STEP, np.where(STEP > 900, np.nan, climbing))


def test_rough_curve_has_no_spike():
    rough = LOSS * np.exp(0.03 * np.random.default_rng(0).normal(size=len(STEP)))
    assert find_spike(STEP, rough) is None
    assert find_spike(STEP, LOSS * np.where(STEP == 600, 1.09, 1.0)) is not None


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


def test_few_points_say_nothing():
    assert find_spike(STEP[:8], LOSS[:8]) is None


def test_order_of_points_does_not_matter():
    loss = LOSS.copy()
    loss[30] *= 1.3
    order = np.random.default_rng(1).permutation(len(STEP))
    assert find_spike(STEP[order], loss[order]) == find_spike(STEP, loss)
