import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

from extrap.records import Cell, Recipe
from extrap.records.schedules import multiplier
from extrap.training import Pack
from extrap.training.stacks import DATA_STREAM, Stack
from extrap.workloads import WORKLOADS, TensorWorkload, tensor_roles

from .test_optimizers import theirs

CPU = torch.device("cpu")
OPTIMIZERS = ("sgd", "adam", "adamw", "muon")
NAMES = sorted([*WORKLOADS, "images", "teacher"])
NO_MATRIX = ("teacher",)  # for Muon
EACH = [(n, o) for n in NAMES for o in OPTIMIZERS if o != "muon" or n not in NO_MATRIX]
RATES = (0.001, 0.01, 0.03)


def pack_of(workload, *, tuned=tuple({"lr": lr} for lr in RATES), seeds=(0, 1), **recipe):
    size = {"width": 8.0}
    cells = tuple(Cell.of(size, values, seed) for values in tuned for seed in seeds)
    made = Recipe(**{"steps": 30, "batch_size": 4, "n_evals": 3, **recipe})
    return Pack(workload=workload, size=size, recipe=made, cells=cells)


def trained(pack, steps=30, dtype=torch.float32, **stack):
    made = Stack(pack, CPU, dtype=dtype, **stack)
    made.advance(0, steps)
    return made.parameters()


def doubled(tensors):
    return tuple(t.double() if t.is_floating_point() else t for t in tensors)


def train_plainly(pack, cell, recipe, steps):
    """One run in double precision as anyone would write it, with torch's own optimisers."""
    workload, lr = pack.workload, dict(cell.tuned)["lr"]
    torch.manual_seed(cell.seed)
    module = workload.build(pack.model_size()).double()
    named = dict(module.named_parameters())
    roles = tensor_roles(workload.build, pack.model_size())
    is_hidden = [roles[name] == "hidden" and p.dim() == 2 for name, p in named.items()]
    optimizers = theirs(recipe, list(named.values()), lr, is_hidden)
    generator = torch.Generator().manual_seed(cell.seed + DATA_STREAM)
    for step in range(steps):
        rows = workload.draw_batches(1, recipe.phase_at(step).batch_size, generator)[0]
        batch = doubled(workload.examples(doubled(workload.training), rows))
        module.zero_grad()
        workload.loss(module, batch).backward()
        torch.nn.utils.clip_grad_norm_(named.values(), recipe.clip or math.inf)
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = lr * multiplier(recipe, step)
            optimizer.step()
    return {name: p.detach() for name, p in named.items()}


@pytest.mark.parametrize(("name", "optimizer"), EACH)
def test_a_packed_run_is_a_plain_loop_with_torchs_optimiser(tiny, name, optimizer):
    tuned = (
        {"lr": 0.001, "weight_decay": 0.1, "clip": 0.5, "warmup": 0.0},
        {"lr": 0.02, "weight_decay": 0.0, "clip": 0.0, "warmup": 0.5},
    )
    pack = pack_of(tiny(name), tuned=tuned, optimizer=optimizer, steps=12)
    found = trained(pack, 12, torch.float64)
    # Muon iterates in bfloat16, where products round either way
    close = {"rtol": 2e-2, "atol": 2e-3} if optimizer == "muon" else {"rtol": 1e-8, "atol": 1e-9}
    for m, (cell, recipe) in list(enumerate(zip(pack.cells, pack.recipes(), strict=True)))[::3]:
        plain = train_plainly(pack, cell, recipe, 12)
        for key, value in found.items():
            torch.testing.assert_close(value[m], plain[key], **close)


@pytest.mark.parametrize(("name", "optimizer"), EACH)
def test_neighbours_and_their_order_change_no_bit(tiny, name, optimizer):
    pack = pack_of(tiny(name), optimizer=optimizer)
    together = trained(pack, 6)
    order = [3, 0, 5, 1, 4, 2]
    shuffled = trained(replace(pack, cells=tuple(pack.cells[i] for i in order)), 6)
    alone = [trained(replace(pack, cells=(cell,)), 6) for cell in pack.cells[:2]]
    for key, value in together.items():
        assert torch.equal(value[order], shuffled[key])
        for m, single in enumerate(alone):
            assert torch.equal(value[m], single[key][0])


@pytest.mark.parametrize("name", NAMES)
def test_vmap_gives_what_the_run_axis_gives(tiny, name):
    pack = pack_of(tiny(name))
    native, mapped = (trained(pack, 10, torch.float64, run_axis=axis) for axis in (True, False))
    for key, value in native.items():
        torch.testing.assert_close(mapped[key], value, rtol=1e-9, atol=1e-11)


def test_held_out_losses_are_those_of_the_single_models(tiny):
    workload = tiny("bytes-transformer")
    stack = Stack(pack_of(workload), CPU)
    stack.advance(0, 4)
    for n in (None, 20):
        for m, loss in enumerate(stack.evaluate(n)):
            module = workload.build({"width": 8})
            module.load_state_dict({k: v[m] for k, v in stack.parameters().items()})
            with torch.no_grad():
                expected = workload.loss(module, tuple(t[:n] for t in workload.validation))
            assert loss == pytest.approx(expected.item(), rel=1e-5)


def test_muon_says_so_where_it_has_nothing_to_do(tiny):
    with pytest.raises(ValueError, match="optimizer='adamw'"):
        Stack(pack_of(tiny("teacher"), optimizer="muon"), CPU)


def test_the_scale_of_the_initialisation_is_a_runs_own(tiny):
    tuned = ({"lr": 0.01, "init_scale": 1.0}, {"lr": 0.01, "init_scale": 2.0})
    stack = Stack(pack_of(tiny("bytes-mlp"), tuned=tuned, seeds=(0,)), CPU)
    values = stack.parameters()
    for value in values.values():
        factor = 2.0 if value.dim() > 2 else 1.0  # matrices, not biases
        torch.testing.assert_close(value[1], factor * value[0])
    first, second = stack.evaluate_initial()
    assert first != second
    assert stack.evaluate() == pytest.approx([first, second])


def test_mup_scales_start_and_rates_against_the_base_width(tiny):
    workload = tiny("bytes-mlp")
    kinds = {"parametrization": "mup", "base_width": 2, "optimizer": "adam", "warmup": 0.0}
    standard = pack_of(workload, tuned=({"lr": 0.01},), seeds=(0,), warmup=0.0)
    mup = pack_of(workload, tuned=({"lr": 0.01},), seeds=(0,), **kinds)
    moved, before = {}, {}
    for name, pack in (("standard", standard), ("mup", mup)):
        stack = Stack(pack, CPU, dtype=torch.float64)
        before[name] = {k: v.clone() for k, v in stack.parameters().items()}
        stack.advance(0, 1)
        moved[name] = {k: v - before[name][k] for k, v in stack.parameters().items()}
    key = "mlp.output.weight"
    torch.testing.assert_close(before["mup"][key], before["standard"][key] / 2)  # 1 / √4
    for key, scale in (("output", 0.25), ("hidden.1", 0.25), ("hidden.0", 1.0)):
        step = moved["mup"][f"mlp.{key}.weight"].abs().max().item()  # Adam's first is ± lr
        assert step == pytest.approx(0.01 * scale, rel=1e-2)


class _Odd(nn.Module):
    """A buffer, dropout, attention, and a parameter nobody uses."""

    def __init__(self, dropout):
        super().__init__()
        self.inner = nn.Linear(4, 8)
        self.outer = nn.Linear(8, 3)
        self.unused = nn.Parameter(torch.ones(2))
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("shift", torch.randn(8))

    def forward(self, x):
        h = self.dropout(self.inner(x)).unsqueeze(1).expand(-1, 3, 8) + self.shift
        h = functional.scaled_dot_product_attention(h, h, h, is_causal=True)
        return self.outer(h[:, -1])


class _OddWorkload(TensorWorkload):
    def __init__(self, dropout=0.0):
        generator = torch.Generator().manual_seed(0)
        x, y = torch.randn(64, 4, generator=generator), torch.arange(64) % 3
        super().__init__(training=(x, y), validation=(x, y))
        self.dropout = dropout

    def build(self, size):
        return _Odd(self.dropout)

    def loss(self, module, batch):
        return functional.cross_entropy(module(batch[0]), batch[1])


def test_a_module_with_buffers_attention_and_idle_parameters_trains():
    pack = pack_of(_OddWorkload(), seeds=(0, 1, 2))
    stack = Stack(pack, CPU, dtype=torch.float64)
    first = stack.evaluate()
    stack.advance(0, 30)
    assert all(a < b for a, b in zip(stack.evaluate(), first, strict=True))
    found = stack.parameters()
    assert torch.equal(found["unused"], torch.ones(9, 2, dtype=torch.float64))
    plain = train_plainly(pack, pack.cells[4], pack.recipes()[4], 30)
    torch.testing.assert_close(found["outer.weight"][4], plain["outer.weight"])


def test_dropout_acts_in_training_and_not_in_evaluation():
    stack = Stack(pack_of(_OddWorkload(dropout=0.9)), CPU)
    assert stack.evaluate() == stack.evaluate()
    torch.manual_seed(0)
    stack.advance(0, 3)
    dry = Stack(pack_of(_OddWorkload(dropout=0.0)), CPU)
    dry.advance(0, 3)
    assert not torch.equal(stack.parameters()["outer.weight"], dry.parameters()["outer.weight"])


@pytest.mark.parametrize("name", ["bytes-mlp", "bytes-transformer"])
def test_bfloat16_products_stay_close_to_single_precision(tiny, name):
    stacks = [Stack(pack_of(tiny(name), precision=p), CPU) for p in ("fp32", "bf16")]
    for stack in stacks:
        stack.advance(0, 10)
    exact, rough = (stack.evaluate() for stack in stacks)
    assert rough == pytest.approx(exact, rel=0.03)
    assert rough != exact
    assert {p.dtype for p in stacks[1].parameters().values()} == {torch.float32}


@pytest.mark.parametrize(("name", "optimizer"), EACH)
def test_a_run_in_pure_bf16_is_the_same_alone(tiny, name, optimizer):
    pack = pack_of(tiny(name), optimizer=optimizer, precision="bf16-pure")
    together = trained(pack, 6)
    for m, cell in enumerate(pack.cells[:2]):
        alone = trained(replace(pack, cells=(cell,)), 6)
        assert all(torch.equal(value[m], alone[key][0]) for key, value in together.items())
    mixed = trained(replace(pack, recipe=replace(pack.recipe, precision="bf16")), 6)
    assert any(not torch.equal(value, mixed[key]) for key, value in together.items())


def test_a_stack_says_when_a_run_was_lost(tiny):
    stack = Stack(pack_of(tiny("bytes-mlp"), tuned=({"lr": 0.01}, {"lr": 1e30})), CPU)
    lost = stack.advance(0, 6)
    assert lost[:2] == [None, None]
    assert all(1 < step < 6 for step in lost[2:])
    one_by_one = Stack(pack_of(tiny("bytes-mlp"), tuned=({"lr": 0.01}, {"lr": 1e30})), CPU)
    found = [one_by_one.advance(step, step + 1) for step in range(6)]
    first = [next((f[m] for f in found if f[m] is not None), None) for m in range(4)]
    assert lost == first


GROWN = {"schedule": "steps", "drops": (0.5, 0.75), "drop_factor": 2, "decay_by": "batch"}


def test_a_grown_batch_is_a_plain_loop_over_larger_batches(tiny):
    pack = pack_of(tiny("bytes-mlp"), steps=16, warmup=0.25, optimizer="sgd", **GROWN)
    recipe = pack.recipes()[0]
    assert [recipe.phase_at(u).batch_size for u in range(recipe.n_updates)] == [4] * 8 + [
        8
    ] * 2 + [16]
    found = trained(pack, recipe.n_updates, torch.float64)
    for key, value in train_plainly(pack, pack.cells[3], recipe, recipe.n_updates).items():
        torch.testing.assert_close(found[key][3], value, rtol=1e-8, atol=1e-9)


def test_running_statistics_belong_to_a_run_and_move_in_training_alone(tiny):
    pack = pack_of(tiny("digits", ghost=4), batch_size=8)
    stack = Stack(pack, CPU)
    for n_steps in (0, 5):
        stack.advance(0, n_steps)
        before = [b.clone() for b in stack._buffers]
        assert stack.evaluate() == stack.evaluate()
        stack.evaluate_initial()
        assert all(torch.equal(a, b) for a, b in zip(before, stack._buffers, strict=True))
    assert all(not torch.equal(b[0], b[1]) for b in stack._buffers)
    alone = Stack(replace(pack, cells=pack.cells[3:4]), CPU)
    alone.advance(0, 5)
    stack.keep([3])
    for packed, single in zip(stack._buffers, alone._buffers, strict=True):
        assert torch.equal(packed, single)
    stack.advance(5, 8)
    alone.advance(5, 8)
    assert stack.evaluate() == alone.evaluate()


@pytest.mark.parametrize("batch_size", [2, 7, 64])
def test_moments_of_gradients_are_those_of_the_parts(tiny, batch_size):
    workload = tiny("teacher", n_features=8)
    pack = pack_of(workload, batch_size=batch_size, noise_every=1)
    stack, before = Stack(pack, CPU, dtype=torch.float64), Stack(pack, CPU, dtype=torch.float64)
    rows_SB = before._draw(1, batch_size)[0]
    stack.advance(0, 1)
    n_small = batch_size // 2
    for run, moments in enumerate(stack.gradient_moments()):
        x, y = (t.double() for t in workload.examples(workload.training, rows_SB[run % 2]))
        each = -x * y.unsqueeze(1)  # of half the squared error of a student at 0
        parts = [p.mean(0).square().sum() for p in (each[0::2], each[1::2]) if len(p) == n_small]
        small, big = sum(parts) / len(parts), each.mean(0).square().sum()
        squared = (batch_size * big - n_small * small) / (batch_size - n_small)
        trace = (small - big) / (1 / n_small - 1 / batch_size)
        assert moments == pytest.approx((float(squared), float(trace)), rel=1e-9)


def test_noise_is_measured_before_clipping_and_lost_runs_have_none(tiny):
    workload = tiny("teacher", n_features=8)
    open_, clipped = (
        Stack(pack_of(workload, noise_every=1, clip=clip), CPU) for clip in (0.0, 1e-3)
    )
    for stack in (open_, clipped):
        stack.advance(0, 1)
    assert open_.gradient_moments() == clipped.gradient_moments()
    wild = Stack(pack_of(workload, tuned=({"lr": 1e30},), noise_every=1, optimizer="sgd"), CPU)
    wild.advance(0, 20)
    wild.advance(20, 30)
    assert wild.gradient_moments() == [None, None]


def test_noise_is_not_measured_where_a_part_of_a_batch_is_no_batch(tiny):
    workload = tiny("digits")
    with pytest.raises(ValueError, match="running statistics"):
        Stack(pack_of(workload, noise_every=2), CPU)
    Stack(pack_of(tiny("digits", ghost=None), noise_every=2), CPU).advance(0, 2)
