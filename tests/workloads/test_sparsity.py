"""The workload of `studies/sparsity`."""

from pathlib import Path

import pytest
import torch

from extrap.files import import_source
from extrap.records import Cell, Recipe, Workload
from extrap.training import Pack, train
from extrap.workloads import load_workload

FILE = Path(__file__).parents[2] / "studies" / "sparsity" / "workloads.py"
WIDTH = {"width": 16.0}


def load(**options):
    return load_workload(Workload(name=f"{FILE}:SparseBytesMLP", options=options))


@pytest.fixture(scope="module")
def own():
    """The module of the file."""
    return import_source(FILE, "sparse_workloads")


@pytest.fixture(scope="module")
def halved():
    return load(density=0.5, fall=0.0, activations=0.25)


def test_the_largest_weights_are_kept_and_no_others(own):
    weight = torch.randn(3, 40, 50, generator=torch.Generator().manual_seed(0))
    kept = own.keep_largest(weight, torch.tensor([0.1, 0.5, 1.0]))
    for run, share in enumerate((0.1, 0.5, 1.0)):
        is_kept = kept[run] != 0
        assert is_kept.float().mean().item() == pytest.approx(share, abs=1 / 2000)
        assert torch.equal(kept[run][is_kept], weight[run][is_kept])
        left = weight[run][~is_kept].abs()
        assert not len(left) or left.max() < kept[run][is_kept].abs().min()


def test_every_weight_learns_from_the_kept_ones_and_the_kept_activations(own):
    rng = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(6, n, generator=rng, requires_grad=True) for n in (8, 8))
    kept = own.keep_largest(weight, torch.tensor(0.25))
    y = own._Product.apply(x, weight, kept, 0.5)
    assert torch.equal(y, x @ kept.T)
    g = torch.randn(6, 6, generator=rng)
    by_x, by_weight = torch.autograd.grad(y, (x, weight), g)
    largest = own.largest_of_rows(x.detach(), 0.5)
    assert (largest != 0).sum(1).tolist() == [4] * 6
    torch.testing.assert_close(by_x, g @ kept)
    torch.testing.assert_close(by_weight, g.T @ largest)
    assert (by_weight[kept == 0] != 0).any()


def test_a_pack_trains_what_each_run_trains_alone(halved):
    recipe = Recipe(steps=6, batch_size=16, optimizer="adamw", n_evals=2)
    drawn = ((0.01, 0), (0.01, 1), (0.1, 0))
    cells = tuple(Cell.of(WIDTH, {"lr": lr}, seed) for lr, seed in drawn)

    def losses(*own):
        pack = Pack(workload=halved, size=WIDTH, recipe=recipe, cells=own)
        return [run.loss for run in train(pack, device="cpu")]

    alone = [loss for cell in cells for loss in losses(cell)]
    assert losses(*cells) == pytest.approx(alone, rel=1e-5)
    assert len(set(alone)) == 3


def test_density_falls_steeply_at_first_with_the_updates_that_were_made():
    falling = load(density=0.1, updates=100, fall=0.5)
    updates = torch.tensor([0.0, 25.0, 50.0, 99.0])
    assert falling.density_after(updates).tolist() == pytest.approx([1, 0.1 + 0.9 / 8, 0.1, 0.1])
    assert falling.mean_density == pytest.approx(0.1 + 0.9 * 0.5 / 4, abs=0.01)
    module = falling.build(WIDTH)
    batch = falling.examples(falling.training, torch.arange(4))
    for _ in range(3):
        falling.loss(module, batch)
    falling.loss(module.eval(), batch)
    assert module.updates == 3


def test_costs_by_count_are_those_that_were_published():
    """At width 1024: 80 % of the FLOPs, 50 to 90 % for weights, 23 % or more for activations."""
    dense, sparse = load(density=1.0, activations=1.0), load(density=0.1)
    wide = {"width": 1024.0}
    n_params = dense.n_params(wide)
    assert dense.flops(wide, 10) == pytest.approx(6 * 10 * n_params)
    assert dense.weight_bytes(wide) == 4 * dense.n_params_total(wide)
    assert sparse.flops(wide, 10) <= 0.2 * dense.flops(wide, 10)
    assert 0.1 <= sparse.weight_bytes(wide) / dense.weight_bytes(wide) <= 0.5
    assert sparse.activation_bytes(wide) <= 0.77 * dense.activation_bytes(wide)
    # by hand: mean density .15625, first matrix 256 × 1024, two hidden ones, the last 1024 × 256
    first, inner = 256 * 1024, 2 * 1024**2 + 1024 * 256
    kept = (2 * sparse.mean_density * (first + inner) + first + 0.15 * inner) / 3
    assert sparse.mean_density == pytest.approx(0.1 + 0.9 * 0.25 / 4, abs=0.001)
    assert sparse.flops(wide, 1) == pytest.approx(6 * (n_params - first - inner + kept))


def test_a_run_records_the_flops_that_its_workload_counts(halved):
    pack = Pack(
        workload=halved,
        size=WIDTH,
        recipe=Recipe(steps=2, batch_size=4, n_evals=1),
        cells=(Cell.of(WIDTH, {"lr": 0.01}, 0),),
    )
    (run,) = train(pack, device="cpu")
    assert run.flops == halved.flops(WIDTH, 8) < 6 * 8 * halved.n_params(WIDTH)


def test_an_impossible_density_is_refused():
    with pytest.raises(ValueError, match="90 % sparse"):
        load(density=90)
