import io

import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.reading import read_runs
from extrap.reading.reader import read_sweep
from extrap.reading.request import Request

NAMES = {"size": "width", "tune": "lr"}


def table(**last):
    """A run whose cells are given, and three whole ones."""
    whole = {"width": [16, 32, 64], "lr": [0.1, 0.2, 0.4], "seed": [0, 1, 2], "loss": [3, 2, 1]}
    cells = {name: [last.get(name), *cells] for name, cells in whole.items()}
    return pd.DataFrame(cells, dtype=object)


@pytest.mark.parametrize(
    ("last", "status"),
    [
        ({}, None),  # crashed as it began
        ({"width": 8, "loss": None}, None),  # without the tuned value
        ({"loss": 5.0}, "crashed"),
        ({"width": 8, "loss": 5.0}, "pruned"),
    ],
)
def test_a_run_without_settings_that_came_to_nothing_is_left_out(last, status):
    source = table(**last)
    if status is not None:
        source["State"] = [status, *["finished"] * 3]
    for each in (source, io.StringIO(source.to_csv(index=False))):
        runs = read_runs(each, **NAMES)
        assert runs.to_frame()["width"].tolist() == [16.0, 32.0, 64.0]
        assert runs.data_hash() == read_runs(source[1:], **NAMES).data_hash()
        assert sum(note.startswith("1 run(s) without width") for note in runs.notes) == 1


def test_curves_stay_with_their_runs_where_one_is_left_out():
    points = {"run": [1, 1, 2, 3], "step": [0, 1, 1, 1], "loss": [9.0, 3.0, 2.0, 1.0]}
    curves = read_runs(table(), **NAMES, curves=pd.DataFrame(points)).curves()
    assert curves["run"].tolist() == [0, 0, 1, 2]


def n_early(source):
    """How many runs are left out because they end early."""
    notes = [note for note in read_runs(source, **NAMES).notes if "stop before 95 %" in note]
    return sum(int(note.split()[0]) for note in notes)


@pytest.mark.parametrize(
    ("ends", "n"),
    [((10, 10, 4, 10), 1), ((20, 20, 20, 19), 0), ((20, 20, 20, 18), 1), ((10, 8, 8, 7, 10), 3)],
)
def test_a_run_that_ends_before_the_others_of_its_size_is_left_out(ends, n):
    """Columns of runs of one size that end at such steps, and of one of a larger size at 3."""
    lines = [f"width=8,lr={number + 1}" for number, _ in enumerate(ends)] + ["width=16,lr=1"]
    header = ",".join(["Step", *(f'"{line} - loss"' for line in lines)])
    rows = (
        ",".join([str(step), *("2.5" if step <= end else "" for end in (*ends, 3))])
        for step in range(21)
    )
    source = "\n".join([header, *rows])
    assert n_early(io.StringIO(source)) == n
    runs = read_runs(io.StringIO(source), **NAMES)
    assert len(runs.complete()) == len(ends) + 1 - n
    assert len(read_runs(io.StringIO(source), **NAMES, partial=True).complete()) == len(ends) + 1


def test_runs_to_judge_may_have_any_length():
    runs = {"run": list("aaabbbc"), "step": [0, 1, 2, 0, 1, 2, 0], "width": 8}
    values = {"lr": [1, 1, 1, 2, 2, 2, 3], "loss": [4.0, 3.0, 2.5, 4.0, 3.0, 2.0, 4.0]}
    assert len(read_runs(pd.DataFrame({**runs, **values}), **NAMES, stage="check").complete()) == 3


def test_steps_that_follow_from_a_tuned_batch_are_no_early_end():
    cells = [(w, lr, b) for w in (16, 32, 64) for lr in (0.1, 0.2) for b in (4, 4, 4, 8)]
    runs = pd.DataFrame(cells, columns=["width", "lr", "batch_size"])
    runs["steps"] = 4000 / runs["batch_size"]
    runs["loss"] = [3 + i / 99 for i in range(len(runs))]
    kept = read_runs(runs, size="width", tune=("lr", "batch_size"), ignore="steps")
    assert len(kept.complete()) == len(runs)


def test_a_status_counts_more_than_the_steps():
    runs = pd.DataFrame({"width": [8] * 8 + [16], "lr": range(1, 10), "loss": 2.0})
    runs["steps"] = [100] * 7 + [60, 100]
    assert len(read_runs(runs, **NAMES).complete()) == 8
    told = runs.assign(state="finished")
    assert len(read_runs(told, **NAMES, ignore="steps").complete()) == 9


CRASHED = pd.DataFrame(
    [(w, x, 2.0 + 1 / w, 2000.0) for w in (16, 32, 64) for x in (0.1, 0.2, 0.4)]
    + [(w, 0.2, 4.0, 600.0) for w in (16, 32)],
    columns=["width", "lr", "loss", "reached"],
)
"""Nine whole runs of 2000 steps and two that crashed."""


@pytest.mark.parametrize(
    ("planned", "reached", "unit"),
    [
        ("steps", "last_step", 1),
        ("max_steps", "step", 1),
        ("total_steps", "final_step", 1),
        ("epochs", "last_epoch", 1 / 200),
        ("num_steps", "completed_steps", 1),
        ("max_tokens", "tokens_seen", 1e6),
        ("config.max_steps", "summary._step", 1),
        ("maxSteps", "lastStep", 1),
    ],
)
@pytest.mark.parametrize("first", [0, 1])
def test_runs_that_stop_before_their_own_steps_are_not_complete(planned, reached, unit, first):
    ends = CRASHED["reached"] * unit - (first == 0 and "tokens" not in reached)
    table = CRASHED.drop(columns="reached").assign(**{planned: 2000 * unit, reached: ends})
    runs, said = read_sweep(table, Request())
    assert (len(runs.complete()), runs.sizes, runs.tuned) == (9, ("width",), ("lr",))
    assert "2 of 11 runs" in said
    runs, said = read_sweep(table, Request(partial=True))
    assert (len(runs.complete()), "counted as complete" in said) == (11, True)


@pytest.mark.parametrize(
    ("column", "whole", "cut"),
    [("progress", 1, 0.3), ("percent_complete", "100%", "30%"), ("finished", True, False)],
)
def test_a_share_of_its_steps_says_that_a_run_is_not_complete(column, whole, cut):
    shares = [whole if end == 2000 else cut for end in CRASHED["reached"]]
    table = CRASHED.drop(columns="reached").assign(**{column: shares})
    for source in (table, io.StringIO(table.to_csv(index=False))):
        assert len(read_runs(source, **NAMES).complete()) == 9


def test_most_runs_that_stop_before_their_own_steps_are_asked_about():
    ends = [2000, *range(500, 1500, 100)]
    table = CRASHED.drop(columns="reached").assign(steps=2000, last_step=ends)
    with pytest.raises(DataError) as caught:
        read_runs(table)
    (choice,) = caught.value.choices
    assert len(read_runs(table, **choice.arguments).complete()) == 11


@pytest.mark.parametrize(
    "ends", [{"epochs": 3, "last_epoch": 2}, {"max_tokens": 5, "tokens_seen": 4.9e9}]
)
def test_columns_of_other_units_or_counted_from_zero_cut_no_run(ends):
    table = CRASHED[CRASHED["reached"] == 2000].drop(columns="reached").assign(**ends)
    assert len(read_runs(table).complete()) == 9
