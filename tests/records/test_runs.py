import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from extrap.records import Runs
from extrap.records.runs import FAR_TIMES_QUARTILE, MOST_NAMED, loss_ceiling


def three_runs(**columns):
    plain = {"width": [8.0, 16.0, 32.0], "lr": [0.1, 0.2, 0.1], "loss": [3.0, 2.0, 1.0]}
    frame = pd.DataFrame(plain).assign(**columns)
    return Runs.from_frame(frame, sizes=["width"], tuned=["lr"])


def test_runs_hand_out_copies_only():
    runs = three_runs()
    frame = runs.to_frame()
    frame.loc[0, "loss"] = 99.0
    assert runs.to_frame()["loss"].tolist() == [3.0, 2.0, 1.0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        runs.sizes = ("depth",)


def test_data_hash_ignores_row_order_and_costs_but_not_losses():
    runs = three_runs()
    turned = Runs.from_frame(runs.to_frame()[::-1], sizes=["width"], tuned=["lr"])
    assert turned.data_hash() == runs.data_hash()
    assert turned.in_order().to_frame()["width"].tolist() == [8.0, 16.0, 32.0]
    assert three_runs(wall_s=[1.0, 2.0, 3.0], seed=[0, 1, 2]).data_hash() == runs.data_hash()
    assert three_runs(loss=[3.0, 2.0, 1.1]).data_hash() != runs.data_hash()
    assert three_runs(loss_se=0.1).data_hash() != runs.data_hash()
    assert three_runs(epochs=1).canonical(also=["epochs"]).columns.tolist() == [
        *("width", "lr", "seed", "status", "loss", "epochs")
    ]


def test_counts_hold_every_status_and_the_replicates_and_parts_are_selected():
    states = ["complete", "failed", "pruned"]
    same = {"seed": 0, "width": 8.0, "lr": 0.1}
    runs = three_runs(**same, status=states, loss=[1.0, 2.0, 3.0])
    counted = {"complete": 1, "diverged": 0, "pruned": 1, "failed": 1}
    assert runs.counts() == {"runs": 3, **counted, "replicates": 2}
    assert runs.complete().to_frame()["loss"].tolist() == [1.0]
    again = three_runs(**same, loss=[2.0, 2.0, 3.0])
    assert again.without_copies().to_frame()["loss"].tolist() == [2.0, 3.0]


def test_curves_follow_their_rows_into_a_stage():
    frame = three_runs(stage=["check", "tune", "tune"]).to_frame()
    curves = pd.DataFrame({"run": [0, 1, 2, 2], "step": [1, 1, 1, 2], "loss": [9.0, 8, 7, 6]})
    runs = Runs.from_frame(frame, sizes=["width"], tuned=["lr"], curves=curves)
    kept = runs.of_stage("tune").curves()
    assert kept["run"].tolist() == [0, 1, 1]
    assert kept["loss"].tolist() == [8.0, 7.0, 6.0]


def status_of(losses, stage="tune"):
    frame = pd.DataFrame({"width": 8.0, "lr": 0.1, "seed": range(len(losses)), "loss": losses})
    return Runs.from_frame(frame.assign(stage=stage), sizes=["width"], tuned=["lr"])


SOUND = [2.0, 2.1, 2.4, 3.0, 40.0, 200.0]


@pytest.mark.parametrize("unit", [1e-90, 1e-6, 1.0, 1e30, 1e90])
@pytest.mark.parametrize("stage", ["tune", "check"])
def test_a_loss_far_above_the_others_is_that_of_a_diverged_run_in_any_unit(unit, stage):
    for far in ([4.9e298], [3e8 * unit], [1e12 * unit] * 3, [1e30 * unit, 1e250] * 6):
        losses = [*(unit * loss for loss in SOUND), *far]
        runs = status_of(losses, stage)
        assert list(runs.to_frame()["status"]) == ["complete"] * 6 + ["diverged"] * len(far)
        assert runs.to_frame()["loss"].isna().sum() == len(far)
        turned = status_of(losses[::-1], stage)
        assert turned.to_frame()["status"].tolist() == runs.to_frame()["status"].tolist()[::-1]
        (note,) = runs.notes
        assert f"{len(far)} run(s)" in note
        assert f"lr=0.1, seed=6 ({far[0]:.3g})" in note
        assert ("; and" in note) == (len(far) > MOST_NAMED)
        again = Runs.from_frame(runs.to_frame(), sizes=["width"], tuned=["lr"])
        assert (again.data_hash(), again.notes) == (runs.data_hash(), ())


@pytest.mark.parametrize(
    "losses",
    [
        np.geomspace(1e-6, 1, 7),  # of a regression without noise
        [1e-6, 1e-6, 1e-6, 1.0, 90.0],  # and a mistuned one
        [1.0, 100.0],
        [1e120, 3e120],
        [1e-120, 3e-120],
    ],
)
def test_losses_spread_over_decades_are_those_of_complete_runs(losses):
    runs = status_of(list(losses))
    assert runs.to_frame()["status"].eq("complete").all()
    assert runs.notes == ()


def test_runs_that_blew_up_do_not_set_the_scale():
    assert loss_ceiling([2.0, 2.0, 3.0, *[1e200] * 9]) == 2.0 * FAR_TIMES_QUARTILE
    assert loss_ceiling([]) == math.inf
    one, other = status_of([1e298], "check"), status_of(SOUND)
    assert list(one.beside(other).to_frame()["status"]) == ["diverged"]
    assert list(other.beside(other).to_frame()["status"]) == ["complete"] * 6
