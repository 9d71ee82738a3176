import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs

from .messy import sweep, two

MIXED = two("config.train.warmup", (100, 500))


def test_rows_are_selected_by_equal_values_of_any_spelling():
    for value in (100, 100.0, "100", "1e2", ["100"]):
        runs = read_runs(MIXED, where={"warmup": value})
        assert len(runs) == len(MIXED) / 2
        assert runs.to_frame()["warmup"].astype(float).eq(100).all()
        assert runs.conditions == ("warmup",)
    several = read_runs(MIXED, where={"warmup": [100, 500]}, ignore="warmup")
    assert len(several) == len(MIXED)
    both = read_runs(MIXED, where={"warmup": 500, "width": [64, 128, 256]})
    assert both.to_frame()["width"].max() == 256
    blank = MIXED.assign(note=["", None, "x"] * (len(MIXED) // 3))
    kept = read_runs(blank, where={"note": ""}, ignore="config.train.warmup")
    assert len(kept) == len(MIXED) * 2 / 3


def test_curves_stay_with_the_rows_that_are_selected():
    table = sweep(seeds=(0,)).assign(arm=["a", "b"] * 12)
    points = pd.DataFrame({"run": range(24), "step": 1, "loss": range(1, 25)})
    curves = read_runs(table, where={"arm": "b"}, curves=points).curves()
    assert curves["run"].tolist() == list(range(12))
    assert curves["loss"].tolist() == list(range(2, 26, 2))


def test_what_no_row_has_is_an_error_that_says_what_rows_have():
    with pytest.raises(DataError, match=r"'100' \(72 rows\), '500' \(72 rows\)"):
        read_runs(MIXED, where={"warmup": 300})
    with pytest.raises(DataError, match=r"did you mean 'config\.train\.warmup'"):
        read_runs(MIXED, where={"warmups": 300})


def test_columns_are_renamed_before_anything_else():
    table = sweep().rename(columns={"width": "größe", "lr": "x.eta"})
    runs = read_runs(table, rename={"größe": "width", "eta": "lr"}, let="wd = lr * width")
    assert (runs.sizes, runs.tuned) == (("width",), ("lr",))
    assert runs.to_frame()["wd"].max() == pytest.approx((table["x.eta"] * table["größe"]).max())
    with pytest.raises(DataError, match="has 'loss' already"):
        read_runs(table, rename={"eta": "loss"})
    with pytest.raises(DataError, match="no column 'beta'"):
        read_runs(table, rename={"beta": "lr"})
