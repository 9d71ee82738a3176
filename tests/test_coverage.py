"""How often the intervals hold, where the truth is known.

Each replicate draws a sweep of five or six widths, eight rates and three seeds from a power law
with a floor, forecasts at four times the largest width, and asks whether a new run's loss and the
optimal rate there fall inside their prediction intervals. The optima wander about their law.

Of 200 replicates a share of .95 has a standard error of .015, one of .5 of .035. At 95 % the
rate's interval must hold at least .95 less .046. Intervals of 50 and 30 % must hold at least that
less three standard errors, and no more than stated beside each case: they are wide on purpose,
that of the rate because its law may bend and for the coarseness of the grid, that of the loss
because the widest of several sums of variances counts.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import extrap

N = 200
WIDTHS = (16.0, 32.0, 64.0, 128.0, 192.0, 256.0)


def tuned_run(made, width, level):
    """The interval of a run at the best values, as those of these runs are."""
    return made.predict_loss({"width": width}).interval(level, new_run=True)


def covered(sweep_table, *, widths, wander):
    """Shares of intervals that hold; optima wander about their law, in octaves."""
    held, target = [], 4 * widths[-1]
    for replicate in range(N):
        rng = np.random.default_rng([1, replicate])
        tables = []
        for i, width in enumerate(widths):
            table = sweep_table(widths=(width,), noise=0.003, seed=1000 * replicate + i)
            tables.append(table.assign(lr=table["lr"] * 2 ** (wander * rng.normal())))
        made = extrap.forecast(extrap.read_runs(pd.concat(tables), size="width", tune="lr"))
        loss = (1.5 + 2 * (target / 16) ** -0.4) * np.exp(0.003 * rng.normal())
        lr = 0.01 * (target / 16) ** -0.4 * 2 ** (wander * rng.normal())
        half = replace(made, level=0.5, band="family").at(width=target)
        held.append(
            {
                "lr at .95": lr in made.at(width=target).tuned["lr"].pi,
                "lr at .5": lr in half.tuned["lr"].pi,
                "loss at .5": loss in tuned_run(replace(made, band="family"), target, 0.5),
                "loss at .3": loss in tuned_run(made, target, 0.3),
            }
        )
    return pd.DataFrame(held).mean().to_dict()


@pytest.mark.slow
@pytest.mark.parametrize(("n_widths", "wander", "rate"), [(5, 0.15, 0.85), (6, 0.0, 1.0)])
def test_prediction_intervals_hold_as_often_as_they_say(sweep_table, n_widths, wander, rate):
    found = covered(sweep_table, widths=WIDTHS[:n_widths], wander=wander)
    print(n_widths, wander, found)  # noqa: T201
    assert found["lr at .95"] >= 0.95 - 0.046
    assert 0.5 - 0.106 <= found["lr at .5"] <= rate
    assert 0.5 - 0.106 <= found["loss at .5"] <= 0.9
    assert 0.3 - 0.097 <= found["loss at .3"] <= 0.65
