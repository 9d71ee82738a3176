import math

import numpy as np
import pandas as pd
import pytest

from extrap.batching import critical_batch, held_out_batches
from extrap.errors import DataError

BATCHES = 2.0 ** np.arange(6, 15)
STEPS = dict(zip(BATCHES, 1000 * (1 + 2000 / BATCHES), strict=True))


def rows(noise=0.0, replicates=1, seed=0):
    batch = np.repeat(BATCHES, replicates)
    scatter = np.exp(noise * np.random.default_rng(seed).normal(size=len(batch)))
    return pd.DataFrame({"batch_size": batch, "steps": 1000 * (1 + 2000 / batch) * scatter})


def group(noise=0.0, replicates=1, seed=0):
    return critical_batch(rows(noise, replicates, seed)).groups[0]


@pytest.mark.parametrize("replicates", [1, 3])
def test_forecast_is_that_of_a_table_without_the_batch(replicates):
    """And its interval for a mean of r measurements: sd / √r in place of sd."""
    data = rows(0.03, replicates, seed=4)
    (held,) = held_out_batches(critical_batch(data).groups[0], batches=[1024])
    alone = critical_batch(data[data["batch_size"] != 1024]).groups[0]
    there = alone.steps_at(1024)
    assert held.predicted.value == pytest.approx(there.value, rel=1e-8)
    assert tuple(held.predicted.ci) == pytest.approx(tuple(there.ci), rel=1e-8)
    centre, new = math.log(there.value), alone.quantile * alone.log_sd / math.sqrt(replicates)
    low = centre - math.hypot(centre - math.log(there.ci.lower), new)
    high = centre + math.hypot(math.log(there.ci.upper) - centre, new)
    assert alone.lack_of_fit_p is None or alone.lack_of_fit_p > 0.25  # all are fitted at once
    assert tuple(held.predicted.pi) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-6)
    logs = np.log(data.loc[data["batch_size"] == 1024, "steps"])
    assert held.steps == pytest.approx(math.exp(logs.mean()))
    assert held.error == pytest.approx(held.steps / there.value - 1)
    assert held.interpolation_error == pytest.approx(held.steps / held.interpolated - 1)


def test_trivial_answer_is_the_line_through_the_neighbours():
    held = {h.batch: h for h in held_out_batches(group())}
    assert [held[b].is_beyond for b in (256, 1024, 16384)] == [False, False, True]
    assert held[1024].interpolated == pytest.approx(np.sqrt(STEPS[512] * STEPS[2048]))
    assert held[16384].interpolated == pytest.approx(STEPS[8192] ** 2 / STEPS[4096])
    assert held[64].interpolated == pytest.approx(STEPS[128] ** 2 / STEPS[256])


def test_what_cannot_be_held_out_is_an_error():
    with pytest.raises(DataError, match="got 100"):
        held_out_batches(group(), batches=[100])
    with pytest.raises(DataError, match="got 2 batch sizes"):
        held_out_batches(group(), batches=BATCHES[:7], together=True)
    assert len(held_out_batches(group(0.01), batches=BATCHES[:6], together=True)) == 6


@pytest.mark.slow
def test_prediction_intervals_cover_at_their_level():
    inside = [
        h.steps in h.predicted.pi
        for seed in range(100)
        for h in held_out_batches(group(0.03, seed=seed), batches=BATCHES[[0, 4, 8]])
    ]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.033)
