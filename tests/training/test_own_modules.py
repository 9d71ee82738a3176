"""A user's own module, without a run axis: a run is the same in every pack."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

from extrap.records import Cell, Recipe
from extrap.training.checkpoints import Checkpoints
from extrap.training.layouts import Layout
from extrap.training.loop import train
from extrap.training.packs import Pack
from extrap.training.preemption import StopAsked
from extrap.workloads import TensorWorkload

SIZE = {"width": 7}  # no multiple of what a processor adds at once
RATES, SEEDS = (2**-2, 2**-4, 2**-6), (0, 1)
ORDER = (4, 1, 5, 0, 3, 2)
MODULES = {
    "convolution": lambda width: [
        nn.Unflatten(1, (1, 6, 8)),
        nn.Conv2d(1, width, 3, stride=2),
        nn.GroupNorm(1, width),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(6 * width, 5),
    ],
    "one pixel": lambda width: [
        nn.Unflatten(1, (48, 1, 1)),
        nn.Conv2d(48, width, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(width, 5),
    ],
    "batch norm": lambda width: [
        nn.Linear(48, width),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Linear(width, 5),
    ],
    "matrices": lambda width: [
        nn.Linear(48, width),
        nn.LayerNorm(width),
        nn.GELU(),
        nn.Linear(width, 5),
    ],
}


class Own(TensorWorkload):
    """A classifier of noise, which needs all its parameters to learn anything by heart."""

    def __init__(self, layers):
        draws = torch.Generator().manual_seed(0)
        x = torch.randn(300, 48, generator=draws)
        y = torch.randint(5, (300,), generator=draws)
        super().__init__(training=(x[:200], y[:200]), validation=(x[200:], y[200:]))
        self.layers = layers

    def build(self, size):
        return nn.Sequential(*self.layers(int(size["width"])))

    def loss(self, module, batch):
        return functional.cross_entropy(module(batch[0]), batch[1])


@pytest.fixture(scope="module", params=MODULES)
def pack(request):
    cells = tuple(Cell.of(SIZE, {"lr": lr}, seed) for lr in RATES for seed in SEEDS)
    recipe = Recipe(steps=24, batch_size=32, n_evals=4, optimizer="adam")
    return Pack(workload=Own(MODULES[request.param]), size=SIZE, recipe=recipe, cells=cells)


def curves(pack, at_once, checkpoints=None):
    layout = Layout(n_threads=torch.get_num_threads(), at_once=at_once)
    results = train(pack, device="cpu", layout=layout, checkpoints=checkpoints)
    return {result.cell: (result.initial_loss, result.curve) for result in results}


@pytest.fixture(scope="module")
def together(pack):
    return curves(pack, at_once=len(pack.cells))


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_however_stacks_are_cut(pack, together, at_once):
    assert curves(pack, at_once) == together


def test_wherever_in_a_stack_it_is(pack, together):
    assert curves(replace(pack, cells=tuple(pack.cells[i] for i in ORDER)), 6) == together


def test_with_however_many_threads(pack, together):
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        assert curves(pack, 3) == together
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_beside_others_after_a_stop(pack, together, tmp_path):
    asks = iter((False, False, True))  # before and after the first evaluation, before the second
    stops = Checkpoints(tmp_path, "study", is_stop_requested=lambda: next(asks, True))
    with pytest.raises(StopAsked):
        curves(replace(pack, cells=pack.cells[:1]), 1, stops)
    assert len(list(tmp_path.iterdir())) == 1
    assert curves(pack, 6, Checkpoints(tmp_path, "study")) == together
