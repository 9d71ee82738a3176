from __future__ import annotations

import io
from typing import Any

import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs
from extrap.records import Runs

NAMES: dict[str, Any] = {"size": "width", "tune": "lr"}


def table(**last: Any) -> pd.DataFrame:
    """Three runs, and one whose cells are given."""
    whole = {"width": [16, 32, 64], "lr": [0.1, 0.2, 0.4], "seed": [0, 1, 2], "loss": [3, 2, 1]}
    return pd.DataFrame(
        {name: [last.get(name), *cells] for name, cells in whole.items()}, dtype=object
    )


@pytest.mark.parametrize(
    ("last", "status"),
    [
        ({}, None),  # crashed as it began
        ({"width": 8, "loss": None}, None),  # without the tuned value
        ({"loss": 5.0}, "crashed"),
        ({"width": 8, "loss": 5.0}, "pruned"),
    ],
)
def test_a_run_without_settings_that_came_to_nothing_is_left_out(
    last: dict[str, Any], status: str | None
) -> None:
    source = table(**last)
    if status is not None:
        source["State"] = [status, *["finished"] * 3]
    for each in (source, io.StringIO(source.to_csv(index=False))):
        runs = read_runs(each, **NAMES)
        assert runs.to_frame()["width"].tolist() == [16.0, 32.0, 64.0]
        assert runs.data_hash() == read_runs(source[1:], **NAMES).data_hash()
        assert "1 run(s) without width or lr and without a result: left out" in runs.notes


@pytest.mark.parametrize("loss", [5.0, float("nan")])
def test_a_run_without_settings_that_has_a_loss_is_an_error(loss: float) -> None:
    with pytest.raises(DataError, match="lr must be filled in for every run, row 1 has none"):
        read_runs(table(width=8, loss=loss), **NAMES)


def test_curves_stay_with_their_runs_where_one_is_left_out() -> None:
    source = table()
    points = pd.DataFrame(
        {"run": [1, 1, 2, 3], "step": [0, 1, 1, 1], "loss": [9.0, 3.0, 2.0, 1.0]}
    )
    curves = read_runs(source, **NAMES, curves=points).curves()
    assert curves is not None
    assert curves["run"].tolist() == [0, 0, 1, 2]


def chart(*ends: int) -> str:
    """Lines of runs of one size that end at such steps, and of one of a larger size at step 3."""
    lines = [f"width=8,lr={number + 1}" for number, _ in enumerate(ends)] + ["width=16,lr=1"]
    header = ",".join(["Step", *(f'"{line} - loss"' for line in lines)])
    rows = [
        ",".join([str(step), *("2.5" if step <= end else "" for end in (*ends, 3))])
        for step in range(11)
    ]
    return "\n".join([header, *rows])


def told(runs: Runs) -> list[str]:
    return [note for note in runs.notes if "no status is known" in note]


def test_a_run_that_ends_early_is_told_of_where_nothing_says_how_it_ended() -> None:
    runs = read_runs(io.StringIO(chart(10, 10, 4, 10)), **NAMES)
    assert len(told(runs)) == 1
    assert told(runs)[0].startswith("1 run(s) of which no status is known end before 90%")
    assert told(read_runs(io.StringIO(chart(10, 10, 10, 9)), **NAMES)) == []


@pytest.mark.parametrize(("status", "n_told"), [("finished", 0), ("", 1)])
def test_a_run_whose_end_is_known_is_not(status: str, n_told: int) -> None:
    steps = pd.DataFrame(
        {
            "run": ["a"] * 3 + ["b"] * 3 + ["c"],
            "step": [0, 1, 2, 0, 1, 2, 0],
            "width": 8,
            "lr": [1] * 3 + [2] * 3 + [3],
            "loss": [4.0, 3.0, 2.5, 4.0, 3.0, 2.0, 4.0],
            "state": [status] * 7,
        }
    )
    assert len(told(read_runs(steps, **NAMES))) == n_told
