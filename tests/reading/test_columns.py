import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs
from extrap.reading.columns import display_name, find_column
from extrap.reading.sources import read_cells


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


@pytest.mark.parametrize(
    ("name", "have", "found"),
    [
        ("lr", ["config.optimizer.lr", "loss"], "config.optimizer.lr"),
        ("optimizer.lr", ["config.optimizer.lr"], "config.optimizer.lr"),
        ("lr", ["a.lr", "lr"], "lr"),
        ("width", ["config.model.width", "config/width"], "config/width"),  # the nearer one
        ("lr", ["summary.lr", "config.optimizer.lr"], "config.optimizer.lr"),  # a setting
        ("lr", ["train/lr"], "train/lr"),
        ("lr", ["min_lr", "lr_max", "config.lrs"], None),
    ],
)
def test_a_column_answers_to_the_end_of_its_name(name, have, found):
    assert find_column(name, have, "t") == found
    metrics = ["config.loss", "summary.loss"]
    assert find_column("loss", metrics, "t", is_metric=True) == "summary.loss"
    with pytest.raises(DataError, match="several columns"):
        find_column("loss", ["train/loss", "val/loss"], "t")


@pytest.mark.parametrize(
    ("column", "others", "shown"),
    [
        ("config.model.d_model", ["lr"], "d_model"),
        ("config.optimizer.lr", ["summary.lr"], "lr"),
        ("config.a.lr", ["config.b.lr"], "a.lr"),
        ("params_lr", ["value"], "lr"),
        ("param_count", ["loss"], "param_count"),
        ("summary.loss.min", ["summary.acc.min"], "loss.min"),
        ("x/lr", ["lr"], "x/lr"),
    ],
)
def test_the_name_that_is_shown_is_the_shortest_that_finds_the_column(column, others, shown):
    have = [column, *others]
    assert display_name(column, have) == shown
    assert find_column(shown, have, "t") == column


@pytest.mark.parametrize(
    ("table", "names", "words"),
    [
        (tracked(), {"size": "width", "loss": "val_los"}, 'loss="val_loss"'),
        (tracked().assign(**{"params.lr": 0.1}), NAMES, "config/lr', 'params.lr'"),
        (pd.DataFrame({"my width": [1.0], "loss": 1.0}), {"size": "my wdith"}, "'my width'"),
        (pd.DataFrame({"a": [1.0], "loss": 1.0}), {"size": "x" * 9}, "it has a, loss"),
        (pd.DataFrame({"Width": [1.0], "loss": 1.0}), {"size": "width"}, 'size="Width"'),
        (
            pd.DataFrame({"n_embd": [1.0], "learning_rate": 1.0, "loss": 1.0}),
            {"size": "n_embd", "tune": "lr"},
            'tune="learning_rate"',
        ),
        (
            pd.DataFrame({"hidden_size": [1.0], "heads": 1, "loss": 1.0}),
            {"size": "d_model"},
            'size="hidden_size"',
        ),
    ],
)
def test_a_column_that_is_missing_names_the_one_that_was_meant(table, names, words):
    with pytest.raises(DataError, match=words):
        read_runs(table, **names)


def test_runs_to_be_trained_are_named_and_counted_as_those_of_a_sweep():
    table = pd.DataFrame(
        {"config/params": ["125M", "1.3B"], "lr": ["2^-7", 0.01], "seed": ["a", "b"]}
    )
    cells = read_cells(table, ["params", "lr"], "the table of runs")
    assert cells["params"].tolist() == [125e6, 1.3e9]
    assert cells["lr"].tolist() == [2.0**-7, 0.01]
    for column, word in (("width", "no column 'width'"), ("seed", "seed must hold numbers")):
        with pytest.raises(DataError, match=word):
            read_cells(table, [column], "the table of runs")
