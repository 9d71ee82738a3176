import datetime
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs

NAN = math.nan


def frame_of(**columns):
    plain = {"width": [16, 32, 64], "lr": [0.1, 0.2, 0.1], "seed": [0, 1, 0], "loss": [3.0, 2, 1]}
    return pd.DataFrame({**plain, **columns})


def read(table, **options):
    return read_runs(table, **{"size": "width", "tune": "lr", **options})


def with_loss(value):
    return frame_of(loss=pd.Series([3.0, value, 1.0], dtype=object))


@pytest.mark.parametrize(
    ("status", "values"),
    [
        ("failed", [None, pd.NA, "", "  ", NAN]),
        ("diverged", ["nan", "NaN", "inf", "-inf", "1e400", math.inf]),
    ],
)
def test_empty_loss_is_a_failed_run_and_one_that_is_not_finite_a_diverged_one(status, values):
    for value in values:
        runs = read(with_loss(value))
        assert runs.to_frame()["status"].tolist() == ["complete", status, "complete"]
        assert runs.counts()[status] == 1
        (note,) = runs.notes
        assert note.startswith(f"1 run(s) {status}")


def test_a_frame_and_its_csv_have_the_same_failed_and_diverged_runs(tmp_path):
    table = frame_of(loss=[3.0, NAN, math.inf])
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.csv", tmp_path / "t.parquet"):
        assert read(source).to_frame()["status"].tolist() == ["complete", "failed", "diverged"]
    told = table.assign(status=["complete", "diverged", "complete"])
    assert read(told).to_frame()["status"].tolist() == ["complete", "diverged", "diverged"]


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("complete", ["complete", "diverged", "failed"]),  # a loss that is not there tells more
        ("finished", ["complete", "diverged", "failed"]),
        ("diverged", ["diverged"] * 3),
        ("pruned", ["pruned"] * 3),
        ("crashed", ["failed"] * 3),
        ("", ["complete", "diverged", "failed"]),
    ],
)
def test_a_status_that_is_given_counts_but_none_is_complete_without_a_loss(word, found):
    table = frame_of(loss=pd.Series([3.0, "nan", None], dtype=object), status=[word] * 3)
    frame = read(table).to_frame()
    assert frame["status"].tolist() == found
    assert frame["loss"].notna().tolist() == [status == "complete" for status in found]


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
)
def test_kind_of_column_does_not_matter(convert):
    found, plain = read(convert(frame_of())), read(frame_of())
    assert found.data_hash() == plain.data_hash()
    expected = frame_of().to_dict("list") | {"status": ["complete"] * 3, "stage": ["tune"] * 3}
    assert plain.to_frame()[[*expected]].to_dict("list") == expected


def test_files_tell_what_is_missing_from_nan(tmp_path):
    table = pa.table(frame_of().to_dict("list") | {"loss": [3.0, None, NAN]})
    pq.write_table(table, tmp_path / "a.parquet")
    lines = ['{"width": 1, "lr": 1, "loss": 2}', '{"width": 2, "lr": 1}']
    lines.append('{"width": 4, "lr": 1, "loss": NaN}')
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    for name in ("a.parquet", "a.jsonl"):
        frame = read(tmp_path / name).to_frame()
        assert frame["status"].tolist() == ["complete", "failed", "diverged"]
    (tmp_path / "a.csv").write_text("width,lr,loss\n")
    with pytest.raises(DataError, match="at least one row"):
        read(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"width": ["16", "wide", "64"]}, "width .* 'wide' in row 2"),
        ({"width": ["16", "", "64"]}, "width .* row 2 has none"),
        ({"lr": ["0.1", "0,2", "0.1"]}, "lr .* '0,2' in row 2"),
        ({"loss": [True, False, True]}, "loss .* True in row 1"),
        ({"loss": [1 + 1j, 2, 3]}, "loss .* in row 1"),
        ({"width": [datetime.datetime(2026, 1, 1)] * 3}, "width .* in row 1"),
        ({"width": [16, 32, math.inf]}, "width .* inf in row 3"),
        ({"width": [16, 32, NAN]}, "width .* row 3 has none"),
    ],
)
def test_impossible_cells_name_their_row(columns, words):
    with pytest.raises(DataError, match=words):
        read(frame_of(**columns))


def test_column_plays_one_part_only():
    for options in ({"size": "lr"}, {"loss": "lr"}, {"seed": "lr"}, {"size": ["lr", "lr"]}):
        with pytest.raises(ValueError, match="'lr' was given two"):
            read(frame_of(), **options)
    for part in ("size", "tune", "conditions"):
        with pytest.raises(ValueError, match="got 'status'"):
            read(frame_of(status=1), **{part: "status"})
    with pytest.raises(ValueError, match="got 'train'"):
        read(frame_of(), stage="train")


def test_runs_without_a_seed_are_replicates_of_their_own_in_any_order():
    repeats = [frame_of(loss=[3 + shift, 2 + shift, 1 + shift]) for shift in (0, 0.1, 0.2)]
    table = pd.concat(repeats).drop(columns="seed")
    runs, turned = read(table), read(table[::-1])
    # named by their place in the order of size, tuned value and loss
    assert runs.to_frame()["seed"].tolist() == [
        f"row-{i}" for shift in range(3) for i in (shift, 3 + shift, 6 + shift)
    ]
    assert runs.counts()["replicates"] == 0
    assert [note.split(":")[0] for note in runs.notes] == ["9 run(s) without a seed"]
    assert runs.data_hash() == turned.data_hash()


def test_seeds_are_exact_however_long_and_an_empty_one_leaves_the_others_alone():
    long = 2**60
    for given, seeds in (
        ([str(long), str(long + 1), "7.0"], [long, long + 1, 7]),
        (["a", "b", "1"], ["a", "b", "1"]),
        (["1.5", "2", "3"], ["1.5", "2", "3"]),
        (["5", "", "5"], [5, "row-1", 5]),
    ):
        assert read(frame_of(seed=given)).to_frame()["seed"].tolist() == seeds


def test_repeated_seeds_with_other_losses_are_kept_as_replicates():
    other = frame_of(loss=[3.1, 2.1, 1.1], layers=[[8, 8]] * 3)
    table = pd.concat([frame_of(layers=[[4]] * 3), other])
    with pytest.raises(DataError, match=r"layers \[4\], \[8, 8\]"):
        read(table)
    runs = read(table, ignore="layers")
    assert (len(runs), runs.counts()["replicates"]) == (6, 3)
    assert runs.to_frame()["layers"].tolist()[2:4] == [[4], [8, 8]]
    assert runs.notes[0].startswith("3 run(s) repeat")


@pytest.mark.parametrize("times", [2, 3])
def test_copies_of_a_row_are_left_out_and_counted(times):
    notes = [["all"], ["every"], ["column"]]
    plain = frame_of(loss=[3.0, np.nan, 1.0], note=notes)
    runs = read(pd.concat([plain] * times))
    assert runs.data_hash() == read(plain).data_hash()
    assert runs.notes[0].startswith(f"{3 * (times - 1)} row(s) are copies")
    assert len(read(pd.concat([plain, plain.assign(note="another")]))) == 6
    assert len(read(pd.concat([plain] * times), stage="check")) == 3 * times  # each is judged
    unsure = read(pd.concat([frame_of()] * times).drop(columns="seed"))
    assert len(unsure) == 3 * times
    assert unsure.notes[0].startswith(f"{3 * (times - 1)} run(s) without a seed")


def test_curves_stay_with_their_runs_where_copies_are_left_out():
    table = frame_of(width=[8, 8, 16], lr=0.1, seed=0, loss=[3.0, 3.0, 1.0])
    runs = read(table, curves=pd.DataFrame({"run": [0, 1, 2], "step": 1, "loss": [40, 40, 80.0]}))
    assert runs.to_frame()["width"].tolist() == [8, 16]
    assert runs.curves()[["run", "loss"]].to_numpy().tolist() == [[0, 40.0], [1, 80.0]]


def test_stage_column_selects_the_rows():
    table = frame_of(stage=["tune", "check", " tune "])
    assert read(table).to_frame()["width"].tolist() == [16.0, 64.0]
    assert read(table, stage="check").to_frame()["width"].tolist() == [32.0]
    with pytest.raises(DataError, match="stage = check"):
        read(frame_of(stage="tune"), stage="check")
    unknown = frame_of(lr=["0.1", "", "0.1"])  # a larger run may not know its tuned value
    assert read(unknown, stage="check").to_frame()["lr"].isna().tolist() == [False, True, False]
