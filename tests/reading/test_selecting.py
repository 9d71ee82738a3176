"""The timescale by its name in the place of a formula."""

import pytest

from extrap.errors import DataError
from extrap.reading.selecting import expanded

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
    ],
)
def test_tau_is_written_in_the_columns_of_the_table(columns, formula):
    assert expanded([" tau "], columns, WHERE) == (formula,)


def test_other_formulas_stay():
    assert expanded(["tau = lr * wd", "x = lr"], [], WHERE) == ("tau = lr * wd", "x = lr")


def test_what_is_missing_is_named():
    with pytest.raises(DataError, match="no weight_decay and no steps"):
        expanded(["tau"], ["lr", "tokens", "batch_size"], WHERE)
