"""The meter against gradients computed one by one, alone and in two processes."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from extrap.errors import DataError
from extrap.training import noise_meter
from extrap.training.noise_meter import NoiseMeter

N_EXAMPLES, N_FEATURES = 64, 5


def make_model(dtype=torch.float64):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(N_FEATURES, 4), nn.Tanh(), nn.Linear(4, 1)).to(dtype)


@pytest.fixture
def model():
    return make_model()


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(N_EXAMPLES, N_FEATURES, generator=generator, dtype=torch.float64)
    return x, x[:, :1] ** 2 + torch.randn(N_EXAMPLES, 1, generator=generator, dtype=torch.float64)


def mean_loss(model, data, rows):
    x, y = data
    return nn.functional.mse_loss(model(x[rows]), y[rows])


def gradient(model, data, rows):
    """The gradient of the mean loss over some rows, as one vector."""
    model.zero_grad()
    mean_loss(model, data, rows).backward()
    learn = [p for p in model.parameters() if p.requires_grad]
    return torch.cat([p.grad.flatten() for p in learn]).numpy()


def accumulate(meter, model, data, micro_batches, *, divide=True, **options):
    """One step: a backward pass a micro-batch, then the meter."""
    model.zero_grad()
    for rows in micro_batches:
        (mean_loss(model, data, rows) / (len(micro_batches) if divide else 1)).backward()
    meter.step(**options)


def split(n_micro, seed=2, batch=4):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, N_EXAMPLES, (n_micro, batch), generator=generator)


def norms(step):
    return step.grad_sq_small, step.grad_sq_big


def measured(model, data, *n_micros, batch=4, **options):
    """A meter that has measured steps of so many passes each."""
    meter = NoiseMeter(model, **{"batch_size": batch, "every": 1, **options})
    for seed, n_micro in enumerate(n_micros):
        accumulate(meter, model, data, split(n_micro, seed, batch))
    return meter


class Checkpointed(nn.Module):
    """A model whose first layers are computed again in the backward pass."""

    def __init__(self, model, use_reentrant):
        super().__init__()
        self.body, self.head, self.use_reentrant = model[:2], model[2], use_reentrant

    def forward(self, x):
        x = x.clone().requires_grad_()
        return self.head(checkpoint(self.body, x, use_reentrant=self.use_reentrant))


def shared(model):
    layer = nn.Linear(N_FEATURES, N_FEATURES, dtype=torch.float64)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Linear(N_FEATURES, 1, dtype=torch.float64))


def frozen(model):
    model[0].requires_grad_(False)
    return model


MODELS = {
    "plain": lambda model: model,
    "a layer that is used twice": shared,
    "a frozen layer": frozen,
    "activations computed again": lambda model: Checkpointed(model, False),
    "reentrant": lambda model: Checkpointed(model, True),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("divide", [True, False])
def test_norms_are_those_of_gradients_computed_one_by_one(model, data, device, name, divide):
    module, micros = MODELS[name](model), split(4)
    ones = np.array([gradient(module, data, rows) for rows in micros])
    meter = NoiseMeter(module.to(device), batch_size=4, loss_is_divided=divide)
    there = [t.to(device) for t in data]
    accumulate(meter, module, there, micros.to(device), divide=divide)
    (step,) = meter.history
    expected = (ones**2).sum(axis=1).mean(), (ones.mean(axis=0) ** 2).sum()
    assert norms(step) == pytest.approx(expected)
    assert (step.step, step.batch_small, step.batch_big) == (0, 4, 16)


def test_training_is_not_changed(model, data):
    twin = make_model()
    meter = NoiseMeter(model, batch_size=4, every=2)
    for it in (model, twin):
        optimizer = torch.optim.SGD(it.parameters(), lr=0.1)
        for seed in range(5):
            optimizer.zero_grad()
            for rows in split(3, seed):
                (mean_loss(it, data, rows) / 3).backward()
            if it is model:
                meter.step()
            optimizer.step()
    for own, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(own, other)


def test_parameter_without_a_gradient_in_some_pass_does_not_fool_the_count(data):
    torch.manual_seed(0)
    experts = nn.ModuleList(nn.Linear(N_FEATURES, 1, dtype=torch.float64) for _ in range(3))
    meter = NoiseMeter(experts, batch_size=4)
    micros = split(2)
    for k, rows in enumerate(micros):
        (mean_loss(experts[k], data, rows) / 2).backward()
    meter.step()
    (step,) = meter.history
    assert step.batch_big == 8
    ones = [gradient(experts[k], data, rows) for k, rows in enumerate(micros)]
    assert step.grad_sq_small == pytest.approx(np.mean([(g**2).sum() for g in ones]))
    assert step.grad_sq_big == pytest.approx(sum((g**2).sum() for g in ones) / 4)


def test_sparse_and_half_gradients_are_measured():
    torch.manual_seed(0)
    table = nn.Embedding(10, 3, sparse=True)
    meter = NoiseMeter(table, batch_size=2)
    dense = nn.Embedding(10, 3, _weight=table.weight.detach().clone())
    twin = NoiseMeter(dense, batch_size=2)
    half = nn.Embedding(10, 3, _weight=table.weight.detach().clone()).bfloat16()
    rough = NoiseMeter(half, batch_size=2)
    for it, its_meter in ((table, meter), (dense, twin), (half, rough)):
        for rows in torch.tensor([[1, 1], [4, 2]]):
            (it(rows).square().sum() / 2).backward()
        its_meter.step()
    (truth,) = twin.history
    for its_meter, tolerance in ((meter, 1e-6), (rough, 0.02)):
        (found,) = its_meter.history
        assert norms(found) == pytest.approx(norms(truth), rel=tolerance)


def test_each_so_many_steps_is_measured_and_hooks_are_gone_between(model, data):
    meter = NoiseMeter(model, batch_size=4, every=3)
    hooked = []
    for seed in range(7):
        hooked.append(bool(next(model.parameters())._backward_hooks))
        accumulate(meter, model, data, split(2, seed))
    assert [step.step for step in meter.history] == [0, 3, 6]
    assert hooked == [True, False, False, True, False, False, True]
    meter.close()
    # not even an empty table, which autograd would look into at each pass
    assert all(p._backward_hooks is None for p in model.parameters())


def test_estimate_of_the_last_steps(model, data):
    meter = measured(model, data, 2, 5, 3, 2, 2, 2)  # the number of passes may change
    assert [step.batch_big for step in meter.history] == [8, 20, 12, 8, 8, 8]
    squared, trace = meter.moments
    found = meter.estimate(last=2, level=0.5)
    assert (found.n_steps, found.level) == (2, 0.5)
    assert found.grad_cov_trace == pytest.approx(trace[-2:].mean())
    assert found.grad_sq_norm == pytest.approx(squared[-2:].mean())
    with pytest.raises(ValueError, match="last must be at least 1"):
        meter.estimate(last=0)


def test_gradient_that_is_not_finite_is_left_out_and_said(model, data):
    x, y = data
    meter = NoiseMeter(model, batch_size=4, every=1)
    for seed, target in enumerate((y, y * torch.nan, y, y * torch.inf)):
        accumulate(meter, model, (x, target), split(2, seed))
    found = meter.estimate()
    assert (found.n_steps, found.n_skipped) == (2, 2)
    assert "(2 more skipped)" in str(found)
    assert [step.step for step in meter.history] == [0, 2]
    squared, trace = meter.moments  # of steps 0 and 2; averages are divided last
    ratio = (0.95 * trace[0] + trace[1]) / (0.95 * squared[0] + squared[1])
    assert meter.running_noise_scale == pytest.approx(max(ratio, 0.0))
    for rows in split(2):
        (mean_loss(model, data, rows) / 2).backward()
    model[0].bias.grad.fill_(torch.inf)  # a sum that overflowed
    meter.step()
    assert (len(meter.history), meter.n_skipped) == (2, 3)


def test_only_gradients_that_are_not_finite_or_nothing_at_all_are_an_error(model, data):
    with pytest.raises(DataError, match="no step was measured"):
        NoiseMeter(model, batch_size=4).estimate()
    meter = measured(model, (data[0], data[1] * torch.nan), 2, 2, 2)
    with pytest.raises(DataError, match=r"none of 3 .*of 3 were"):
        meter.estimate()


def test_the_gap_doubles_and_an_estimate_is_of_evenly_spaced_steps(model, data, monkeypatch):
    for name, value in {"NARROW_RATIO": 1.0, "MAX_EVEN_STEPS": 8, "STEPS_PER_READ": 8}.items():
        monkeypatch.setattr(noise_meter, name, value)
    meter = NoiseMeter(model, batch_size=1)
    assert repr(meter).endswith("measures every step, for now)")
    numbers = []
    for seed in range(72):
        accumulate(meter, model, data, split(60, seed, 1))
        numbers.append(meter.estimate().n_steps)
    steps = [step.step for step in meter.history]
    assert steps == [*range(8), *range(8, 24, 2), *range(24, 56, 4), *range(56, 72, 8)]
    assert numbers[6:10] == [7, 4, 5, 5]  # 0, 2, 4, 6 and 8
    assert numbers[-1] == 9  # 0, 8, …, 64
    assert repr(meter).endswith("from 9 steps; measures one step in 8, for now)")


def test_a_gap_that_was_given_stays_and_a_wide_interval_keeps_every_step(model, data, monkeypatch):
    monkeypatch.setattr(noise_meter, "STEPS_PER_READ", 4)
    monkeypatch.setattr(noise_meter, "NARROW_RATIO", 1e9)
    assert len(measured(model, data, *[2] * 20, every=4).history) == 5
    monkeypatch.setattr(noise_meter, "NARROW_RATIO", 1.0)
    assert len(measured(model, data, *[2] * 20, every=None).history) == 20


def test_a_single_pass_is_refused_at_once_and_left_out_later_on(model, data):
    with pytest.raises(ValueError, match="two or more"):
        measured(model, data, 1)
    found = measured(model, data, 2, 1, 2).estimate()
    assert (found.n_steps, found.n_skipped) == (2, 1)
    with pytest.raises(ValueError, match="got none"):
        NoiseMeter(model, batch_size=4).step()


def test_models_and_numbers_that_cannot_be_measured_are_refused(model):
    for name in ("batch_size", "every"):
        with pytest.raises(ValueError, match=f"{name} .*got 0"):
            NoiseMeter(model, **{"batch_size": 4, name: 0})
    with pytest.raises(ValueError, match="got none"):
        NoiseMeter(make_model().requires_grad_(False), batch_size=4)

    class FullyShardedDataParallel(nn.Linear):
        pass

    with pytest.raises(ValueError, match="sharded"):
        NoiseMeter(FullyShardedDataParallel(1, 1), batch_size=4)


def test_scale_of_the_loss_is_taken_out(model, data):
    meter = NoiseMeter(model, batch_size=4, every=1)
    accumulate(meter, model, data, split(2))
    model.zero_grad()
    for rows in split(2):
        (mean_loss(model, data, rows) / 2 * 1024).backward()
    for parameter in model.parameters():
        parameter.grad /= 1024
    meter.step(loss_scale=1024.0)
    plain, scaled = meter.history
    assert norms(scaled) == pytest.approx(norms(plain))


PROCESS = """
import json, os, sys
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from extrap import NoiseMeter
from extrap.training import noise_meter

noise_meter.STEPS_PER_READ, noise_meter.MAX_EVEN_STEPS = 1, 1  # the gap doubles at once
folder = sys.argv[1]
rank = 0 if (child := os.fork()) else 1  # torch is imported once
rendezvous = f"file://{folder}/rendezvous"
distributed.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=2)
inputs = torch.load(f"{folder}/inputs.pt")

def measure(steps, is_early, every=2):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    model = DistributedDataParallel(model)
    is_last = False
    options = {"is_last_pass": lambda: is_last} if is_early else {}
    meter = NoiseMeter(model, batch_size=4, every=every, **options)
    for micros in steps:
        model.zero_grad()
        own = micros[rank::2]
        for k, rows in enumerate(own):
            is_last = k == len(own) - 1
            model.require_backward_grad_sync = is_last  # what no_sync sets
            loss = nn.functional.mse_loss(model(inputs["x"][rows]), inputs["y"][rows])
            (loss / len(own)).backward()
        if is_early:
            nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
        meter.step()
    return [[s.step, s.grad_sq_small, s.grad_sq_big, s.batch_big] for s in meter.history]

doubled = [row[0] for row in measure(inputs["steps"][0] * 2, False, None)]
found = [measure(steps, early) for steps in inputs["steps"] for early in (False, True)]
with open(f"{folder}/{rank}.json", "w") as file:
    json.dump([found, doubled], file)
distributed.destroy_process_group()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
def test_two_processes_measure_what_one_does(data, tmp_path):
    """One and three backward passes a process, the gradient read in the step and before it."""
    x, y = data
    steps = [[split(2 * n_micro, seed) for seed in range(3)] for n_micro in (1, 3)]
    torch.save({"x": x, "y": y, "steps": steps}, tmp_path / "inputs.pt")
    script = tmp_path / "process.py"
    script.write_text(PROCESS, encoding="utf-8")
    command = [sys.executable, str(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    truths = []
    for its_steps in steps:
        model = make_model()
        alone = NoiseMeter(model, batch_size=4, every=2)
        for micros in its_steps:
            accumulate(alone, model, data, micros)
        truths += [[(s.step, s.grad_sq_small, s.grad_sq_big, s.batch_big) for s in alone.history]]
    for rank in (0, 1):
        found, doubled = json.loads((tmp_path / f"{rank}.json").read_text())
        assert doubled == [0, 2, 4]
        assert np.allclose(found[0::2], truths)
        assert np.allclose(found[1::2], truths)
        assert [row[0] for row in found[0]] == [0, 2]
