"""The exam that our workloads and three of the studies sit: what the training loop relies on."""

import math

import pytest
import torch
from torch import nn
from torch.func import functional_call

from extrap.workloads import WORKLOADS, width_rules

SIZE = {"width": 8}
N_RUNS, N_EXAMPLES = 3, 8
FROM_ZERO = ("teacher",)
"""Linear models that start at 0."""
OF_ONE_DEPTH = ("classes", "teacher")
SITTING = [*WORKLOADS, "classes", "images", "teacher"]
NAMES = pytest.mark.parametrize("name", SITTING)


class Loss(nn.Module):
    """A workload's loss as a module, so that its parameters can be swapped."""

    def __init__(self, workload, module):
        super().__init__()
        self.workload, self.module = workload, module

    def forward(self, *batch):
        return self.workload.loss(self.module, batch)


def start_runs(workload, dtype):
    """Models that differ, none of them at 0, and a batch for each; parameters and buffers."""
    torch.manual_seed(0)
    runs = [Loss(workload, workload.build(SIZE).to(dtype)) for _ in range(N_RUNS)]
    for run in runs:
        for parameter in run.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
    generator = torch.Generator().manual_seed(1)
    rows = torch.stack([workload.draw_batches(1, N_EXAMPLES, generator)[0] for _ in runs])
    batch = workload.examples(workload.training, rows)
    batch = tuple(t.to(dtype) if t.is_floating_point() else t for t in batch)
    return runs, batch, *torch.func.stack_module_state(runs)


def values_and_gradients(losses_M, stacked):
    weights_M = torch.arange(1.0, N_RUNS + 1, dtype=losses_M.dtype)  # tell the runs apart
    gradients = torch.autograd.grad((weights_M * losses_M).sum(), list(stacked.values()))
    return [losses_M.detach(), *gradients]


@NAMES
def test_batches_drawn_in_one_call_are_those_drawn_one_by_one(tiny, name):
    workload = tiny(name)
    together, singly = (torch.Generator().manual_seed(3) for _ in range(2))
    rows = workload.draw_batches(4, 5, together).tolist()
    assert rows == [workload.draw_batches(1, 5, singly)[0].tolist() for _ in rows]
    assert len({tuple(row) for row in rows}) > 1


@NAMES
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_stacked_runs_equal_single_runs(tiny, name, dtype, rtol):
    workload = tiny(name)
    runs, batch, stacked, buffers = start_runs(workload, dtype)
    losses_M = functional_call(runs[0], {**stacked, **buffers}, batch)
    together = values_and_gradients(losses_M, stacked)
    alone = torch.stack([run(*(t[i] for t in batch)) for i, run in enumerate(runs)])
    assert together[0].shape == (N_RUNS,)
    torch.testing.assert_close(together[0], alone.detach(), rtol=rtol, atol=0)
    for i, run in enumerate(runs):
        gradients = torch.autograd.grad((i + 1) * alone[i], list(run.parameters()))
        for stacked_gradient, gradient in zip(together[1:], gradients, strict=True):
            assert gradient.abs().max() > 0
            atol = rtol * float(gradient.abs().max())
            torch.testing.assert_close(stacked_gradient[i], gradient, rtol=0, atol=atol)
        for buffer_name, buffer in run.named_buffers():
            torch.testing.assert_close(buffers[buffer_name][i], buffer)


@NAMES
def test_one_batch_may_be_expanded_over_the_runs(tiny, name):
    workload = tiny(name)
    runs, _, stacked, buffers = start_runs(workload, torch.float32)
    with torch.no_grad():
        for run in runs:
            run.eval()
        batch = tuple(t.expand(N_RUNS, *t.shape) for t in workload.validation)
        together = functional_call(runs[0], {**stacked, **buffers}, batch)
        alone = torch.stack([run(*workload.validation) for run in runs])
    torch.testing.assert_close(together, alone, rtol=1e-6, atol=0)


HIDDEN = 8 * 8 + 8  # a hidden layer of width 8
NORM = 2 * 8
BLOCK = NORM + 3 * 8 * 8 + 8 * 8 + NORM + 8 * 32 + 32 * 8
# training tokens; loss of a guess and how far an untrained model may be from it; parameters of
# width 8, and those of embeddings
KNOWN = {
    "bytes-mlp": (
        39_992,
        (math.log(256), 0.2),
        (8 * 16 * 8 + 8) + 2 * HIDDEN + (8 * 256 + 256),
        256 * 16,
    ),
    "bytes-transformer": (39_992, (math.log(256), 0.3), 2 * BLOCK + NORM + 8 * 256, (256 + 8) * 8),
    "classes": (1198, (math.log(10), 0.2), (9 * 8 + 8) + (9 * 8 * 8 + 8) + (4 * 8 * 10 + 10), 0),
    "digits": (1198, (math.log(10), 0.2), 64 * 8 + 8 * 8 + 2 * NORM + (8 * 10 + 10), 0),
    "images": (54, (math.log(5), 0.2), (4 * 4 * 3 * 8 + 8) + 2 * HIDDEN + (8 * 5 + 5), 0),
    "teacher": (500, ((1 + 1 + 0.25) / 2, 1e-5), 8, 0),  # nothing of 1 + 1 + σ² is explained
}


@NAMES
def test_tokens_and_parameters_are_counted_and_an_untrained_model_guesses(tiny, name):
    workload, (n_tokens, (guess, tolerance), n_params, n_embedding) = tiny(name), KNOWN[name]
    assert workload.n_training_tokens == n_tokens
    assert workload.n_params({"width": 8}) == n_params
    assert workload.n_params_total({"width": 8}) == n_params + n_embedding
    torch.manual_seed(0)
    loss = workload.loss(workload.build({"width": 16}).eval(), workload.validation)
    assert loss.item() == pytest.approx(guess, abs=tolerance)


@NAMES
def test_width_rules_know_every_tensor(tiny, name):
    workload = tiny(name)
    rules = width_rules(
        workload.build, {"width": 16}, parametrization="mup", base_width=8, optimizer="adam"
    )
    assert list(rules) == [name for name, _ in workload.build({"width": 16}).named_parameters()]
    roles = {rule.role for rule in rules.values()} - {"fixed"}
    assert roles == ({"output"} if name in FROM_ZERO else {"input", "hidden", "output"})


@NAMES
@pytest.mark.parametrize("size", [{}, {"width": 8.5}, {"width": 0}, {"width": 8, "height": 2}])
def test_a_size_it_cannot_build_is_refused(tiny, name, size):
    with pytest.raises(ValueError, match=f"sizes of {name}"):
        tiny(name).build(size)


@pytest.mark.parametrize("name", [name for name in SITTING if name not in OF_ONE_DEPTH])
def test_depth_may_be_a_size(tiny, name):
    workload, shallow = tiny(name), tiny(name, depth=1)
    assert workload.n_params({"width": 8, "depth": 1}) == shallow.n_params({"width": 8})
    assert workload.n_params({"width": 8, "depth": 1}) < workload.n_params({"width": 8})
