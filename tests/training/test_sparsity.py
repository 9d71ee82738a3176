import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from extrap.records import Cell, Recipe
from extrap.training import Pack
from extrap.training.schedules import multiplier
from extrap.training.sparsity import keep_largest
from extrap.training.stacks import DATA_STREAM, Stack

CPU = torch.device("cpu")
SPARSE = {"density": 0.2, "activation_density": 0.5, "sparsify": 0.5, "mask_every": 3}


def pack_of(workload, *, rates=(0.01, 0.03), **recipe):
    size = {"width": 8.0}
    cells = tuple(Cell.of(size, {"lr": lr}, seed) for lr in rates for seed in (0, 1))
    made = Recipe(**{"steps": 12, "batch_size": 8, "n_evals": 3, **recipe})
    return Pack(workload=workload, size=size, recipe=made, cells=cells)


def trained(pack, *ends, dtype=torch.float32, **stack):
    made, done = Stack(pack, CPU, dtype=dtype, **stack), 0
    for end in ends:
        made.advance(done, end)
        done = end
    return made


def assert_same(found, expected, rows=slice(None)):
    for key, value in found.parameters().items():
        assert torch.equal(value, expected.parameters()[key][rows])


def assert_close(found, expected):
    for key, value in found.parameters().items():
        torch.testing.assert_close(value, expected.parameters()[key], rtol=1e-9, atol=1e-11)


class _TopWeights(torch.autograd.Function):
    """SWAT-U's layer as the paper's algorithm has it, for one run and plain matrices."""

    @staticmethod
    def forward(ctx, x, weight, bias, least, activation_density):
        kept = weight * (weight.abs() >= least)
        if activation_density < 1:
            n = math.ceil(activation_density * x.shape[1])
            top = x.abs().topk(n, dim=1).indices
            saved = torch.zeros_like(x).scatter(1, top, x.gather(1, top))
        else:
            saved = x
        ctx.save_for_backward(saved, kept)
        return x @ kept.T + bias

    @staticmethod
    def backward(ctx, g):
        saved, kept = ctx.saved_tensors
        return g @ kept, g.T @ saved, g.sum(0), None, None


def _least(weight, density):
    if density == 1:
        return 0.0
    n = math.ceil(density * weight.numel())
    return float(weight.abs().flatten().sort(descending=True).values[n - 1])


def train_plainly(pack, cell, steps):
    """One run of a byte MLP in double precision, layer by layer, with torch's own Adam."""
    workload, recipe = pack.workload, pack.recipe
    torch.manual_seed(cell.seed)
    module = workload.build(pack.model_size()).double()
    layers = [*module.mlp.hidden, module.mlp.output]
    optimizer = torch.optim.Adam(module.parameters(), lr=1.0)
    generator = torch.Generator().manual_seed(cell.seed + DATA_STREAM)
    for step in range(steps):
        x, y = workload.examples(workload.training, workload.draw(recipe.batch_size, generator))
        if step % recipe.mask_every == 0:
            density = recipe.density_at(step)
            least = [_least(layer.weight.detach(), density) for layer in layers]
        h = module.embedding(x).flatten(1)
        for i, (layer, own) in enumerate(zip(layers, least, strict=True)):
            share = 1.0 if i == 0 else recipe.activation_density
            h = _TopWeights.apply(h, layer.weight, layer.bias, own, share)
            h = h if layer is layers[-1] else h.relu()
        optimizer.zero_grad()
        nn.functional.cross_entropy(h, y).backward()
        optimizer.param_groups[0]["lr"] = dict(cell.tuned)["lr"] * multiplier(recipe, step)
        optimizer.step()
    return {name: p.detach() for name, p in module.named_parameters()}


@pytest.mark.parametrize(
    "recipe", [SPARSE, {"density": 0.2, "mask_every": 1}, {"activation_density": 0.3}]
)
def test_a_sparse_run_is_the_papers_algorithm(tiny, recipe):
    pack = pack_of(tiny("bytes-mlp"), **recipe)
    found = trained(pack, 12, dtype=torch.float64).parameters()
    for m, cell in enumerate(pack.cells):
        for name, expected in train_plainly(pack, cell, 12).items():
            torch.testing.assert_close(found[name][m], expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", ["bytes-mlp", "bytes-transformer", "digits", "teacher"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_neighbours_and_their_order_change_no_bit(tiny, name, optimizer):
    pack = pack_of(tiny(name), optimizer=optimizer, **SPARSE)
    together, order = trained(pack, 12), [3, 0, 2, 1]
    shuffled = replace(pack, cells=tuple(pack.cells[i] for i in order))
    assert_same(trained(shuffled, 12), together, order)
    assert_same(trained(replace(pack, cells=pack.cells[1:2]), 12), together, [1])


def test_dropping_runs_and_stopping_on_the_way_change_no_bit(tiny):
    pack = pack_of(tiny("bytes-mlp"), **SPARSE)
    whole, parts = trained(pack, 12), trained(pack, 4, 7)
    parts.evaluate()
    parts.keep([1, 3])
    parts.advance(7, 12)
    assert_same(parts, whole, [1, 3])
    assert parts.evaluate() == [whole.evaluate()[i] for i in (1, 3)]


@pytest.mark.parametrize("step", [3, 12])
def test_held_out_losses_are_those_of_exactly_the_weights_kept_at_that_step(tiny, step):
    workload = tiny("bytes-mlp")
    pack = pack_of(workload, **SPARSE)
    stack, density = trained(pack, step), pack.recipe.density_at(step)
    assert (density == 0.2) == (step == 12)
    for m, loss in enumerate(stack.evaluate()):
        module = workload.build({"width": 8})
        state = {k: v[m] for k, v in stack.parameters().items()}
        for name, value in state.items():
            if name.startswith("mlp") and name.endswith("weight"):
                state[name] = keep_largest(value[None], density)[0]
                assert int((state[name] != 0).sum()) == math.ceil(density * value.numel())
        module.load_state_dict(state)
        with torch.no_grad():
            assert loss == pytest.approx(workload.loss(module, workload.validation).item())


def test_before_its_first_step_a_run_is_dense(tiny):
    dense = Stack(pack_of(tiny("bytes-mlp")), CPU)
    stack = Stack(pack_of(tiny("bytes-mlp"), **SPARSE), CPU)
    assert stack.evaluate_initial() == stack.evaluate() == dense.evaluate()


def test_vmap_is_refused_where_activations_are_sparse(tiny):
    with pytest.raises(ValueError, match="activation_density"):
        Stack(pack_of(tiny("bytes-mlp"), activation_density=0.5), CPU, run_axis=False)


def test_a_measured_step_of_a_sparse_run_is_the_plain_one_but_for_rounding(tiny):
    """Activations are left out example by example, so the parts of a batch add up to it."""
    plain, noisy = (
        trained(pack_of(tiny("bytes-mlp"), **SPARSE, **noise), 12, dtype=torch.float64)
        for noise in ({}, {"noise_every": 2})
    )
    assert_close(noisy, plain)
    assert all(g is not None for g in noisy.gradient_moments())


def test_thresholds_keep_what_they_should_and_nearly_so_in_between(tiny):
    pack = pack_of(tiny("bytes-mlp"), density=0.2, mask_every=4, rates=(0.003,))
    stack, shares = Stack(pack, CPU), []
    for update in range(12):
        stack.advance(update, update + 1)
        shares.append(stack.kept_share())
    exact = shares[::4]
    assert exact == pytest.approx([exact[0]] * 3)
    assert exact[0] == pytest.approx(0.2, abs=0.01)
    assert shares == pytest.approx([0.2] * 12, rel=0.2)
    assert trained(pack_of(tiny("bytes-mlp")), 1).kept_share() == 1.0
