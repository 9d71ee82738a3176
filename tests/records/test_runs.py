from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.records import Runs, condition_text


def three_runs(**columns: object) -> Runs:
    frame = pd.DataFrame(
        {"width": [8.0, 16.0, 32.0], "lr": [0.1, 0.2, 0.1], "loss": [3.0, 2.0, 1.0]}
    )
    return Runs.from_frame(frame.assign(**columns), sizes=["width"], tuned=["lr"])


def test_runs_hand_out_copies_only() -> None:
    runs = three_runs()
    frame = runs.to_frame()
    frame.loc[0, "loss"] = 99.0
    assert runs.to_frame()["loss"].tolist() == [3.0, 2.0, 1.0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        runs.sizes = ("depth",)  # type: ignore[misc]


def test_status_and_stage_are_derived_where_they_are_missing() -> None:
    frame = three_runs(loss=[3.0, np.nan, np.inf]).to_frame()
    assert frame["status"].tolist() == ["complete", "diverged", "diverged"]
    assert frame["loss"].isna().tolist() == [False, True, True]
    assert frame["stage"].tolist() == ["tune"] * 3


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"width": [8.0, 0.0, 1.0]}, "width must be positive and finite, got 0 in row 2"),
        ({"lr": [0.1, 0.1, -1.0]}, "lr must be positive and finite, got -1 in row 3"),
        ({"loss": [1.0, -2.0, 1.0]}, "losses must be positive .* got -2 in row 2"),
        ({"status": "done"}, "status must be one of .* got 'done'"),
        ({"stage": "train"}, "stage must be one of tune, check; got 'train'"),
        ({"loss": [1.0, np.nan, 1.0], "status": "complete"}, "a complete run has a finite loss"),
    ],
)
def test_impossible_values_are_refused(columns: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        three_runs(**columns)


def test_data_hash_ignores_row_order_and_costs_but_not_losses() -> None:
    runs = three_runs()
    turned = Runs.from_frame(runs.to_frame()[::-1], sizes=["width"], tuned=["lr"])
    assert turned.data_hash() == runs.data_hash()
    assert three_runs(wall_s=[1.0, 2.0, 3.0], seed=[0, 1, 2]).data_hash() == runs.data_hash()
    assert three_runs(loss=[3.0, 2.0, 1.1]).data_hash() != runs.data_hash()


def test_counts_hold_every_status_and_the_replicates() -> None:
    runs = three_runs(
        seed=0, width=8.0, lr=0.1, status=["complete", "failed", "pruned"], loss=[1.0, 2.0, 3.0]
    )
    assert runs.counts() == {
        "runs": 3,
        "complete": 1,
        "diverged": 0,
        "pruned": 1,
        "failed": 1,
        "replicates": 2,
    }


def test_curves_follow_their_rows_into_a_stage() -> None:
    frame = three_runs(stage=["check", "tune", "tune"]).to_frame()
    curves = pd.DataFrame(
        {"run": [0, 1, 2, 2], "step": [1, 1, 1, 2], "loss": [9.0, 8.0, 7.0, 6.0]}
    )
    runs = Runs.from_frame(frame, sizes=["width"], tuned=["lr"], curves=curves)
    kept = runs.of_stage("tune").curves()
    assert kept is not None
    assert kept["run"].tolist() == [0, 1, 1]
    assert kept["loss"].tolist() == [8.0, 7.0, 6.0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0.10", "0.1"),
        (1, "1"),
        (1.0, "1"),
        (" adam ", "adam"),
        ("", "empty"),
        (None, "empty"),
        (float("nan"), "empty"),
        (pd.NA, "empty"),
    ],
)
def test_equal_conditions_read_the_same(value: object, text: str) -> None:
    assert condition_text(value) == text
