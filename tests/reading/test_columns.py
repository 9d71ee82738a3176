from __future__ import annotations

import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs
from extrap.reading.columns import candidates


def tracked() -> pd.DataFrame:
    cells = [(w, lr, s) for w in (16, 32, 64) for lr in (0.1, 0.2, 0.4) for s in (0, 1)]
    return pd.DataFrame(
        {
            "config.model.width": [w for w, _, _ in cells],
            "config/lr": [lr for _, lr, _ in cells],
            "config/width": [w for w, _, _ in cells],
            "config/seed": [s for _, _, s in cells],
            "config/batch_size": [32] * len(cells),
            "summary/val_loss": [3 / w + lr for w, lr, _ in cells],
            "summary/train_loss": [2 / w + lr for w, lr, _ in cells],
        }
    )


def test_columns_answer_to_their_name_behind_a_prefix() -> None:
    runs = read_runs(tracked(), size="width", tune="lr", loss="val_loss")
    whole = read_runs(
        tracked(),
        size="config/width",
        tune="config/lr",
        loss="summary/val_loss",
        seed="config/seed",
    )
    assert (runs.sizes, runs.tuned) == (("width",), ("lr",))
    assert runs.to_frame()["loss"].tolist() == whole.to_frame()["loss"].tolist()
    assert runs.to_frame()["seed"].tolist() == whole.to_frame()["seed"].tolist()
    assert runs.to_frame()["batch_size"].eq(32).all()
    assert "config/width" not in runs.to_frame()


def test_a_name_that_two_columns_bear_is_no_name() -> None:
    table = tracked().assign(**{"params.lr": 0.1})
    with pytest.raises(DataError, match=r"several columns that could be 'lr'.*whole name"):
        read_runs(table, size="width", tune="lr", loss="val_loss")


def test_an_own_name_goes_before_one_behind_a_prefix() -> None:
    runs = read_runs(tracked().assign(lr=0.5), size="width", tune="lr", loss="val_loss")
    assert runs.to_frame()["lr"].eq(0.5).all()


def test_columns_that_are_not_named_are_suggested() -> None:
    with pytest.raises(DataError) as caught:
        read_runs(tracked())
    message = str(caught.value)
    assert message.startswith("name the size and the loss column of the DataFrame; did you mean")
    assert "write --size config.model.width --loss summary/val_loss --tune config/lr" in message


def test_a_loss_that_is_missing_is_guessed_behind_its_prefix() -> None:
    with pytest.raises(DataError, match=r"did you mean 'summary/val_loss'\? write --loss summary"):
        read_runs(tracked(), size="width", loss="val_los")


def test_candidates_are_numbers_that_differ_the_likeliest_first() -> None:
    table = tracked().assign(name="x", depth=2, heads=[1, 2, 4] * 6)
    assert candidates(table, "size") == ["config.model.width", "config/width"]
    assert candidates(table, "tune") == ["config/lr"]
    assert candidates(table, "loss") == ["summary/val_loss", "summary/train_loss"]
    assert candidates(table[["name", "heads"]], "size") == ["heads"]


def test_names_of_spaces_are_quoted_in_what_to_write() -> None:
    table = pd.DataFrame({"my width": [1.0, 2.0], "loss": [2.0, 1.0]})
    with pytest.raises(DataError, match=r"write --size 'my width'"):
        read_runs(table, size="my wdith")
