"""Files as tables, and files that are none: one line, whatever they hold."""

import io
import json
import math
import os
import re
import struct

import numpy as np
import pandas as pd
import pytest

from extrap import errors
from extrap.errors import DataError
from extrap.reading import read_runs
from extrap.reading.cells import numbers_of
from extrap.reading.table_files import read_embedding, read_table

from .messy import sweep

CSV = "width,lr,seed,loss\n16,0.1,0,2.5\n32,0.1,0,2.25\n"


def written(folder, name, content):
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder / name


def test_parquet_jsonl_tsv_and_open_text_hold_the_same_numbers(tmp_path):
    frame = pd.read_csv(io.StringIO(CSV))
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    frame.to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    sources = [tmp_path / "a.parquet", tmp_path / "a.jsonl", tmp_path / "a.tsv", io.StringIO(CSV)]
    for source in (*sources, frame):
        table = read_table(source)
        assert table.astype(float).to_dict("list") == frame.astype(float).to_dict("list")
    table.loc[0, "width"] = 2
    assert frame.loc[0, "width"] == 16  # what is handed in is copied


@pytest.mark.parametrize("place", ["/dev/zero", "/dev/urandom", "/dev/null", "pipe", "loop"])
def test_devices_pipes_and_loops_are_no_tables(tmp_path, place):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    words = "there is no file" if place == "loop" else "is a plain file"
    reads = {"a.csv": read_table, "a.parquet": read_table, "a.npy": read_embedding}
    for name, read in reads.items():
        (tmp_path / name).symlink_to(tmp_path / place)
        with pytest.raises(DataError, match=words):
            read(tmp_path / name)


def test_lines_of_json_end_at_newlines_only(tmp_path):
    row = json.dumps({"width": 16, "note": "a\u2028b\u0085c"}, ensure_ascii=False)
    (tmp_path / "a.jsonl").write_text(f"{row}\r\n{row}\n", encoding="utf-8")
    assert read_table(tmp_path / "a.jsonl")["note"].tolist() == ["a\u2028b\u0085c"] * 2


def test_arrays_that_promise_too_much_or_hold_objects(tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d, 4), }" % 2**50
    header += b" " * (118 - len(header) - 1) + b"\n"
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64))
    with pytest.raises(DataError, match=r"readable \.npy array"):
        read_embedding(path)
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"readable \.npy array"):
        read_embedding(path)


def test_shown_values_are_bearable():
    assert [errors.shown(x) for x in ("x", 3, "y" * 60)] == ["'x'", "3", repr("y" * 60)]
    assert errors.shown("y" * 1061) == f"'{'y' * 60}'… (1,061 characters)"
    assert errors.first_line(ValueError("x" * 200)) == "x" * 200
    assert errors.first_line(ValueError("x" * 201)) == "x" * 200 + "…"
    assert errors.first_line(ValueError("  a\nb")) == "a"
    assert errors.first_line(ValueError()) == "ValueError"


GRID = sweep()
ONE_SEED = GRID[GRID["seed"].eq(0)].drop(columns="seed").reset_index(drop=True)
RATES = sorted(ONE_SEED["lr"].unique())


def by_seed(*names):
    """A row for each cell of the sweep, its losses in a column for each seed."""
    wide = GRID.pivot(index=["width", "lr"], columns="seed", values="loss").reset_index()
    return wide.set_axis(["width", "lr", *names], axis=1)


@pytest.mark.parametrize(
    "names",
    [
        ("seed_0", "seed_1", "seed_2"),
        ("loss (seed 1)", "loss (seed 2)", "loss (seed 3)"),
        ("run1", "run2", "run3"),
        ("seed0_val_loss", "seed1_val_loss", "seed2_val_loss"),
    ],
)
def test_a_column_for_each_seed_is_a_row_for_each_seed(names):
    runs = read_runs(by_seed(*names))
    assert len(runs) == len(GRID)
    assert sorted(runs.to_frame()["loss"]) == sorted(GRID["loss"])
    assert runs.to_frame().groupby(["width", "lr"])["seed"].nunique().eq(3).all()


def test_a_seed_is_no_loss_where_a_column_is_called_one():
    table = GRID.assign(seed1=GRID["seed"], seed2=GRID["seed"]).drop(columns="seed")
    with pytest.raises(DataError, match="seed"):
        read_runs(table)
    named = by_seed("loss_seed0", "loss_seed1", "loss_seed2")
    assert len(read_runs(named, loss="loss_seed1")) == len(GRID) / 3


def test_text_in_a_column_of_a_seed_is_named_by_its_row():
    table = by_seed("seed_0", "seed_1", "seed_2").astype(object)
    table.loc[4, "seed_1"] = "diverged"
    assert read_runs(table).to_frame()["status"].eq("diverged").sum() == 1
    table.loc[7, "seed_2"] = "see note"
    with pytest.raises(DataError, match="seed_2 must hold numbers, got 'see note' in row 8"):
        read_runs(table)


@pytest.mark.parametrize(
    ("mean", "spread", "count", "read_as"),
    [
        ("loss_mean", "loss_std", "n", "seed_sd"),
        ("val loss (mean)", "val loss (std)", "#seeds", "seed_sd"),
        ("val_loss", "std", "runs", "seed_sd"),
        ("loss", "±SE", "note", "loss_se"),
        ("mean_loss", "sem_loss", "note", "loss_se"),
        ("val_loss_mean", "val_loss_stderr", "note", "loss_se"),
    ],
)
def test_a_spread_beside_a_mean_is_its_standard_error_or_that_of_its_seeds(
    mean, spread, count, read_as
):
    table = ONE_SEED.rename(columns={"loss": mean}).assign(**{spread: 0.01, count: 4})
    frame = read_runs(table).to_frame()
    assert frame[read_as].eq(0.01).all()
    assert read_as == "loss_se" or frame["n_seeds"].eq(4).all()


def test_merged_cells_are_filled_down():
    table = GRID.astype(object)
    repeats = [table["width"].duplicated(), table[["width", "lr"]].duplicated()]
    merged = table.assign(width=table["width"].mask(repeats[0]), lr=table["lr"].mask(repeats[1]))
    for rows in (merged, io.StringIO(merged.to_csv(index=False))):
        read = read_runs(rows)
        assert (
            read.to_frame()[["width", "lr"]]
            .astype(float)
            .equals(GRID[["width", "lr"]].astype(float))
        )
        assert any("the rows below have it too" in note for note in read.notes)


@pytest.mark.parametrize("rows", [[5], [1, 2, 3], [0, 7]])
def test_a_size_that_is_missing_here_and_there_is_not_filled_down(rows):
    table = ONE_SEED.astype(object)
    table.loc[rows, "width"] = None
    with pytest.raises(DataError, match="width"):
        read_runs(table)


@pytest.mark.parametrize(
    "title",
    ["LR sweep\n", "LR sweep, 2026\n\n", "# adam, cosine, 100 steps\n", "Model:,MLP\n,,\n"],
)
@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_lines_above_a_header_are_skipped(title, separator):
    text = title + ONE_SEED.to_csv(index=False, sep=separator)
    runs = read_runs(io.StringIO(text))
    assert len(runs) == len(ONE_SEED)
    assert runs.notes[0].startswith("Using ")
    assert "lines above the header are left out" in runs.notes[0]


def test_a_frame_whose_header_is_a_title_is_asked_for_skiprows():
    text = "LR sweep,,\n,,\n" + ONE_SEED.to_csv(index=False)
    with pytest.raises(DataError, match="skiprows=2"):
        read_runs(pd.read_csv(io.StringIO(text)))
    assert len(read_runs(pd.read_csv(io.StringIO(text), skiprows=2))) == len(ONE_SEED)


@pytest.mark.parametrize(
    ("before", "index", "column"),
    [
        ("lr=", "width", "lr"),
        ("loss@lr=", "width", "lr"),
        ("w", "lr", "width"),
        ("d", "lr", "width"),
        ("", "lr", "width"),
        ("", "width", "lr"),
    ],
)
def test_the_line_that_melts_a_wide_table_works(before, index, column):
    wide = ONE_SEED.pivot(index=index, columns=column, values="loss")
    wide = wide.rename(columns=lambda value: f"{before}{value}").reset_index()
    with pytest.raises(DataError, match="melt it to one row per run") as caught:
        read_runs(wide)
    line = re.search(r"in pandas with (df\.melt\(.*\))", str(caught.value))[1]
    runs = read_runs(eval(line, {"df": wide}))
    assert sorted(runs.to_frame()["loss"]) == sorted(ONE_SEED["loss"])
    assert runs.tuned == ("lr",)


class Tensor:
    """A number as torch has it: it has no length and is no number of Python's."""

    ndim, shape = 0, ()

    def __init__(self, value):
        self.value = value

    def __len__(self):
        raise TypeError("len() of a 0-d tensor")

    def item(self):
        return self.value


@pytest.mark.parametrize("kind", [Tensor, np.array, lambda value: np.array([value])])
def test_tensors_and_arrays_of_one_number_are_numbers(kind):
    table = ONE_SEED.astype(object)
    for column in table:
        table[column] = pd.Series([kind(value) for value in ONE_SEED[column]], dtype=object)
    for source in (table, table.to_dict("records")):
        read = read_runs(source).to_frame()[["width", "lr", "loss"]]
        assert read.astype(float).equals(ONE_SEED.astype(float))


def test_levels_of_an_index_are_columns(tmp_path):
    indexed = ONE_SEED.set_index(["width", "lr"])
    indexed.to_parquet(tmp_path / "a.parquet")
    for source in (indexed, tmp_path / "a.parquet", ONE_SEED.set_index("width")):
        runs = read_runs(source)
        assert (runs.sizes, runs.tuned, len(runs)) == (("width",), ("lr",), len(ONE_SEED))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("10.736 ± 0.012", 10.736),
        ("$10.7 \\pm 0.1$", 10.7),
        ("3.784 (+0.006)", 3.784),
        ("3.784 [3.77, 3.80]", 3.784),
        ("**3.21**", 3.21),
        ("_3.2_", 3.2),
        ("0.707x", 0.707),
        ("x0.5", 0.5),
        ("2×", 2.0),
        ("−0.5", -0.5),
        ("tensor(2.1, device='cuda:0')", 2.1),
        ("2^(-7)", 2**-7),
        ("1,300", 1300.0),
    ],
)
def test_a_number_is_read_without_what_stands_beside_it(text, number):
    assert numbers_of([text]).tolist() == [number]


@pytest.mark.parametrize("text", ["1M (too big)", "131k-262k", "2026-01-12", "3x4", "~~3.2~~"])
def test_other_text_is_no_number(text):
    assert np.isnan(numbers_of([text])).all()


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("diverged", "diverged"),
        ("Diverged at step 300", "diverged"),
        ("∞", "diverged"),
        ("OOM", "failed"),
        ("CUDA out of memory", "failed"),
        ("n/a", "failed"),
        ("—", "failed"),
        ("-", "failed"),
        ("crashed", "failed"),
    ],
)
def test_a_word_in_place_of_a_loss_is_a_status(word, status):
    table = ONE_SEED.astype(object)
    table.loc[4, "loss"] = word
    for source in (table, io.StringIO(table.to_csv(index=False))):
        runs = read_runs(source)
        assert runs.to_frame()["status"].tolist()[4] == status
        assert runs.to_frame()["status"].eq("complete").sum() == len(table) - 1


def test_a_spread_and_a_setting_are_not_offered_as_sizes():
    table = ONE_SEED.rename(columns={"width": "blob"})
    table = table.assign(**{"±SE": table["loss"] / 99, "Visual Tokens": 2 * table["blob"]})
    with pytest.raises(DataError, match="could be the size") as caught:
        read_runs(table)
    assert [choice.arguments for choice in caught.value.choices] == [{"size": "blob"}]


def test_the_spread_of_another_loss_does_not_make_it_the_loss():
    losses = {"train_loss": 0.9 * ONE_SEED["loss"], "train_loss_std": 0.01, "n": 4}
    table = ONE_SEED.rename(columns={"loss": "val_loss"}).assign(**losses)
    assert read_runs(table).to_frame()["loss"].tolist() == ONE_SEED["loss"].tolist()
    frame = read_runs(table.assign(val_loss_std=0.02)).to_frame()
    assert frame["loss"].tolist() == ONE_SEED["loss"].tolist()
    assert frame["seed_sd"].eq(0.02).all()


@pytest.mark.parametrize("seeds", [1, 2])
def test_an_optimizer_with_rates_of_its_own_is_no_seed(seeds):
    arms = {"adam": 1.0, "sgd": 30.0}
    frames = [ONE_SEED.assign(optimizer=name, lr=ONE_SEED["lr"] * by) for name, by in arms.items()]
    runs = [pd.concat(frames).assign(seed=seed) for seed in range(seeds)]
    with pytest.raises(DataError, match="optimizer adam, sgd"):
        read_runs(pd.concat(runs))


def test_a_rate_called_by_its_letter_is_no_metric():
    runs = read_runs(ONE_SEED.rename(columns={"lr": "η"}))
    assert runs.tuned == ("η",)


def test_columns_that_may_be_the_loss_are_offered_and_no_others():
    table = ONE_SEED.rename(columns={"loss": "Mean"}).assign(Std=0.01)
    with pytest.raises(DataError, match="called a loss") as caught:
        read_runs(table)
    assert [choice.arguments for choice in caught.value.choices] == [{"loss": "Mean"}]


@pytest.mark.parametrize("rate", ["log_lr", "log10_learning_rate", "final_lr", "lr_final"])
def test_rates_that_may_be_another_rate_are_asked_about(rate):
    table = ONE_SEED.rename(columns={"lr": rate})
    if "log" in rate:
        table[rate] = np.log(table[rate]) / (math.log(10) if "10" in rate else 1)
    with pytest.raises(DataError, match=rate) as caught:
        read_runs(table)
    runs = read_runs(table, **caught.value.choices[0].arguments)
    assert runs.to_frame()[runs.tuned[0]].tolist() == pytest.approx(ONE_SEED["lr"].tolist())


@pytest.mark.parametrize("write", ["{:.7e}".format, lambda rate: f"{rate * 1e3:.9f}×10⁻³"])
def test_rates_are_read_as_papers_write_them(write):
    table = ONE_SEED.assign(lr=ONE_SEED["lr"].map(write))
    assert read_runs(table).to_frame()["lr"].tolist() == pytest.approx(ONE_SEED["lr"].tolist())


def test_a_rate_in_thousandths_is_no_rate_of_millions():
    table = ONE_SEED.assign(lr=ONE_SEED["lr"].map(lambda rate: f"{rate * 1e3:.3f}m"))
    with pytest.raises(DataError, match="a learning rate is below 10000, lr has '"):
        read_runs(table)


def test_names_in_camel_case_are_known():
    names = {"width": "ModelDim", "lr": "PeakLearningRate", "loss": "ValLoss"}
    runs = read_runs(ONE_SEED.rename(columns=names))
    assert (runs.sizes, runs.tuned) == (("ModelDim",), ("PeakLearningRate",))


def test_levels_of_an_index_without_names_are_asked_for():
    table = ONE_SEED.set_index(["width", "lr"])[["loss"]]
    table.index.names = [None, None]
    with pytest.raises(DataError, match="a level has none; name them"):
        read_runs(table)
    table.index.names = ["width", "lr"]
    assert len(read_runs(table)) == len(ONE_SEED)


def test_a_number_in_brackets_that_is_left_out_is_said_first():
    table = ONE_SEED.assign(loss=ONE_SEED["loss"].map("{:.4f} (0.007)".format))
    runs = read_runs(table)
    assert runs.to_frame()["loss"].tolist() == pytest.approx(ONE_SEED["loss"].tolist(), abs=1e-4)
    assert "hold more than a number" in runs.notes[0]
    table["loss"] = table["loss"].str.replace(" (0.007)", " ± 0.007", regex=False)
    assert not any("hold more than a number" in note for note in read_runs(table).notes)
