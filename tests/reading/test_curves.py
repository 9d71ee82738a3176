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


def read(table=TABLE, points=POINTS, **more):
    return read_runs(table, size="width", tune="lr", curves=points, **more).curves()


def test_curves_belong_to_the_runs_they_name(tmp_path):
    whole = {"run": [1, 1, 0], "step": [1, 2, 1], "loss": [4.0, 2.5, 3.0]}
    assert read().to_dict("list") == whole
    POINTS.to_csv(tmp_path / "curves.csv", index=False)
    assert read(points=tmp_path / "curves.csv").to_dict("list") == whole
    points = POINTS.astype(object)
    points.loc[1, "loss"] = "nan"
    assert math.isnan(read(points=points)["loss"].iloc[1])


@pytest.mark.parametrize(
    ("table", "points", "words"),
    [
        (TABLE, POINTS.rename(columns={"step": "steps"}), "did you mean 'steps'"),
        (TABLE, POINTS.assign(step=[1, "x", 1, 1]), "got 'x' in row 2"),
        (TABLE, POINTS.assign(run="q"), "got 'q'"),
        (TABLE.assign(run="a"), POINTS, "'a' occurs twice"),
        (TABLE, POINTS[:0], "got no row"),
    ],
)
def test_curves_that_cannot_be_read_are_refused(table, points, words):
    with pytest.raises(DataError, match=words):
        read(table, points)
    with pytest.raises(ValueError, match="leave curves out"):
        read(read_runs(TABLE, size="width"), points)
