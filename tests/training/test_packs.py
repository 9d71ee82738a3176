from __future__ import annotations

import pytest

from extrap.records import Cell, Recipe, Workload
from extrap.training import Pack
from extrap.workloads import load_workload

WORKLOAD = load_workload(Workload(name="teacher"))


def pack_of(*tuned: dict[str, float], size: dict[str, float] | None = None) -> Pack:
    size = size or {"width": 4}
    cells = tuple(Cell.of(size, values, 0) for values in tuned)
    return Pack(workload=WORKLOAD, size=size, recipe=Recipe(steps=10, batch_size=8), cells=cells)


def test_each_run_has_its_own_recipe() -> None:
    pack = pack_of({"lr": 0.1, "weight_decay": 0.2}, {"lr": 0.1, "weight_decay": 0.0})
    assert [recipe.weight_decay for recipe in pack.recipes()] == [0.2, 0.0]


def test_tokens_set_the_steps_and_are_no_size_of_the_model() -> None:
    pack = pack_of({"lr": 0.1, "batch_size": 4}, size={"width": 4, "tokens": 400})
    assert pack.recipes()[0].steps == 100
    assert pack.model_size() == {"width": 4}


def test_runs_of_different_lengths_are_no_pack() -> None:
    with pytest.raises(ValueError, match="one batch size and number of steps"):
        pack_of({"lr": 0.1, "batch_size": 4}, {"lr": 0.1, "batch_size": 8})


@pytest.mark.parametrize(
    ("tuned", "message"),
    [
        ([], "at least one cell"),
        ([{"beta1": 0.9}], "needs a learning rate"),
        ([{"lr": 0.1, "dropout": 0.1}], "training tunes lr and batch_size"),
        ([{"lr": 0.1, "warmup": 1.5}], "fit into 1"),
    ],
)
def test_a_pack_that_cannot_be_trained_is_refused(tuned: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pack_of(*tuned)


def test_all_runs_have_the_size_of_the_pack() -> None:
    cell = Cell.of({"width": 9}, {"lr": 0.1}, 0)
    with pytest.raises(ValueError, match="one size"):
        Pack(workload=WORKLOAD, size={"width": 8}, recipe=Recipe(), cells=(cell,))
