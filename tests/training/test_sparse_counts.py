import pytest
import torch
from torch import nn

from extrap.records import Cell, Recipe
from extrap.training import Pack, flops_6nd, sparse_costs, train
from extrap.training.sparse_counts import run_flops
from extrap.workloads import TensorWorkload

B, CONTEXT, EMBEDDING, BYTES, H = 32, 16, 16, 256, 64
SHAPES = [(CONTEXT * EMBEDDING, H), (H, H), (H, H), (H, BYTES)]
MATRICES = sum(i * o for i, o in SHAPES)
BIASES = 3 * H + BYTES
SPARSE = {"density": 0.1, "activation_density": 0.2}


@pytest.fixture
def workload(tiny):
    return tiny("bytes-mlp", context=CONTEXT, embedding=EMBEDDING, depth=3)


def costs_of(workload, **recipe):
    return sparse_costs(workload, {"width": H}, Recipe(batch_size=B, **recipe))


def test_dense_training_takes_three_products_a_layer(workload):
    costs = costs_of(workload)
    one = 2.0 * B * MATRICES
    assert (costs.forward_flops, costs.input_flops, costs.weight_flops) == (one, one, one)
    assert costs.flops == costs.dense_flops == 3 * one
    assert costs.flops_saved == costs.weight_memory_saved == costs.activation_memory_saved == 0
    assert costs.n_kept == costs.n_params == MATRICES + BIASES
    assert costs.selected == 0


def test_each_product_goes_by_the_density_of_its_sparse_operand(workload):
    costs = costs_of(workload, **SPARSE)
    first = 2.0 * B * SHAPES[0][0] * SHAPES[0][1]  # the network's own input stays whole
    one = 2.0 * B * MATRICES
    assert costs.forward_flops == pytest.approx(0.1 * one)
    assert costs.input_flops == pytest.approx(0.1 * one)
    assert costs.weight_flops == pytest.approx(first + 0.2 * (one - first))
    assert costs.dense_flops == 3 * one
    assert costs_of(workload, **SPARSE, mask_every=4).selected == MATRICES * 1.25 + 3 * H * B
    assert costs.n_kept == round(0.1 * MATRICES) + BIASES


def test_memory_counts_kept_values_masks_and_what_stays_whole(workload):
    costs = costs_of(workload, **SPARSE)
    whole = 4 * (BIASES + BYTES * EMBEDDING)
    assert costs.dense_weight_bytes == 4 * MATRICES + whole
    assert costs.weight_bytes == pytest.approx(MATRICES * (0.4 + 1 / 8) + whole)
    inner = 3 * H * B  # inputs of the layers above the first
    saved = costs.dense_activation_bytes - costs.activation_bytes
    assert saved == pytest.approx(inner * (4 - 0.8 - 2 / 8))
    # input, hidden activations, probabilities of the 256 bytes; indices and targets beside
    floats = 4 * B * (CONTEXT * EMBEDDING + 3 * H + BYTES)
    assert floats < costs.dense_activation_bytes < 1.2 * floats


def test_the_way_to_the_density_counts(workload):
    """A cubic fall from 1 over half of the updates keeps 1/8 more of what is to go on average."""
    costs = costs_of(workload, **SPARSE, sparsify=0.5, mask_every=1, steps=4000)
    mean = 0.1 + 0.9 * 0.5 / 4
    assert costs.forward_flops == pytest.approx(2.0 * B * MATRICES * mean, rel=1e-3)
    assert costs.final_weight_bytes == pytest.approx(costs_of(workload, **SPARSE).weight_bytes)
    assert costs.weight_bytes > costs.final_weight_bytes


def test_ninety_percent_sparse_saves_what_was_published(workload):
    """At width 1024: 80 % of the FLOPs, 50 to 90 % for weights, 23 % or more for activations."""
    recipe = Recipe(batch_size=128, **SPARSE)
    costs = sparse_costs(workload, {"width": 1024}, recipe)
    assert costs.flops_saved >= 0.8
    assert 0.5 <= costs.weight_memory_saved <= 0.9
    assert costs.activation_memory_saved >= 0.23


def test_a_run_records_6nd_where_it_is_dense_and_less_where_it_is_sparse(workload):
    size = {"width": float(H)}
    cells = (Cell.of(size, {"lr": 0.01}, 0),)
    found = {}
    for name, recipe in {"dense": {}, "sparse": SPARSE}.items():
        made = Recipe(steps=2, batch_size=B, n_evals=1, **recipe)
        pack = Pack(workload=workload, size=size, recipe=made, cells=cells)
        (found[name],) = train(pack, device="cpu")
    n_params = MATRICES + BIASES
    assert found["dense"].flops == flops_6nd(n_params, 2 * B)
    first = SHAPES[0][0] * SHAPES[0][1]
    kept = (2 * 0.1 * MATRICES + 0.2 * (MATRICES - first) + first) / 3
    assert found["sparse"].flops == pytest.approx(6.0 * (BIASES + kept) * 2 * B)


class _Plain(TensorWorkload):
    def build(self, size):
        return nn.Linear(4, int(size["width"]))

    def loss(self, module, batch):
        return module(batch[0]).square().mean()


def test_a_model_without_our_layers_is_refused_and_its_runs_are_counted_by_matrices():
    x = torch.ones(6, 4)
    plain = _Plain(training=(x,), validation=(x,))
    with pytest.raises(ValueError, match=r"layers\.linear"):
        sparse_costs(plain, {"width": 8}, Recipe(**SPARSE))
    recipe = Recipe(steps=3, batch_size=2, density=0.25)
    assert run_flops(plain, {"width": 8}, recipe) == pytest.approx(6 * 6 * (8 + 32 * 1.5 / 3))
