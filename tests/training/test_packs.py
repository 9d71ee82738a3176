from dataclasses import replace

import pytest

from extrap.records import Cell, Recipe, Workload
from extrap.training import Pack
from extrap.workloads import load_workload

WORKLOAD = load_workload(Workload(name="teacher"))


def pack_of(*tuned, size=None):
    size = size or {"width": 4}
    cells = tuple(Cell.of(size, values, 0) for values in tuned)
    return Pack(workload=WORKLOAD, size=size, recipe=Recipe(steps=10, batch_size=8), cells=cells)


def test_tokens_set_the_steps_and_are_no_size_of_the_model():
    pack = pack_of({"lr": 0.1, "batch_size": 4}, size={"width": 4, "tokens": 400})
    assert pack.recipes()[0].steps == 100
    assert pack.model_size() == {"width": 4}


@pytest.mark.parametrize(
    ("tuned", "message"),
    [
        ([], "at least one cell"),
        ([{"beta1": 0.9}], "a learning rate"),
        ([{"lr": 0.1, "dropout": 0.1}], "dropout"),
        ([{"lr": 0.1, "warmup": 1.5}], "warmup"),
        ([{"lr": 0.1, "batch_size": 4}, {"lr": 0.1, "batch_size": 8}], "same batch size"),
    ],
)
def test_a_pack_that_cannot_be_trained_is_refused(tuned, message):
    with pytest.raises(ValueError, match=message):
        pack_of(*tuned)
    with pytest.raises(ValueError, match="same size"):
        replace(pack_of({"lr": 0.1}), size={"width": 8})
