from __future__ import annotations

import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs


def of(values: list[float | None], **more: object) -> pd.DataFrame:
    return pd.DataFrame({"width": [2.0**i for i in range(len(values))], "acc": values, **more})


def test_a_share_becomes_what_is_missing_of_it_and_says_so() -> None:
    curves = pd.DataFrame({"run": [0, 0], "step": [1, 2], "loss": [0.25, 0.5]})
    runs = read_runs(of([0.5, 0.75, None]), size="width", maximise="acc", curves=curves)
    assert runs.to_frame()["loss"].tolist()[:2] == [0.5, 0.25]
    assert "acc is maximised: the loss is 1 − acc" in runs.notes
    found = runs.curves()
    assert found is not None
    assert found["loss"].tolist() == [0.75, 0.5]


def test_a_log_likelihood_becomes_its_negative() -> None:
    runs = read_runs(of([-3.0, -2.5]), size="width", loss="acc", maximise="acc")
    assert runs.to_frame()["loss"].tolist() == [3.0, 2.5]


def test_the_best_of_a_curve_is_taken_before_it_is_turned() -> None:
    curves = pd.DataFrame({"run": [0, 0], "step": [1, 2], "loss": [0.75, 0.5]})
    runs = read_runs(of([0.5]), size="width", maximise="acc", curves=curves, final="best")
    assert runs.to_frame()["loss"].tolist() == [0.25]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([76.3, 80.0], 'got acc 76.3; say what its loss is, e.g. --let "error = 1'),
        ([0.5, -0.1], "got acc -0.1"),
        ([0.5, 1.0], "got acc 1 in row 2; leave saturated runs out"),
    ],
)
def test_what_has_no_loss_we_could_know_says_how_to_write_one(
    values: list[float], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_runs(of(values), size="width", loss="acc", maximise="acc")


def test_a_percentage_is_read_by_formula() -> None:
    runs = read_runs(of([75.0]), size="width", let="error = 1 - acc / 100", loss="error")
    assert runs.to_frame()["loss"].tolist() == [0.25]


def test_other_metrics_that_are_maximised_leave_the_loss_alone_but_must_exist() -> None:
    table = of([0.5, 0.75], loss=[2.0, 1.0])
    runs = read_runs(table, size="width", loss="loss", maximise=["acc"])
    assert runs.to_frame()["loss"].tolist() == [2.0, 1.0]
    with pytest.raises(DataError, match=r"no column 'ac'; did you mean 'acc'\? write --maximise"):
        read_runs(table, size="width", loss="loss", maximise=["ac"])
