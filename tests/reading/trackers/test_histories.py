from __future__ import annotations

import io
from typing import Any

import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs
from extrap.reading.trackers.histories import is_history


def history() -> pd.DataFrame:
    """Histories of two runs, one below the other, as `run.history()` gives them."""
    return pd.DataFrame(
        {
            "run_id": ["a"] * 3 + ["b"] * 3,
            "_step": [0, 1, 2] * 2,
            "width": [8] * 3 + [16] * 3,
            "val_loss": [3.0, 1.0, 2.0, 3.5, None, 1.5],
        }
    )


@pytest.mark.parametrize(("final", "losses"), [("last", [2.0, 1.5]), ("best", [1.0, 1.5])])
def test_a_table_with_a_row_a_step_is_one_row_a_run(final: str, losses: list[float]) -> None:
    for source in (history(), io.StringIO(history().to_csv(index=False))):
        runs = read_runs(source, size="width", loss="val_loss", final=final)
        assert runs.to_frame()["loss"].tolist() == losses
        assert runs.to_frame()["width"].tolist() == [8.0, 16.0]
        curves = runs.curves()
        assert curves is not None
        assert len(curves) == 5
        assert "the table has a row a step: 2 runs of 6 rows" in runs.notes


@pytest.mark.parametrize(
    "other",
    [
        history().assign(State=["finished", "finished", "crashed"] * 2),
        history().assign(State="finished", Created=list("abcdef")),  # all of one name
        history().assign(seed=[0, 1, 2] * 2),
        history().drop_duplicates("run_id"),
        history().assign(_step=5),
    ],
)
def test_other_tables_have_a_row_a_run(other: pd.DataFrame) -> None:
    runs = read_runs(other.fillna(4.0), size="width", loss="val_loss")
    assert len(runs) == len(other)


def test_rows_of_a_size_that_grows_within_a_run_are_runs() -> None:
    table = history().fillna(4.0).assign(tokens=[1, 2, 3] * 2)
    assert len(read_runs(table, size=("width", "tokens"), loss="val_loss")) == 6
    assert len(read_runs(table, size="width", loss="val_loss")) == 2


def test_lines_of_an_exported_chart_are_runs_whose_names_say_their_settings() -> None:
    lines = [
        '"Step","lr: 0.01, width: 64 - val_loss","lr: 0.01, width: 64 - val_loss__MIN",'
        '"lr: 0.01, width: 64 - val_loss__MAX","net-width128 lr=0.02 - val_loss"',
        "0,3,2.9,3.1,3.2",
        "10,2,1.9,2.1,",
        "20,NaN,1.4,1.6,2.5",
    ]
    runs = read_runs(io.StringIO("\n".join(lines)), size="lr", loss="val_loss").to_frame()
    assert runs["lr"].tolist() == [0.01, 0.02]
    assert runs["status"].tolist() == ["diverged", "complete"]
    assert runs["loss"].tolist()[1] == 2.5


def test_names_shared_by_tuned_values_and_by_conditions_are_of_several_runs() -> None:
    best = history().fillna(4.0).assign(lr=[1, 2, 4] * 2, batch=[1, 2, 4] * 2)
    named: dict[str, Any] = {"size": "width", "loss": "val_loss"}
    assert len(read_runs(best.drop(columns="batch"), **named, tune="lr")) == 6
    shared = best.drop(columns="lr").assign(batch=[1, 2, 4] * 2)
    assert is_history(shared)
    assert not is_history(shared, ["batch"])


@pytest.mark.parametrize(
    "step", ["epoch", "Epoch", "iteration", "iter", "train/global_step", "global_step"]
)
@pytest.mark.parametrize("run", ["run", "experiment", "trial", "Run ID"])
def test_a_history_is_one_whatever_its_step_and_run_are_called(step: str, run: str) -> None:
    table = history().rename(columns={"_step": step, "run_id": run})
    assert read_runs(table, size="width", loss="val_loss").to_frame()["loss"].tolist() == [2, 1.5]


def test_a_state_that_stays_is_that_of_the_run() -> None:
    table = history().assign(state=["finished"] * 3 + ["crashed"] * 3)
    runs = read_runs(table, size="width", loss="val_loss")
    assert runs.to_frame()["status"].tolist() == ["complete", "failed"]
    assert "1 run(s) did not finish (crashed): counted as failed" in runs.notes


def test_of_two_rows_of_one_step_the_later_counts() -> None:
    table = history().iloc[[0, 1, 2, 1, 2, 3, 4, 5]].reset_index(drop=True)
    table.loc[3:4, "val_loss"] = [0.5, 0.75]  # logged again by a run that was begun again
    runs = read_runs(table, size="width", loss="val_loss", final="best")
    assert runs.to_frame()["loss"].tolist() == [0.5, 1.5]
    last = read_runs(table, size="width", loss="val_loss")
    assert last.to_frame()["loss"].tolist() == [0.75, 1.5]


def test_rows_of_one_step_may_hold_other_metrics() -> None:
    whole = history().dropna()
    parts = [whole.assign(train_loss=""), whole.assign(train_loss=9.0, val_loss="")]
    lines = pd.concat(parts).sort_values(["run_id", "_step"]).to_csv(index=False)
    runs = read_runs(io.StringIO(lines), size="width", loss="val_loss").to_frame()
    assert runs["loss"].tolist() == [2.0, 1.5]
    assert runs["train_loss"].tolist() == [9.0, 9.0]


@pytest.mark.parametrize("seed", [{}, {"seed": 0}])
def test_steps_of_no_named_run_are_no_replicates(seed: dict[str, int]) -> None:
    table = history().drop(columns="run_id").fillna(4.0).assign(**seed)
    with pytest.raises(DataError, match=r"rows with equal .*'width'.* differ in '_step'"):
        read_runs(table, size="width", loss="val_loss")
    best = table.drop(columns="seed", errors="ignore").assign(_step=[7, 9, 4, 3, 9, 8])
    for runs in (best, table.assign(seed=[0, 1, 2] * 2), table.assign(lr=[1, 2, 4] * 2)):
        assert len(read_runs(runs, size="width", loss="val_loss")) == 6
