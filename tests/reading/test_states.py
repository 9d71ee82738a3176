from __future__ import annotations

import pandas as pd
import pytest

from extrap.errors import DataError
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
    table = pd.DataFrame({"width": [1, 2], "loss": [2.0, 1.0], "state": ["Ohio", "Texas"]})
    assert read_runs(table, size="width").to_frame()["status"].eq("complete").all()


@pytest.mark.parametrize("column", ["Status", "STATE", "attrs.status", "tags.State"])
def test_the_column_of_statuses_is_found_however_it_is_written(column: str) -> None:
    words = ["FINISHED", "RUNNING", "FAILED"]
    table = pd.DataFrame({"width": [1, 2, 3], "loss": [2.0] * 3, column: words})
    statuses = read_runs(table, size="width").to_frame()["status"].tolist()
    assert statuses == ["complete", "failed", "failed"]


def test_one_unknown_word_among_statuses_is_an_error_and_hides_no_other() -> None:
    words = ["finished", "crashed", "stopped"]
    table = pd.DataFrame({"width": [1, 2, 3], "loss": [2.0] * 3, "State": words})
    with pytest.raises(DataError, match=r"got 'stopped' in the column 'State'"):
        read_runs(table, size="width")
