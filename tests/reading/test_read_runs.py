from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs, without_password
from extrap.records import Runs


def frame_of(**columns: object) -> pd.DataFrame:
    plain = {
        "width": [16, 32, 64],
        "lr": [0.1, 0.2, 0.1],
        "seed": [0, 1, 0],
        "loss": [3.0, 2.0, 1.0],
    }
    return pd.DataFrame({**plain, **columns})


def read(table: pd.DataFrame, **options: object) -> Runs:
    return read_runs(table, **{"size": "width", "tune": "lr", **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("empty", [None, pd.NA, "", "  "])
def test_empty_loss_is_a_failed_run(empty: object) -> None:
    table = frame_of(loss=pd.Series([3.0, empty, 1.0], dtype=object))
    runs = read(table)
    assert runs.to_frame()["status"].tolist() == ["complete", "failed", "complete"]
    assert runs.notes == ("1 run(s) failed (no loss): left out",)


@pytest.mark.parametrize(
    "value", ["nan", "NaN", "inf", "-inf", "1e400", float("nan"), float("inf")]
)
def test_loss_that_is_not_finite_is_a_diverged_run(value: object) -> None:
    runs = read(frame_of(loss=pd.Series([3.0, value, 1.0], dtype=object)))
    assert runs.to_frame()["status"].tolist() == ["complete", "diverged", "complete"]
    assert runs.counts()["diverged"] == 1
    assert "1 run(s) diverged" in runs.notes[0]


@pytest.mark.parametrize(
    "convert",
    [
        lambda t: t.convert_dtypes(),
        lambda t: t.convert_dtypes(dtype_backend="pyarrow"),
        lambda t: t.astype(object),
        lambda t: t.astype(str),
        lambda t: t.astype({"lr": "category"}),
        lambda t: t.assign(loss=[Decimal(str(v)) for v in t["loss"]]),
    ],
    ids=["nullable", "arrow", "object", "text", "category", "decimal"],
)
def test_kind_of_column_does_not_matter(convert: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    assert read(convert(frame_of())).data_hash() == read(frame_of()).data_hash()


def test_parquet_tells_null_from_nan(tmp_path: Path) -> None:
    table = pa.table(frame_of().to_dict("list") | {"loss": [3.0, None, float("nan")]})
    pq.write_table(table, tmp_path / "a.parquet")
    runs = read_runs(tmp_path / "a.parquet", size="width", tune="lr")
    assert runs.to_frame()["status"].tolist() == ["complete", "failed", "diverged"]
    assert runs.to_frame()["seed"].tolist() == [0, 1, 0]


def test_jsonl_without_the_loss_key_is_a_failed_run(tmp_path: Path) -> None:
    lines = [
        '{"width": 1, "lr": 1, "loss": 2}',
        '{"width": 2, "lr": 1}',
        '{"width": 4, "lr": 1, "loss": NaN}',
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    runs = read_runs(tmp_path / "a.jsonl", size="width", tune="lr")
    assert runs.counts()["complete"] == 1
    assert runs.counts()["diverged"] + runs.counts()["failed"] == 2


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"width": ["16", "wide", "64"]}, "width must hold numbers, got 'wide' in row 2"),
        ({"width": ["16", "", "64"]}, "width must be filled in for every run, row 2 has none"),
        ({"lr": ["0.1", "0,2", "0.1"]}, "lr must hold numbers, got '0,2' in row 2"),
        ({"loss": [True, False, True]}, "loss must hold numbers, got True in row 1"),
        ({"loss": pd.Series([3.0, True, 1.0], dtype=object)}, "got True in row 2"),
        ({"loss": [1 + 1j, 2, 3]}, "loss must hold numbers"),
        ({"width": [datetime.datetime(2026, 1, 1)] * 3}, "width must hold numbers"),
        ({"width": [16, 0, 32]}, "width must be positive and finite, got 0 in row 2"),
        ({"lr": [0.1, -0.2, 0.1]}, "lr must be positive and finite, got -0.2 in row 2"),
        ({"loss": [3.0, 0.0, 1.0]}, "losses must be positive"),
        ({"status": ["complete", "boom", ""]}, "status must be one of .* got 'boom'"),
    ],
)
def test_impossible_cells_name_their_row(columns: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(frame_of(**columns))


def test_misspelt_column_is_guessed() -> None:
    with pytest.raises(DataError, match="no column 'width'; did you mean 'wdith'"):
        read(frame_of().rename(columns={"width": "wdith"}))
    with pytest.raises(DataError, match="no column 'loss'; did you mean 'Loss'"):
        read(frame_of().rename(columns={"loss": "Loss"}))
    with pytest.raises(DataError, match="no column 'sed'; did you mean 'seed'"):
        read(frame_of(), seed="sed")


@pytest.mark.parametrize("part", ["size", "tune", "conditions"])
@pytest.mark.parametrize("name", ["status", "stage"])
def test_columns_with_a_fixed_meaning_play_no_other_part(part: str, name: str) -> None:
    with pytest.raises(ValueError, match="have a fixed meaning"):
        read(frame_of(**{name: 1}), **{part: name})


def test_column_plays_one_part_only() -> None:
    with pytest.raises(ValueError, match="each column plays one part, 'lr' was given two"):
        read(frame_of(), size="lr")


def test_runs_without_a_seed_are_replicates_of_their_own_in_any_order() -> None:
    repeats = [frame_of(loss=[3 + shift, 2 + shift, 1 + shift]) for shift in (0, 0.1, 0.2)]
    table = pd.concat(repeats).drop(columns="seed")
    runs, turned = read(table), read(table[::-1])
    assert runs.to_frame()["seed"].nunique() == 9
    assert runs.counts()["replicates"] == 0
    assert runs.notes == ("9 run(s) without a seed: each counts as its own replicate",)
    assert runs.data_hash() == turned.data_hash()


def test_seeds_are_exact_however_long() -> None:
    long = 2**60
    runs = read(frame_of(seed=[str(long), str(long + 1), "7.0"]))
    assert runs.to_frame()["seed"].tolist() == [long, long + 1, 7]
    assert read(frame_of(seed=["a", "b", "1"])).to_frame()["seed"].tolist() == ["a", "b", "1"]


def test_some_empty_seeds_leave_the_others_alone() -> None:
    seeds = read(frame_of(seed=["5", "", "5"])).to_frame()["seed"].tolist()
    assert seeds[0] == seeds[2] == 5
    assert str(seeds[1]).startswith("row-")


def test_repeated_seeds_with_other_losses_are_kept_as_replicates() -> None:
    runs = read(pd.concat([frame_of(), frame_of(loss=[3.1, 2.1, 1.1])]))
    assert len(runs) == 6
    assert "3 run(s) repeat an earlier size, tuned values and seed" in runs.notes[0]


@pytest.mark.parametrize("times", [2, 3])
def test_copies_of_a_row_are_left_out_and_counted(times: int) -> None:
    notes = [["all"], ["every"], ["column"]]
    plain = frame_of(loss=[3.0, np.nan, 1.0], note=notes)
    runs = read(pd.concat([plain] * times))
    assert runs.data_hash() == read(plain).data_hash()
    assert runs.notes[0].startswith(f"{3 * (times - 1)} row(s) are copies of an earlier one")
    assert len(read(pd.concat([plain, plain.assign(note="another")]))) == 6


def test_cells_that_are_lists_are_carried_along() -> None:
    other = frame_of(loss=[3.1, 2.1, 1.1], layers=[[8, 8]] * 3)
    runs = read(pd.concat([frame_of(layers=[[4]] * 3), other]))
    assert runs.to_frame()["layers"].tolist()[2:4] == [[4], [8, 8]]
    assert "they differ in layers" in runs.notes[0]


def test_runs_to_judge_are_all_kept() -> None:
    assert len(read(pd.concat([frame_of(), frame_of()]), stage="check")) == 6


def test_copies_without_a_seed_are_kept_and_doubted() -> None:
    runs = read(pd.concat([frame_of(), frame_of()]).drop(columns="seed"))
    assert len(runs) == 6
    assert runs.notes[0] == (
        "3 run(s) without a seed equal an earlier one in every column: leave copies out, they say "
        "nothing about noise"
    )


def test_curves_stay_with_their_runs_where_copies_are_left_out(tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    url = f"sqlite:///{tmp_path}/a.db"
    study = optuna.create_study(storage=url, study_name="a")
    for width, lr in ((8, 0.1), (8, 0.1), (16, 0.2)):
        trial = study.ask()
        trial.suggest_float("lr", lr, lr)
        trial.set_user_attr("width", width)
        trial.set_user_attr("seed", 0)
        trial.report(5.0 * width, step=1)
        study.tell(trial, 1.0 * width)
    runs = read(url)
    curves = runs.curves()
    assert runs.to_frame()["width"].tolist() == [8, 16]
    assert curves is not None
    assert curves["run"].tolist() == [0, 1]
    assert curves["loss"].tolist() == [40.0, 80.0]


def test_stage_column_selects_the_rows() -> None:
    table = frame_of(stage=["tune", "check", "tune"])
    assert len(read(table)) == 2
    assert read(table, stage="check").to_frame()["width"].tolist() == [32.0]
    with pytest.raises(DataError, match="no rows of stage 'check'"):
        read(frame_of(stage="tune"), stage="check")


def test_loss_column_of_another_name_replaces_one_called_loss() -> None:
    runs = read(frame_of(val=[9.0, 8.0, 7.0], loss="train"), loss="val")
    assert runs.to_frame()["loss"].tolist() == [9.0, 8.0, 7.0]


def test_check_run_may_not_know_its_tuned_value() -> None:
    runs = read(frame_of(lr=["0.1", "", "0.1"]), stage="check")
    assert np.isnan(runs.to_frame()["lr"].iloc[1])
    with pytest.raises(DataError, match="lr must be filled in for every run, row 2 has none"):
        read(frame_of(lr=["0.1", "", "0.1"]))


def test_header_alone_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("width,lr,loss\n")
    with pytest.raises(DataError, match="needs at least one row"):
        read_runs(tmp_path / "a.csv", size="width", tune="lr")


def test_password_of_a_storage_is_never_shown() -> None:
    assert without_password("postgresql://me:secret@host/db") == "postgresql://me@host/db"


def test_forgotten_tuned_column_is_named_in_the_note(tmp_path: Path) -> None:
    rows = [f"{w},{lr},{s},{1 + lr}" for w in (1, 2, 4) for lr in (0.1, 0.2) for s in (0, 1)]
    path = tmp_path / "sweep.csv"
    path.write_text("\n".join(["width,lr,seed,loss", *rows]))
    (note,) = read_runs(path, size="width").notes
    assert "they differ in lr: tuned, or a condition?" in note


def test_two_columns_behind_prefixes_that_nobody_asked_for_are_no_error() -> None:
    columns = {"config.n_params": [1, 2, 3], "summary.n_params": [1, 2, 3]}
    assert len(read(frame_of(**columns))) == 3
    with pytest.raises(DataError, match="several columns that could be 'n_params'"):
        read(frame_of(**columns), size="n_params")
