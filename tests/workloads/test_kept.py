from types import SimpleNamespace

import numpy as np
import pytest
import torch

from extrap.records import Cell, Recipe, Workload
from extrap.training import Pack, train
from extrap.training.stacks import Stack
from extrap.workloads import load_workload, take_rows
from tests.study_workloads import DIGITS

CPU = torch.device("cpu")
NAMES = pytest.mark.parametrize(
    "name", ["bytes-mlp", "bytes-transformer", "digits", "images", "teacher"]
)


def rows_of(workload, n, seed=0):
    return take_rows(workload, n, [seed])[0]


@NAMES
def test_a_run_has_as_many_different_examples_as_asked(tiny, name):
    workload = tiny(name)
    rows = rows_of(workload, 30)
    assert rows.dtype == np.int64
    assert len(np.unique(rows)) == 30
    assert set(rows_of(workload, 12)) < set(rows)
    assert not np.array_equal(rows, rows_of(workload, 30, seed=1))
    assert take_rows(workload, None, [0, 1]) is None
    with pytest.raises(ValueError, match="ask for fewer"):
        take_rows(workload, 10**7, [0])


def test_a_workload_that_cannot_choose_says_so():
    bare = SimpleNamespace(n_training_tokens=5)
    assert take_rows(bare, None, [0]) is None
    with pytest.raises(ValueError, match="kept_rows"):
        take_rows(bare, 5, [0])


def train_losses(size):
    size = {**size, "width": 8.0}
    cells = tuple(Cell.of(size, {"lr": lr}, seed) for lr in (0.01, 0.1) for seed in (0, 1))
    pack = Pack(
        workload=load_workload(Workload(name=DIGITS)),
        size=size,
        recipe=Recipe(steps=30, batch_size=16, n_evals=2),
        cells=cells,
    )
    results = train(pack)
    assert {r.epochs for r in results} == {30 * 16 / size["examples"]}
    return [r.loss or np.nan for r in results]


def test_training_sees_the_kept_examples_alone():
    workload = load_workload(Workload(name=DIGITS))
    size = {"examples": 10.0, "width": 8.0}
    cells = tuple(Cell.of(size, {"lr": 0.1}, seed) for seed in (3, 5))
    stack = Stack(Pack(workload=workload, size=size, recipe=Recipe(), cells=cells), CPU)
    rows_KSB = stack._draw(20, 16)
    for s, seed in enumerate((3, 5)):
        assert set(rows_KSB[:, s].flatten().tolist()) == set(rows_of(workload, 10, seed))
    assert train_losses({"examples": 64.0}) == train_losses({"examples": 64.0})
    assert not np.allclose(train_losses({"examples": 64.0}), train_losses({"examples": 80.0}))
