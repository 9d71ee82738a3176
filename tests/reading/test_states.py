from __future__ import annotations

import pandas as pd
import pytest

from extrap.reading import read_runs


@pytest.mark.parametrize("column", ["State", "state", "status"])
def test_words_of_trackers_are_statuses(column: str) -> None:
    words = ["finished", "FINISHED", "crashed", "RUNNING", "", "PRUNED"]
    table = pd.DataFrame({"width": [1, 2, 3, 4, 5, 6], "loss": [2.0] * 6, column: words})
    runs = read_runs(table, size="width")
    assert runs.to_frame()["status"].tolist() == [
        *("complete", "complete", "failed", "failed", "complete", "pruned")
    ]
    assert "1 run(s) did not finish (crashed): counted as failed" in runs.notes


def test_a_column_called_state_that_holds_something_else_is_no_status() -> None:
    table = pd.DataFrame({"width": [1, 2], "loss": [2.0, 1.0], "state": ["Ohio", "running"]})
    assert read_runs(table, size="width").to_frame()["status"].eq("complete").all()
