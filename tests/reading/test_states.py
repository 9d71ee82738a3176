import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs

WORDS = {
    "complete": ["finished", "FINISHED", " Complete ", ""],
    "failed": [
        *("crashed", "fail", "FAILED", "killed", "pending", "preempted", "preempting"),
        *("RUNNING", "scheduled", "waiting"),
    ],
    "diverged": ["diverged"],
    "pruned": ["PRUNED"],
}


def read(words, column="state"):
    table = pd.DataFrame({"width": range(1, len(words) + 1), "loss": 2.0, column: words})
    return read_runs(table, size="width")


@pytest.mark.parametrize("column", ["status", "State", "STATE", "attrs.status", "tags.State"])
def test_words_of_trackers_are_statuses_however_their_column_is_written(column):
    runs = read([word for words in WORDS.values() for word in words], column)
    found = [status for status, words in WORDS.items() for _ in words]
    assert runs.to_frame()["status"].tolist() == found
    unfinished = sorted(note.split(")")[1] for note in runs.notes if "did not finish" in note)
    assert len(unfinished) == 9  # "failed" is a status of ours
    assert {note.split()[0] for note in runs.notes if "did not finish" in note} == {"1"}


def test_a_column_called_state_that_holds_something_else_is_no_status():
    assert read(["Ohio", "Texas"]).to_frame()["status"].eq("complete").all()
    with pytest.raises(DataError, match=r"'stopped' .* 'State'"):
        read(["finished", "crashed", "stopped"], "State")
