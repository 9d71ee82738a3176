from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs


def table() -> pd.DataFrame:
    return pd.DataFrame(
        {"config.lr": ["0.1", "0.2"], "width": ["256", "512"], "ppl": ["8", "nan"], "loss": [2, 1]}
    )


def test_definitions_may_use_columns_behind_a_prefix_and_earlier_ones() -> None:
    runs = read_runs(
        table(),
        size="width",
        tune="lr_mult",
        let=("ratio = width / 256", "lr_mult = lr * ratio"),
    )
    assert runs.to_frame()["lr_mult"].tolist() == [0.1, 0.4]


def test_an_empty_cell_stays_empty_and_a_nan_not_finite(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("width,ppl\n16,8\n32,\n64,nan\n128,0\n")
    runs = read_runs(path, size="width", loss="nll", let="nll = log(ppl)").to_frame()
    assert runs["status"].tolist() == ["complete", "failed", "diverged", "diverged"]
    assert runs["loss"][0] == pytest.approx(math.log(8))


def test_a_size_by_formula_serves_a_sweep_and_its_larger_runs() -> None:
    names = {"size": "params", "let": "params = 12 * width ** 2"}
    assert read_runs(table(), **names).to_frame()["params"].tolist() == [786432.0, 3145728.0]
    assert read_runs(table(), **names, stage="check").sizes == ("params",)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("width = 2", "makes a new column, .* has 'width' already"),
        ("a = wdith * 2", "no column 'wdith'; did you mean 'width'"),
        ("a = __import__('os')", "a formula holds numbers"),
        ("a", "reads name = formula"),
        ("a = name * 2", "name must hold numbers, got 'x' in row 1"),
    ],
)
def test_a_definition_that_cannot_be_used_is_one_clear_error(formula: str, message: str) -> None:
    with pytest.raises((DataError, ValueError), match=message):
        read_runs(table().assign(name="x"), size="width", let=formula)
