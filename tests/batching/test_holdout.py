from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from extrap.batching import critical_batch, held_out_batches
from extrap.errors import DataError

BATCHES = 2.0 ** np.arange(6, 15)


def group(noise: float = 0.0, replicates: int = 1, seed: int = 0):
    batch = np.repeat(BATCHES, replicates)
    rng = np.random.default_rng(seed)
    steps = 1000 * (1 + 2000 / batch) * np.exp(noise * rng.normal(size=len(batch)))
    return critical_batch(pd.DataFrame({"batch_size": batch, "steps": steps})).groups[0]


def test_an_exact_hyperbola_predicts_what_it_has_not_seen():
    for together in (False, True):
        held = held_out_batches(group(), batches=(256, 1024, 16384), together=together)
        assert [h.batch for h in held] == [256, 1024, 16384]
        assert [h.error for h in held] == pytest.approx([0, 0, 0], abs=1e-6)
        assert [h.is_beyond for h in held] == [False, False, True]


def test_a_batch_left_out_has_no_say():
    first = group(0.03)
    points = list(first.points)
    table = pd.DataFrame(
        {
            "batch_size": [p.batch for p in points],
            "steps": [5 * p.steps if p.batch == 1024 else p.steps for p in points],
        }
    )
    second = critical_batch(table).groups[0]
    predicted = [held_out_batches(g, batches=[1024])[0].predicted.value for g in (first, second)]
    assert predicted[0] == pytest.approx(predicted[1], rel=1e-6)


def test_trivial_answer_is_the_line_through_the_neighbours():
    held = {h.batch: h for h in held_out_batches(group())}
    steps = dict(zip(BATCHES, 1000 * (1 + 2000 / BATCHES), strict=True))
    assert held[1024].interpolated == pytest.approx(np.sqrt(steps[512] * steps[2048]))
    assert held[16384].interpolated == pytest.approx(steps[8192] ** 2 / steps[4096])
    assert held[64].interpolated == pytest.approx(steps[128] ** 2 / steps[256])


def test_prediction_interval_is_of_a_mean_of_replicates():
    one, many = (
        held_out_batches(group(0.05, replicates=r), batches=[1024])[0].predicted for r in (1, 9)
    )
    widths = [np.log(part.pi.upper / part.pi.lower) for part in (one, many)]
    assert widths[0] > 1.4 * widths[1]
    assert widths[1] > 1.2 * np.log(many.ci.upper / many.ci.lower)


def test_what_cannot_be_held_out_is_an_error():
    with pytest.raises(DataError, match="only a batch size that reached"):
        held_out_batches(group(), batches=[100])
    with pytest.raises(DataError, match="hold out fewer"):
        held_out_batches(group(), batches=BATCHES[:7], together=True)


@pytest.mark.slow
def test_prediction_intervals_cover_at_their_level():
    inside = [
        h.steps in h.predicted.pi
        for seed in range(100)
        for h in held_out_batches(group(0.03, seed=seed), batches=BATCHES[[0, 4, 8]])
    ]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.033)
