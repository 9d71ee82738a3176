from __future__ import annotations

import math

import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs

TABLE = pd.DataFrame(
    {"run": ["b", "a", "c"], "width": [16, 32, 64], "lr": 0.01, "loss": [3.0, 2.5, 2.2]}
)
POINTS = pd.DataFrame(
    {"run": ["a", "a", "b", "z"], "step": [1, 2, 1, 1], "loss": [4.0, 2.5, 3.0, 9.0]}
)


def read(table: pd.DataFrame = TABLE, points: object = POINTS, **more):
    return read_runs(table, size="width", tune="lr", curves=points, **more)


def test_curves_belong_to_the_runs_they_name():
    curves = read().curves()
    assert curves.to_dict("list") == {"run": [1, 1, 0], "step": [1, 2, 1], "loss": [4.0, 2.5, 3.0]}


def test_without_a_run_column_rows_count_from_zero():
    table, points = TABLE.drop(columns="run"), POINTS.assign(run=["2", 2, 2.0, 7])
    assert set(read(table, points).curves()["run"]) == {2}


def test_curves_follow_their_runs_when_rows_are_left_out():
    table = TABLE.assign(stage=["check", "tune", "check"])
    assert set(read(table).curves()["run"]) == {0}
    assert read(table).curves()["loss"].tolist() == [4.0, 2.5]


def test_curves_are_read_from_a_file(tmp_path):
    POINTS.to_csv(tmp_path / "curves.csv", index=False)
    assert len(read(points=tmp_path / "curves.csv").curves()) == 3


def test_loss_that_is_no_number_stays_in_the_curve():
    points = POINTS.astype(object)
    points.loc[1, "loss"] = "nan"
    assert math.isnan(read(points=points).curves()["loss"].iloc[1])


@pytest.mark.parametrize(
    ("table", "points", "message"),
    [
        (TABLE, POINTS.rename(columns={"step": "steps"}), "did you mean 'steps'"),
        (
            TABLE,
            POINTS.assign(step=["x", 2, 1, 1]),
            "steps of curves are numbers, got 'x' in row 1",
        ),
        (TABLE, POINTS.assign(run="q"), "belong to none of the runs"),
        (TABLE.assign(run="a"), POINTS, "'a' occurs twice"),
    ],
)
def test_curves_that_cannot_be_read_are_refused(table, points, message):
    with pytest.raises(DataError, match=message):
        read(table, points)


def test_storage_has_its_own_curves():
    with pytest.raises(ValueError, match="leave curves= out"):
        read_runs("sqlite:///x.db", size="width", curves=POINTS)
