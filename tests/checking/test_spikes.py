from __future__ import annotations

import numpy as np
import pytest

from extrap.checking import find_spike

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
    assert spike.lasting == 0


def test_curve_that_stays_up_has_a_lasting_spike():
    loss = np.where(STEP > 700, 1.2 * LOSS, LOSS)
    assert find_spike(STEP, loss).lasting == pytest.approx(np.log(1.2), abs=0.03)


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
