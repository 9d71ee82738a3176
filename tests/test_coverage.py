"""How often the intervals hold, where the truth is known.

Each replicate draws a sweep of five widths, eight rates and three seeds from a power law with a
floor, forecasts at four times the largest width, and asks whether a new run's loss and the optimal
rate there fall inside their 95 % prediction intervals. Of 400 replicates a share of .95 has a
standard error of .011: below .95 − .033 the interval does not hold what it promises. Above it the
loss interval is wide on purpose, because it allows for a law that is not quite the right one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

import extrap

N = 400
LEAST = 0.95 - 0.033


def covered(
    sweep_table: Callable[..., pd.DataFrame], *, widths: tuple[float, ...], wander: float
) -> tuple[float, float]:
    """Shares of held (loss, lr) intervals; optima wander about their law, in octaves."""
    held, target = [], 4 * widths[-1]
    for replicate in range(N):
        rng = np.random.default_rng([1, replicate])
        tables = []
        for i, width in enumerate(widths):
            table = sweep_table(widths=(width,), noise=0.003, seed=1000 * replicate + i)
            tables.append(table.assign(lr=table["lr"] * 2 ** (wander * rng.normal())))
        made = extrap.forecast(extrap.read_runs(pd.concat(tables), size="width", tune="lr"))
        point = made.at(width=target)
        loss = (1.5 + 2 * (target / 16) ** -0.4) * np.exp(0.003 * rng.normal())
        lr = 0.01 * (target / 16) ** -0.4 * 2 ** (wander * rng.normal())
        held.append((loss in point.loss_pi, lr in point.tuned["lr"].pi))
    losses, rates = np.mean(held, axis=0)
    return float(losses), float(rates)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("wander", [0.0, 0.15])
@pytest.mark.parametrize("n_widths", [5, 6])
def test_prediction_intervals_hold_as_often_as_they_say(
    sweep_table: Callable[..., pd.DataFrame], n_widths: int, wander: float
) -> None:
    widths = (16.0, 32.0, 64.0, 128.0, 192.0, 256.0)[:n_widths]
    losses, rates = covered(sweep_table, widths=widths, wander=wander)
    print(f"{n_widths} widths, wander {wander}: loss {losses:.3f}, lr {rates:.3f}")  # noqa: T201
    assert losses >= LEAST
    assert rates >= LEAST
