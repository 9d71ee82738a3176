import pytest
import torch

from extrap.records import Cell, Recipe
from extrap.training import Pack, train
from extrap.training.layouts import without_denormals


@pytest.fixture(params=[False, True])
def before(request):
    """Whether denormals are taken for 0 already."""
    if not torch.set_flush_denormal(request.param):
        pytest.skip("this processor cannot take denormals for 0")
    yield request.param
    torch.set_flush_denormal(False)


def product():
    return (torch.full((8,), 1e-30) * 1e-10).sum().item()


def test_denormals_are_zero_inside_and_what_they_were_outside_even_after_an_error(before):
    outside = product()
    assert (outside == 0.0) == before
    with without_denormals():
        assert product() == 0.0
        with pytest.raises(KeyError), without_denormals():
            raise KeyError
        assert product() == 0.0
    assert product() == outside


def test_training_takes_them_for_zero_and_leaves_the_setting(before, tiny):
    size = {"width": 4}
    pack = Pack(
        workload=tiny("bytes-mlp"),
        size=size,
        recipe=Recipe(steps=2, batch_size=4, n_evals=2),
        cells=(Cell.of(size, {"lr": 0.01}, 0),),
    )
    seen = []
    train(pack, on_eval=lambda *_: seen.append(product()))
    assert seen == [0.0, 0.0]
    assert (product() == 0.0) == before
