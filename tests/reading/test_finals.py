from __future__ import annotations

import math

import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs
from extrap.reading.finals import final_losses, parse_final

CURVES = pd.DataFrame(
    {
        "run": [0] * 4 + [1] * 4 + [2] * 2,
        "step": [1, 2, 3, 4] * 2 + [1, 2],
        "loss": [4.0, 2.0, 3.0, 2.5, 8.0, 6.0, 5.0, math.nan, 3.0, 2.0],
    }
)


@pytest.mark.parametrize(
    ("rule", "first", "last"),
    [("last", 2.5, 2.0), ("best", 2.0, 2.0), ("tail", 2.5, 2.0), ("tail:0.5", 2.75, 2.0)],
)
def test_rules_take_the_last_the_best_or_the_mean_of_the_tail(
    rule: str, first: float, last: float
) -> None:
    found = final_losses(CURVES, parse_final(rule))
    assert found[0] == first
    assert math.isnan(found[1])  # a run that ends in NaN has diverged by every rule
    assert found[2] == last


def test_order_of_points_is_that_of_steps_and_a_later_row_replaces_a_step() -> None:
    again = pd.DataFrame({"run": [0, 0], "step": [4, 3], "loss": [1.0, 2.0]})
    mixed = pd.concat([CURVES[CURVES["run"] == 0][::-1], again])
    assert final_losses(mixed, parse_final("last"))[0] == 1.0
    assert final_losses(mixed, parse_final("tail:0.5"))[0] == 1.5


@pytest.mark.parametrize("text", ["first", "tail:0", "tail:2", "tail:x", "best:0.1", "tail:nan"])
def test_a_rule_that_is_none_is_explained(text: str) -> None:
    with pytest.raises(ValueError, match="last, best, tail or tail:SHARE"):
        parse_final(text)


def test_losses_of_a_table_are_replaced_by_those_of_its_curves() -> None:
    table = pd.DataFrame({"width": [16, 32, 64, 128], "loss": [9.0, 9.0, 9.0, 9.0]})
    runs = read_runs(table, size="width", curves=CURVES, final="best")
    assert runs.to_frame()["status"].tolist() == ["complete", "diverged", "complete", "failed"]
    assert runs.to_frame()["loss"].tolist()[::2] == [2.0, 2.0]
    assert "the loss of a run is the best of its curve" in runs.notes
    assert "1 run(s) without a curve: left out" in runs.notes
    assert read_runs(table, size="width", curves=CURVES).to_frame()["loss"].eq(9).all()


def test_a_table_without_curves_has_last_losses_only() -> None:
    with pytest.raises(DataError, match="hand in --curves, or leave --final out"):
        read_runs(pd.DataFrame({"width": [1], "loss": [2.0]}), size="width", final="tail")


def test_a_tail_is_no_point_longer_than_its_share_says() -> None:
    falling = pd.DataFrame({"run": 0, "step": range(100), "loss": [100.0 - i for i in range(100)]})
    assert final_losses(falling, parse_final("tail:0.07"))[0] == 4.0  # the mean of 1 … 7
    assert final_losses(falling, parse_final("tail:0.071"))[0] == 4.5
