"""The exam that every built-in workload sits: what the training loop relies on."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from extrap.workloads import WORKLOADS, Batch, LoadedWorkload, width_rules

SIZE = {"width": 8}
N_RUNS, N_EXAMPLES = 3, 8
FROM_ZERO = ("perceptron", "teacher")
"""Linear models that start at 0."""
NAMES = pytest.mark.parametrize("name", list(WORKLOADS))
Load = Callable[..., LoadedWorkload]


class Loss(nn.Module):
    """A workload's loss as a module, so that its parameters can be swapped."""

    def __init__(self, workload: LoadedWorkload, module: nn.Module) -> None:
        super().__init__()
        self.workload, self.module = workload, module

    def forward(self, *batch: torch.Tensor) -> torch.Tensor:
        return self.workload.loss(self.module, batch)


def start_runs(workload: LoadedWorkload, dtype: torch.dtype) -> tuple[list[Loss], Batch]:
    """Models that differ, none of them at 0, and a batch for each, stacked."""
    torch.manual_seed(0)
    runs = [Loss(workload, workload.build(SIZE).to(dtype)) for _ in range(N_RUNS)]
    for run in runs:
        for parameter in run.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
    generator = torch.Generator().manual_seed(1)
    rows = torch.stack([workload.draw(N_EXAMPLES, generator) for _ in runs])
    batch = workload.examples(workload.training, rows)
    return runs, tuple(t.to(dtype) if t.is_floating_point() else t for t in batch)


def stack_parameters(runs: list[Loss]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    stacked, buffers = torch.func.stack_module_state(runs)
    return stacked, buffers


def values_and_gradients(
    losses_M: torch.Tensor, stacked: dict[str, torch.Tensor]
) -> list[torch.Tensor]:
    weights_M = torch.arange(1.0, N_RUNS + 1, dtype=losses_M.dtype)  # tell the runs apart
    gradients = torch.autograd.grad((weights_M * losses_M).sum(), list(stacked.values()))
    return [losses_M.detach(), *gradients]


@NAMES
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_stacked_runs_equal_single_runs(
    tiny: Load, name: str, dtype: torch.dtype, rtol: float
) -> None:
    workload = tiny(name)
    runs, batch = start_runs(workload, dtype)
    stacked, buffers = stack_parameters(runs)
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
def test_vectorised_runs_equal_stacked_runs(tiny: Load, name: str) -> None:
    workload = tiny(name)
    assert workload.has_run_axis
    runs, batch = start_runs(workload, torch.float64)
    stacked, buffers = stack_parameters(runs)
    copies = {key: value.clone() for key, value in buffers.items()}
    losses_M = functional_call(runs[0], {**stacked, **buffers}, batch)
    native = values_and_gradients(losses_M, stacked)
    with sdpa_kernel(SDPBackend.MATH):  # as training does: the others have no batching rule
        losses_M = vmap(lambda p, b: functional_call(runs[0], p, b))({**stacked, **copies}, batch)
        vectorised = values_and_gradients(losses_M, stacked)
    torch.testing.assert_close(copies, buffers)
    for one, other in zip(native, vectorised, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@NAMES
def test_one_batch_may_be_expanded_over_the_runs(tiny: Load, name: str) -> None:
    workload = tiny(name)
    runs, _ = start_runs(workload, torch.float32)
    with torch.no_grad():
        stacked, buffers = stack_parameters(runs)
        for run in runs:
            run.eval()
        batch = tuple(t.expand(N_RUNS, *t.shape) for t in workload.validation)
        together = functional_call(runs[0], {**stacked, **buffers}, batch)
        alone = torch.stack([run(*workload.validation) for run in runs])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=0)


@NAMES
def test_rows_follow_from_the_generator_alone(tiny: Load, name: str) -> None:
    workload = tiny(name)
    rows, again = (workload.draw(40, torch.Generator().manual_seed(3)) for _ in range(2))
    other = workload.draw(40, torch.Generator().manual_seed(4))
    assert rows.dtype == torch.int64
    assert rows.shape == (40,)
    assert rows.min() >= 0
    assert torch.equal(rows, again)
    assert not torch.equal(rows, other)


@NAMES
def test_examples_take_any_leading_axes(tiny: Load, name: str) -> None:
    workload = tiny(name)
    generator = torch.Generator().manual_seed(3)
    rows = torch.stack([workload.draw(N_EXAMPLES, generator) for _ in range(6)])
    flat = workload.examples(workload.training, rows.view(-1))
    deep = workload.examples(workload.training, rows.view(2, 3, N_EXAMPLES))
    for one, other, held_out in zip(flat, deep, workload.validation, strict=True):
        assert other.shape == (2, 3, N_EXAMPLES, *one.shape[1:])
        assert torch.equal(other.flatten(0, 2), one)
        assert held_out.shape[1:] == one.shape[1:]
        assert held_out.dtype == one.dtype


@NAMES
def test_training_tokens_are_counted(tiny: Load, name: str) -> None:
    expected = {
        "bytes-mlp": 39_992,
        "bytes-transformer": 39_992,
        "digits": 1198,
        "images": 54,
        "perceptron": 500,
        "teacher": 500,
    }
    assert tiny(name).n_training_tokens == expected[name]


@NAMES
def test_an_untrained_model_guesses(tiny: Load, name: str) -> None:
    workload = tiny(name)
    guess, tolerance = {
        "bytes-mlp": (math.log(256), 0.2),
        "bytes-transformer": (math.log(256), 0.3),
        "digits": (math.log(10), 0.2),
        "images": (math.log(5), 0.2),
        "perceptron": (1.0, 0.0),  # it names no class
        "teacher": ((1 + 1 + 0.25) / 2, 1e-5),  # nothing of 1 + 1 + σ² is explained
    }[name]
    torch.manual_seed(0)
    loss = workload.loss(workload.build({"width": 16}).eval(), workload.validation)
    assert loss.item() == pytest.approx(guess, abs=tolerance)


@NAMES
def test_the_start_follows_from_torchs_seed(tiny: Load, name: str) -> None:
    workload = tiny(name)
    starts = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        starts.append(torch.cat([p.flatten() for p in workload.build(SIZE).parameters()]))
    assert torch.equal(starts[0], starts[1])
    assert torch.equal(starts[0], starts[2]) == (name in FROM_ZERO)


@NAMES
def test_width_rules_know_every_tensor(tiny: Load, name: str) -> None:
    workload = tiny(name)
    rules = width_rules(
        workload.build, {"width": 16}, parametrization="mup", base_width=8, optimizer="adam"
    )
    assert list(rules) == [name for name, _ in workload.build({"width": 16}).named_parameters()]
    roles = {rule.role for rule in rules.values()} - {"fixed"}
    assert roles == ({"output"} if name in FROM_ZERO else {"input", "hidden", "output"})


@NAMES
def test_the_fingerprint_is_plain_and_has_the_options(tiny: Load, name: str) -> None:
    workload = tiny(name)
    fingerprint = json.loads(json.dumps(dict(workload.fingerprint)))
    assert fingerprint == dict(workload.fingerprint)
    options = {key: value for key, value in fingerprint.items() if "sha256" not in key}
    assert len(options) >= 5


@NAMES
@pytest.mark.parametrize("size", [{}, {"width": 8.5}, {"width": 0}, {"width": 8, "height": 2}])
def test_a_size_it_cannot_build_is_refused(tiny: Load, name: str, size: dict[str, float]) -> None:
    if not size and name == "perceptron":  # it sees all features
        assert tiny(name).n_params(size) == 32
        return
    with pytest.raises(ValueError, match=f"sizes of {name} are whole numbers width"):
        tiny(name).build(size)


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name not in FROM_ZERO])
def test_depth_may_be_a_size(tiny: Load, name: str) -> None:
    workload, shallow = tiny(name), tiny(name, depth=1)
    assert workload.n_params({"width": 8, "depth": 1}) == shallow.n_params({"width": 8})
    assert workload.n_params({"width": 8, "depth": 1}) < workload.n_params({"width": 8})
