import io

import pandas as pd
import pytest

from extrap.reading import read_runs

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
