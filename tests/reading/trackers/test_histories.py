import io

import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs
from extrap.reading.trackers.histories import read_history


def history():
    """Histories of two runs, one below the other, as `run.history()` gives them."""
    return pd.DataFrame(
        {
            "run_id": ["a"] * 3 + ["b"] * 3,
            "_step": [0, 1, 2] * 2,
            "width": [8] * 3 + [16] * 3,
            "val_loss": [3.0, 1.0, 2.0, 3.5, None, 1.5],
        }
    )


def read(table, **options):
    return read_runs(table, **{"size": "width", "loss": "val_loss", **options})


def losses(table, **options):
    return read(table, **options).to_frame()["loss"].tolist()


@pytest.mark.parametrize(("final", "expected"), [("last", [2.0, 1.5]), ("best", [1.0, 1.5])])
def test_a_table_with_one_row_per_step_becomes_one_row_per_run(final, expected):
    for source in (history(), io.StringIO(history().to_csv(index=False))):
        runs = read(source, final=final)
        frame = runs.to_frame()
        assert (frame["loss"].tolist(), frame["width"].tolist()) == (expected, [8.0, 16.0])
        assert runs.curves()["loss"].tolist() == [3.0, 1.0, 2.0, 3.5, 1.5]
        assert any("2 runs of 6 rows" in note for note in runs.notes)


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
def test_other_tables_have_one_row_per_run(other):
    assert len(read(other.fillna(4.0))) == len(other)


def test_what_grows_within_a_run_is_of_several_runs_where_it_plays_a_part():
    table = history().fillna(4.0).assign(tokens=[1e6, 2e6, 3e6] * 2)
    assert len(read(table, size=("width", "tokens"))) == 6
    assert len(read(table)) == 2
    assert len(read(history().fillna(4.0).assign(lr=[1, 2, 4] * 2), tune="lr")) == 6
    shared = history().fillna(4.0).assign(batch=[1, 2, 4] * 2)
    assert read_history(shared, "here") is not None
    assert read_history(shared, "here", ["batch"]) is None


def test_lines_of_an_exported_chart_are_runs_whose_names_say_their_settings():
    lines = [
        '"Step","lr: 0.01, width: 64 - val_loss","lr: 0.01, width: 64 - val_loss__MIN",'
        '"lr: 0.01, width: 64 - val_loss__MAX","net-width128 lr=0.02 - val_loss"',
        "0,3,3,3,3.2",
        "10,2,2,2,",
        "20,NaN,,,2.5",
    ]
    runs = read(io.StringIO("\n".join(lines)), size="lr").to_frame()
    assert runs["lr"].tolist() == [0.01, 0.02]
    assert runs["status"].tolist() == ["diverged", "complete"]
    assert runs["loss"].tolist()[1] == 2.5


@pytest.mark.parametrize("run", ["run", "experiment", "trial", "Run ID"])
def test_a_history_is_one_whatever_its_step_and_run_are_called(run):
    for step in ("epoch", "Epoch", "iteration", "iter", "train/global_step", "global_step"):
        assert losses(history().rename(columns={"_step": step, "run_id": run})) == [2, 1.5]


def test_of_two_rows_of_one_step_the_later_counts_and_each_may_hold_other_metrics():
    table = history().iloc[[0, 1, 2, 1, 2, 3, 4, 5]].reset_index(drop=True)
    table.loc[3:4, "val_loss"] = [0.5, 0.75]  # logged again by a run that was begun again
    assert losses(table, final="best") == [0.5, 1.5]
    assert losses(table) == [0.75, 1.5]
    whole = history().dropna()
    parts = [whole.assign(train_loss=""), whole.assign(train_loss=9.0, val_loss="")]
    lines = pd.concat(parts).sort_values(["run_id", "_step"]).to_csv(index=False)
    runs = read(io.StringIO(lines)).to_frame()
    assert (runs["loss"].tolist(), runs["train_loss"].tolist()) == ([2.0, 1.5], [9.0, 9.0])


@pytest.mark.parametrize("seed", [{}, {"seed": 0}])
def test_steps_of_no_named_run_are_no_replicates(seed):
    table = history().drop(columns="run_id").fillna(4.0).assign(**seed)
    with pytest.raises(DataError, match="differ in '_step'"):
        read(table)
    best = table.drop(columns="seed", errors="ignore").assign(_step=[7, 9, 4, 3, 9, 8])
    for runs in (best, table.assign(seed=[0, 1, 2] * 2), table.assign(lr=[1, 2, 4] * 2)):
        assert len(read(runs)) == 6


def test_a_state_that_stays_is_that_of_the_run():
    runs = read(history().assign(state=["finished"] * 3 + ["crashed"] * 3))
    assert runs.to_frame()["status"].tolist() == ["complete", "failed"]
