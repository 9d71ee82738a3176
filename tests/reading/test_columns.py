import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs
from extrap.reading.columns import candidates


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
    assert read_runs(tracked().assign(lr=0.5), **NAMES).to_frame()["lr"].eq(0.5).all()


def test_columns_that_are_not_named_are_suggested():
    with pytest.raises(DataError) as caught:
        read_runs(tracked())
    words = str(caught.value).partition("write ")[2].split()
    assert dict(zip(words[::2], words[1::2], strict=True)) == {
        "--size": "config.model.width",
        "--loss": "summary/val_loss",
        "--tune": "config/lr",
    }
    for table, names, words in (
        (tracked(), {"size": "width", "loss": "val_los"}, "--loss summary/val_loss"),
        (tracked().assign(**{"params.lr": 0.1}), NAMES, "config/lr', 'params.lr'"),
        (pd.DataFrame({"my width": [1.0], "loss": 1.0}), {"size": "my wdith"}, "'my width'$"),
        (pd.DataFrame({"a": [1.0], "loss": 1.0}), {"size": "x" * 9}, "it has a, loss"),
        (pd.DataFrame({"Width": [1.0], "loss": 1.0}), {"size": "width"}, "--size Width"),
    ):
        with pytest.raises(DataError, match=words):
            read_runs(table, **names)


@pytest.mark.parametrize(
    ("columns", "part", "found"),
    [
        ({"width": [1, 2], "depth": [3, -1]}, "size", ["width"]),
        ({"width": [1, 2], "depth": [3, 0]}, "size", ["width"]),
        ({"width": [5, 5], "depth": [3, None]}, "size", []),
        ({"depth": [3, 1], "width": [1, 2]}, "size", ["width", "depth"]),
        ({"heads": [1, 2, 3, 1, 2, 3]}, "size", ["heads"]),
        ({"heads": [1, 2, 3, 1, 2]}, "size", []),  # three values in five rows
        ({"heads": [1, 2, 1, 2, 1, 2]}, "size", []),  # two values are no grid
        ({"heads": [1, 2, 3, 1, 2, None]}, "size", []),
        ({"heads": [0, 2, 3, 0, 2, 3]}, "size", []),
        ({"_heads": [1, 2, 3, 1, 2, 3], "seed": [1, 2, 3, 1, 2, 3]}, "size", []),
        ({"accuracy": [1, 2], "train_loss": [1, 2], "eval_ppl": [1, 2]}, "loss", None),
        ({"loss": ["a", "b"], "nll": ["1", ""]}, "loss", ["nll"]),
        ({f"width.{i}": [1, 2] for i in range(5)} | {"dim": [1, 2]}, "size", ["dim"]),
        ({name: [1, 2] for name in ("wd", "eta", "lr", "rate")}, "tune", ["lr", "eta", "rate"]),
        (
            {"x" * 95 + ".width": [1, 2], "y" * 94 + ".width": [1, 2]},
            "size",
            ["y" * 94 + ".width"],
        ),
    ],
)
def test_a_candidate_is_positive_differs_and_repeats_as_a_grid(columns, part, found):
    in_order = ["eval_ppl", "train_loss", "accuracy"]
    assert candidates(pd.DataFrame(columns), part) == (in_order if found is None else found)
