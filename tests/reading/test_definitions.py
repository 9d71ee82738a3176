import math

import pandas as pd
import pytest

from extrap.reading import read_runs


def table():
    return pd.DataFrame(
        {"config.lr": ["0.1", "0.2"], "width": ["256", "512"], "ppl": ["8", "nan"], "loss": [2, 1]}
    )


def test_definitions_may_use_columns_behind_a_prefix_and_earlier_ones():
    let = ("ratio = width / 256", "lr_mult = lr * ratio")
    runs = read_runs(table(), size="width", tune="lr_mult", let=let)
    assert runs.to_frame()["lr_mult"].tolist() == [0.1, 0.4]


@pytest.mark.parametrize("let", ["nll = log(ppl)", ["half = ppl / 2", "nll = log(half * 2)"]])
def test_an_empty_cell_stays_empty_and_a_nan_not_finite(tmp_path, let):
    path = tmp_path / "a.csv"
    path.write_text("width,ppl\n16,8\n32,\n64,nan\n128,0\n")
    runs = read_runs(path, size="width", loss="nll", let=let).to_frame()
    assert runs["status"].tolist() == ["complete", "failed", "diverged", "diverged"]
    assert runs["loss"][0] == pytest.approx(math.log(8))
