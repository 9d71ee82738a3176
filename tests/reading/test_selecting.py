"""The timescale by its name in the place of a formula."""

import pytest

from extrap import read_runs
from extrap.errors import DataError
from extrap.reading.selecting import formula_text
from tests.forecasting.horizons import grid, sweep

WHERE = "runs.csv"


@pytest.mark.parametrize(
    ("columns", "formula"),
    [
        (
            ["lr", "weight_decay", "batch_size_tokens", "tokens"],
            "tau = batch_size_tokens / (lr * weight_decay * tokens)",
        ),
        (["learning_rate", "wd", "max_steps"], "tau = 1 / (learning_rate * wd * max_steps)"),
        (["config/lr", "wd", "steps"], "tau = 1 / (`config/lr` * wd * steps)"),
        (["lr", "wd", "batch_size", "tokens", "steps"], "tau = 1 / (lr * wd * steps)"),
        (["lr", "wd", "batch_size_tokens", "steps"], "tau = 1 / (lr * wd * steps)"),
        (["lr", "wd", "batch_tokens", "n_examples", "steps"], "tau = 1 / (lr * wd * steps)"),
    ],
)
def test_tau_is_written_in_the_columns_of_the_table(columns, formula):
    assert formula_text(" tau ", columns, WHERE) == formula


def test_other_formulas_stay():
    assert formula_text("tau = lr * wd", [], WHERE) == "tau = lr * wd"


def test_what_is_missing_is_named():
    with pytest.raises(DataError, match="no weight_decay and no steps"):
        formula_text("tau", ["lr", "tokens", "batch_size"], WHERE)


@pytest.mark.parametrize("prefix", ["", "config."])
def test_a_weight_decay_that_follows_from_tau_is_not_pooled(prefix):
    table = sweep(grid(), decays=(-1.0, 0.0, 1.0)).rename(
        columns=lambda c: prefix * (c != "loss") + c
    )
    runs = read_runs(table, let="tau", tune=["tau", "lr"])
    assert runs.tuned == ("tau", "lr")
    assert not any("pooled" in note for note in runs.notes)


def test_only_a_column_that_a_played_one_determines_may_vary():
    table = sweep(grid(), decays=(-1.0, 0.0, 1.0)).drop(columns="tokens").assign(steps=4000)
    with pytest.raises(DataError, match="mixes several"):
        read_runs(table, let="x = lr * weight_decay", size="params", tune="lr")
    runs = read_runs(table, let="tau", size="params", tune=["tau", "lr"])
    assert runs.tuned == ("tau", "lr")
    two = table.assign(steps=table.index % 3 + 10)
    with pytest.raises(DataError, match="mixes several"):
        read_runs(two, let="tau", size="params", tune=["tau", "lr"])
