from __future__ import annotations

import io

import pandas as pd
import pytest

from extrap.reading import read_runs


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
        history().assign(State="finished"),  # W&B's table of runs, all of one name
        history().drop_duplicates("run_id"),
        history().assign(_step=5),
        history().assign(_step=[0, 0, 1, 0, 0, 1]),
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
