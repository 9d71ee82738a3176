import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs


def of(values, **more):
    return pd.DataFrame({"width": [2.0**i for i in range(len(values))], "acc": values, **more})


def losses(values, *, curve=None, **options):
    """The losses of runs, and those of the curve of the first."""
    points = curve and pd.DataFrame({"run": [0, 0], "step": [1, 2], "loss": curve})
    runs = read_runs(of(values), size="width", maximise="acc", curves=points, **options)
    found = runs.curves()
    return runs.to_frame()["loss"].dropna().tolist(), found if found is None else [*found["loss"]]


def test_a_share_becomes_what_is_missing_of_it_and_a_log_likelihood_its_negative():
    assert losses([0.5, 0.75, None], curve=[0.25, 0.5]) == ([0.5, 0.25], [0.75, 0.5])
    assert losses([0.0, 0.875], loss="acc") == ([1.0, 0.125], None)
    assert losses([-3.0, -0.5]) == ([3.0, 0.5], None)
    # the best of a curve is taken before it is turned
    assert losses([0.5], curve=[0.75, 0.5], final="best") == ([0.25], [0.25, 0.5])
    percent = read_runs(of([75.0]), size="width", let="error = 1 - acc / 100", loss="error")
    assert percent.to_frame()["loss"].tolist() == [0.25]
    other = read_runs(of([0.5], loss=2.0), size="width", loss="loss", maximise=["acc"])
    assert other.to_frame()["loss"].tolist() == [2.0]
    notes = read_runs(of([0.5]), size="width", maximise="acc").notes
    assert any("1 − acc" in note for note in notes)


def test_what_has_no_loss_we_could_know_says_how_to_write_one():
    for values, words in (
        ([76.3, 80.0], 'got acc 76.3; .*let="error ='),
        ([0.5, -0.1], "got acc -0.1"),
        ([-0.5, 0.0], "got acc -0.5"),
        ([0.5, 1.0], "got acc 1 in row 2;"),
    ):
        with pytest.raises(DataError, match=words):
            losses(values)
