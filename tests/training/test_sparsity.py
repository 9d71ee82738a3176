from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from extrap.records import Cell, Recipe
from extrap.training import Pack
from extrap.training.schedules import multiplier
from extrap.training.sparsity import keep_largest
from extrap.training.stacks import DATA_STREAM, Stack
from extrap.workloads import LoadedWorkload

CPU = torch.device("cpu")
Tiny = Callable[..., LoadedWorkload]
SPARSE = {"density": 0.2, "activation_density": 0.5, "sparsify": 0.5, "mask_every": 3}


def pack_of(
    workload: LoadedWorkload, *, rates: tuple[float, ...] = (0.01, 0.03), **recipe
) -> Pack:
    size = {"width": 8.0}
    cells = tuple(Cell.of(size, {"lr": lr}, seed) for lr in rates for seed in (0, 1))
    made = Recipe(**{"steps": 12, "batch_size": 8, "n_evals": 3, **recipe})
    return Pack(workload=workload, size=size, recipe=made, cells=cells)


def trained(pack: Pack, *ends: int, dtype: torch.dtype = torch.float32, **stack) -> Stack:
    made, done = Stack(pack, CPU, dtype=dtype, **stack), 0
    for end in ends:
        made.advance(done, end)
        done = end
    return made


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


def _least(weight: torch.Tensor, density: float) -> float:
    if density == 1:
        return 0.0
    n = math.ceil(density * weight.numel())
    return float(weight.abs().flatten().sort(descending=True).values[n - 1])


def train_plainly(pack: Pack, cell: Cell, steps: int) -> dict[str, torch.Tensor]:
    """One run of a byte MLP in double precision, layer by layer, with torch's own Adam."""
    workload, recipe = pack.workload, pack.recipe
    torch.manual_seed(cell.seed)
    module = workload.build(pack.model_size()).double()
    layers = [*module.mlp.hidden, module.mlp.output]
    optimizer = torch.optim.Adam(module.parameters(), lr=1.0)
    generator = torch.Generator().manual_seed(cell.seed + DATA_STREAM)
    least: list[float] = []
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
def test_a_sparse_run_is_the_papers_algorithm(tiny: Tiny, recipe: dict) -> None:
    pack = pack_of(tiny("bytes-mlp"), **recipe)
    found = trained(pack, 12, dtype=torch.float64).parameters()
    for m, cell in enumerate(pack.cells):
        for name, expected in train_plainly(pack, cell, 12).items():
            torch.testing.assert_close(found[name][m], expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", ["bytes-mlp", "bytes-transformer", "digits", "teacher"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_neighbours_and_their_order_change_no_bit(tiny: Tiny, name: str, optimizer: str) -> None:
    pack = pack_of(tiny(name), optimizer=optimizer, **SPARSE)
    together = trained(pack, 12).parameters()
    order = [3, 0, 2, 1]
    shuffled = trained(replace(pack, cells=tuple(pack.cells[i] for i in order)), 12).parameters()
    alone = trained(replace(pack, cells=pack.cells[1:2]), 12).parameters()
    for key, value in together.items():
        assert torch.equal(value[order], shuffled[key])
        assert torch.equal(value[1], alone[key][0])


def test_dropping_runs_and_stopping_on_the_way_change_no_bit(tiny: Tiny) -> None:
    pack = pack_of(tiny("bytes-mlp"), **SPARSE)
    whole = trained(pack, 12)
    parts = trained(pack, 4, 7)
    parts.evaluate()
    parts.keep([1, 3])
    parts.advance(7, 12)
    for key, value in whole.parameters().items():
        assert torch.equal(value[[1, 3]], parts.parameters()[key])
    assert parts.evaluate() == [whole.evaluate()[i] for i in (1, 3)]


def test_held_out_losses_are_those_of_exactly_the_kept_weights(tiny: Tiny) -> None:
    workload = tiny("bytes-mlp")
    pack = pack_of(workload, **SPARSE)
    stack = trained(pack, 12)
    for m, loss in enumerate(stack.evaluate()):
        module = workload.build({"width": 8})
        state = {k: v[m] for k, v in stack.parameters().items()}
        for name, value in state.items():
            if name.startswith("mlp") and name.endswith("weight"):
                state[name] = keep_largest(value[None], 0.2)[0]
                assert int((state[name] != 0).sum()) == math.ceil(0.2 * value.numel())
        module.load_state_dict(state)
        with torch.no_grad():
            assert loss == pytest.approx(workload.loss(module, workload.validation).item())


def test_weights_that_are_left_out_are_updated_too(tiny: Tiny) -> None:
    pack = pack_of(tiny("bytes-mlp"), density=0.1, optimizer="sgd")
    before = Stack(pack, CPU).parameters()["mlp.hidden.1.weight"]
    stack = trained(pack, 1)
    after = stack.parameters()["mlp.hidden.1.weight"]
    left_out = keep_largest(before, 0.1) == 0
    assert (after != before)[left_out].float().mean() > 0.1


def test_density_one_is_dense_training(tiny: Tiny) -> None:
    dense = trained(pack_of(tiny("bytes-mlp")), 12).parameters()
    same = trained(pack_of(tiny("bytes-mlp"), sparsify=0.5, mask_every=2), 12).parameters()
    for key, value in dense.items():
        assert torch.equal(value, same[key])


def test_vmap_gives_what_the_run_axis_gives_where_weights_alone_are_sparse(tiny: Tiny) -> None:
    recipe = {"density": 0.2, "mask_every": 2}
    pack = pack_of(tiny("bytes-mlp"), **recipe)
    native, mapped = (
        trained(pack, 8, dtype=torch.float64, run_axis=axis).parameters() for axis in (True, False)
    )
    for key, value in native.items():
        torch.testing.assert_close(mapped[key], value, rtol=1e-9, atol=1e-11)


def test_sparse_activations_need_a_run_axis(tiny: Tiny) -> None:
    pack = pack_of(tiny("bytes-mlp"), activation_density=0.5)
    with pytest.raises(ValueError, match="activation_density needs a model with a run axis"):
        Stack(pack, CPU, run_axis=False)


def test_a_measured_step_of_a_sparse_run_is_the_plain_one_but_for_rounding(tiny: Tiny) -> None:
    """Activations are left out example by example, so the parts of a batch add up to it."""
    plain = trained(pack_of(tiny("bytes-mlp"), **SPARSE), 12, dtype=torch.float64)
    noisy = trained(pack_of(tiny("bytes-mlp"), **SPARSE, noise_every=2), 12, dtype=torch.float64)
    for key, value in plain.parameters().items():
        torch.testing.assert_close(noisy.parameters()[key], value, rtol=1e-9, atol=1e-11)
    assert all(g is not None for g in noisy.gradient_moments())


def test_mup_scales_a_sparse_model_too(tiny: Tiny) -> None:
    pack = pack_of(tiny("bytes-mlp"), **SPARSE, parametrization="mup", base_width=8)
    same = pack_of(tiny("bytes-mlp"), **SPARSE)
    for key, value in trained(same, 12).parameters().items():
        assert torch.equal(trained(pack, 12).parameters()[key], value)


def test_thresholds_keep_what_they_should_and_nearly_so_in_between(tiny: Tiny) -> None:
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


def test_on_the_way_a_run_is_judged_with_the_density_it_has_there(tiny: Tiny) -> None:
    pack = pack_of(tiny("bytes-mlp"), **SPARSE)
    dense = Stack(pack_of(tiny("bytes-mlp")), CPU)
    stack = Stack(pack, CPU)
    assert stack.evaluate_initial() == stack.evaluate() == dense.evaluate()
    stack.advance(0, 3)
    now = stack._sparse.largest(list(stack.parameters().values()), 3)
    shares = [float((t != 0).float().mean()) for t in now if t.dim() > 2]
    assert min(shares) < pack.recipe.density_at(3) + 0.02
    assert stack.evaluate() != Stack(pack, CPU).evaluate()
    evaluated = stack._evaluate(now, stack._buffers, None)
    assert stack.evaluate() == evaluated
