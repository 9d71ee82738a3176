import math

import pandas as pd
import pytest

from extrap.reading.losses import final_losses, parse_final, summary_notes

CURVES = pd.DataFrame(
    {
        "run": [0] * 4 + [1] * 4 + [2] * 2,
        "step": [1, 2, 3, 4] * 2 + [1, 2],
        "loss": [4.0, 2.0, 3.0, 2.5, 8.0, 6.0, 5.0, math.nan, 3.0, 2.0],
    }
)
FALLING = pd.DataFrame({"run": 0, "step": range(100), "loss": [100.0 - i for i in range(100)]})


@pytest.mark.parametrize(
    ("rule", "first", "last", "falling"),
    [
        ("last", 2.5, 2.0, 1.0),
        ("best", 2.0, 2.0, 1.0),
        ("tail", 2.5, 2.0, 3.0),  # of 100 points the mean of 1 … 5
        ("tail:0.5", 2.75, 2.0, 25.5),
        ("tail:0.07", 2.5, 2.0, 4.0),  # 7.000…01 points are 7
        ("tail:0.071", 2.5, 2.0, 4.5),
        ("tail:1", 2.875, 2.5, 50.5),
    ],
)
def test_rules_take_the_last_the_best_or_the_mean_of_the_tail(rule, first, last, falling):
    found = final_losses(CURVES, parse_final(rule))
    assert [found[0], found[2]] == [first, last]
    assert math.isnan(found[1])  # a run that ends in NaN has diverged by every rule
    assert final_losses(FALLING, parse_final(rule))[0] == falling


def test_order_of_points_is_that_of_steps_and_a_later_row_replaces_a_step():
    again = pd.DataFrame({"run": [0, 0], "step": [4, 3], "loss": [1.0, 2.0]})
    mixed = pd.concat([CURVES[CURVES["run"] == 0][::-1], again])
    assert final_losses(mixed, parse_final("last"))[0] == 1.0
    assert final_losses(mixed, parse_final("tail:0.5"))[0] == 1.5


def test_a_metric_that_is_an_extreme_of_a_curve_is_noted():
    assert [
        len(summary_notes(name)) for name in ("a.min", "a.max", "a.best", "a", "min", "a.b")
    ] == [*(1, 1, 1, 0, 0, 0)]
