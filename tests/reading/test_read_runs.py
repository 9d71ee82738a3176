import io
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs
from extrap.reading.table_files import read_table

from .messy import sweep

NAN = math.nan


def frame_of(**columns):
    plain = {"width": [16, 32, 64], "lr": [0.1, 0.2, 0.1], "seed": [0, 1, 0], "loss": [3.0, 2, 1]}
    return pd.DataFrame({**plain, **columns})


def read(table, **options):
    return read_runs(table, **{"size": "width", "tune": "lr", **options})


def test_a_frame_and_its_csv_have_the_same_failed_and_diverged_runs(tmp_path):
    table = frame_of(loss=[3.0, NAN, math.inf])
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.csv", tmp_path / "t.parquet"):
        assert read(source).to_frame()["status"].tolist() == ["complete", "failed", "diverged"]
    told = table.assign(status=["complete", "diverged", "complete"])
    assert read(told).to_frame()["status"].tolist() == ["complete", "diverged", "diverged"]


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


def test_repeated_seeds_with_other_losses_are_kept_as_replicates():
    other = frame_of(loss=[3.1, 2.1, 1.1], layers=[[8, 8]] * 3)
    table = pd.concat([frame_of(layers=[[4]] * 3), other])
    with pytest.raises(DataError, match=r"layers \[4\], \[8, 8\]"):
        read(table)
    runs = read(table, ignore="layers")
    assert (len(runs), runs.counts()["replicates"]) == (6, 3)
    assert runs.to_frame()["layers"].tolist()[2:4] == [[4], [8, 8]]
    assert runs.notes[1].startswith("3 run(s) repeat")


@pytest.mark.parametrize("times", [2, 3])
def test_copies_of_a_row_are_left_out_and_counted(times):
    notes = [["all"], ["every"], ["column"]]
    plain = frame_of(loss=[3.0, np.nan, 1.0], note=notes)
    runs = read(pd.concat([plain] * times))
    assert runs.data_hash() == read(plain).data_hash()
    assert runs.notes[1].startswith(f"{3 * (times - 1)} row(s) are copies")
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


def tracked():
    cells = [(w, lr, s) for w in (16, 32, 64) for lr in (0.1, 0.2, 0.4) for s in (0, 1)]
    width, lr, seed = map(list, zip(*cells, strict=True))
    return pd.DataFrame(
        {
            "config.model.width": width,
            "config/lr": lr,
            "config/width": width,
            "config/seed": seed,
            "config/batch_size": [32] * len(cells),
            "summary/val_loss": [3 / w + r for w, r in zip(width, lr, strict=True)],
            "summary/train_loss": [2 / w + r for w, r in zip(width, lr, strict=True)],
        }
    )


NAMES = {"size": "width", "tune": "lr", "loss": "val_loss"}


def test_columns_answer_to_their_name_behind_a_prefix_where_no_other_bears_it():
    runs, table = read_runs(tracked(), **NAMES), tracked()
    frame = runs.to_frame()
    assert (runs.sizes, runs.tuned) == (("width",), ("lr",))
    for name, column in (
        ("width", "config/width"),
        ("lr", "config/lr"),
        ("seed", "config/seed"),
        ("loss", "summary/val_loss"),
    ):
        assert frame[name].tolist() == table[column].tolist()
    assert frame["batch_size"].eq(32).all()
    assert "config/width" not in frame
    whole = {"size": "config/width", "tune": "config/lr", "loss": "summary/val_loss"}
    again = read_runs(table, **whole, seed="config/seed").to_frame()
    assert again["loss"].tolist() == frame["loss"].tolist()
    plain = read_runs(tracked().assign(lr=0.5), **NAMES, ignore="config/lr").to_frame()
    assert plain["lr"].eq(0.5).all()


def test_curves_belong_to_the_runs_they_name(tmp_path):
    table = pd.DataFrame({"run": ["b", "a"], "width": [16, 32], "lr": 0.01, "loss": [3.0, 2.5]})
    points = {"run": ["a", "a", "b", "z"], "step": [1, 2, 1, 1], "loss": [4.0, "nan", 3.0, 9.0]}
    path = tmp_path / "curves.csv"
    pd.DataFrame(points).to_csv(path, index=False)
    for source in (pd.DataFrame(points), path):
        curves = read_runs(table, size="width", tune="lr", curves=source).curves()
        assert (curves["run"].tolist(), curves["step"].tolist()) == ([1, 1, 0], [1, 2, 1])
        assert curves["loss"].tolist()[::2] == [4.0, 3.0]
        assert math.isnan(curves["loss"][1])


def test_curves_stay_with_the_rows_that_are_selected():
    table = sweep(seeds=(0,)).assign(arm=["a", "b"] * 12)
    points = pd.DataFrame({"run": range(24), "step": 1, "loss": range(1, 25)})
    curves = read_runs(table, where={"arm": "b"}, curves=points).curves()
    assert curves["run"].tolist() == list(range(12))
    assert curves["loss"].tolist() == list(range(2, 26, 2))


def test_columns_are_renamed_before_anything_else():
    table = sweep().rename(columns={"width": "größe", "lr": "x.eta"})
    runs = read_runs(table, rename={"größe": "width", "eta": "lr"}, let="wd = lr * width")
    assert (runs.sizes, runs.tuned) == (("width",), ("lr",))
    assert runs.to_frame()["wd"].max() == pytest.approx((table["x.eta"] * table["größe"]).max())


def test_definitions_may_use_columns_behind_a_prefix_and_earlier_ones():
    let = ("ratio = width / 256", "lr_mult = lr * ratio")
    table = pd.DataFrame({"config.lr": ["0.1", "0.2"], "width": ["256", "512"], "loss": [2, 1]})
    runs = read_runs(table, size="width", tune="lr_mult", let=let)
    assert runs.to_frame()["lr_mult"].tolist() == [0.1, 0.4]


@pytest.mark.parametrize("let", ["nll = log(ppl)", ["half = ppl / 2", "nll = log(half * 2)"]])
def test_an_empty_cell_stays_empty_and_a_nan_not_finite(tmp_path, let):
    path = tmp_path / "a.csv"
    path.write_text("width,ppl\n16,8\n32,\n64,nan\n128,0\n")
    runs = read_runs(path, size="width", loss="nll", let=let).to_frame()
    assert runs["status"].tolist() == ["complete", "failed", "diverged", "diverged"]
    assert runs["loss"][0] == pytest.approx(math.log(8))


COLUMNS = {
    "width": [16, 32, 64, 128],
    "lr": [0.1, 0.1, 0.1, 0.1],
    "seed": [0, 1, 2, 3],
    "loss": [2.5, None, math.nan, 1.5],
}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
STATUSES = ["complete", "failed", "diverged", "complete"]


def statuses(source, **names):
    runs = read_runs(source, **{"size": "width", "tune": "lr", **names})
    return runs.to_frame()["status"].tolist()


@pytest.mark.parametrize("source", [pa.table(COLUMNS), ROWS], ids=["arrow", "rows"])
def test_frames_and_lists_of_dictionaries_know_what_is_missing(source):
    assert statuses(source) == STATUSES


def test_a_polars_frame_keeps_apart_what_is_missing_and_what_is_no_number():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({**COLUMNS, "name": ["a", "b", None, "d"], "raw": [b"x"] * 4})
    assert statuses(frame) == statuses(frame.lazy().collect()) == STATUSES
    runs = read_runs(frame, size="width", tune="lr")
    assert runs.source == "the polars frame"
    assert runs.to_frame()["name"].tolist()[:2] == ["a", "b"]
    with pytest.raises(TypeError, match=r"\.collect\(\)"):
        read_runs(frame.lazy(), size="width", tune="lr")
    whole = {name: [cells[0], cells[3]] for name, cells in COLUMNS.items()}
    sources = [polars.DataFrame(whole), pa.table(whole), pd.DataFrame(whole), ROWS[::3]]
    hashes = {read_runs(source, size="width", tune="lr").data_hash() for source in sources}
    assert len(hashes) == 1


def test_dictionaries_in_the_cells_of_a_csv_are_read_and_never_run():
    config = [{"width": 16, "act": None}, {"width": 32, "act": True}]
    frame = pd.DataFrame({"config": config, "summary": ['{"loss": 2.5}', '{"loss": 2.0}']})
    runs = read_runs(io.StringIO(frame.to_csv()), size="width")
    assert runs.to_frame()["loss"].tolist() == [2.5, 2.0]
    hostile = pd.DataFrame({"config": ["{'a': __import__('os').getcwd()}"], "loss": [1.0]})
    assert list(read_table(io.StringIO(hostile.to_csv(index=False)))) == ["config", "loss"]
