from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from extrap.records import Workload
from extrap.workloads import LoadedWorkload, load_workload
from extrap.workloads.teacher import Teacher

Load = Callable[..., LoadedWorkload]
SPECTRA = pytest.mark.parametrize("spectrum", [0.0, 1.5])


def train(
    workload: Teacher, width: int, *, rates: list[float], batch_size: int, seed: int
) -> tuple[float, torch.nn.Module]:
    """Plain SGD; the held-out loss after the last step."""
    module = workload.build({"width": width})
    generator = torch.Generator().manual_seed(seed)
    (weight,) = module.parameters()
    for rate in rates:
        rows = workload.draw(batch_size, generator)
        loss = workload.loss(module, workload.examples(workload.training, rows))
        weight.data -= rate * torch.autograd.grad(loss, weight)[0]
    return workload.loss(module, workload.validation).item(), module


@SPECTRA
def test_held_out_loss_is_the_loss_over_the_distribution(spectrum: float) -> None:
    """Any student's held-out loss against ½ (|δ|² + τ), and against a million fresh examples."""
    workload = Teacher(
        {"n_features": 12, "n_examples": 10, "spectrum": spectrum, "alpha": 0.7, "noise": 0.3}
    )
    module = workload.build({"width": 5})
    torch.manual_seed(0)
    module.output.weight.data = torch.randn(1, 5)
    j = np.arange(1, 6)
    c = np.sqrt([1.0, *((j[1:] - 1.0) ** -0.7 - j[1:] ** -0.7)])
    delta = j ** (-spectrum / 2) * module.output.weight.detach().numpy()[0] - c
    exact = 0.5 * (np.sum(delta**2) + 5**-0.7 + 0.3**2)
    assert workload.loss(module, workload.validation).item() == pytest.approx(exact, rel=1e-5)

    fresh = Teacher({**workload.fingerprint, "n_examples": 1_000_000})
    assert workload.loss(module, fresh.training).item() == pytest.approx(exact, rel=0.005)


@pytest.mark.parametrize(("alpha", "noise"), [(0.5, 0.5), (0.8, 0.0), (0.3, 1.0)])
def test_best_losses_follow_the_law_they_promise(alpha: float, noise: float) -> None:
    workload = Teacher({"alpha": alpha, "noise": noise, "n_examples": 10})
    widths = np.array([2, 8, 32, 128])
    losses = np.array([workload.best_loss({"width": int(n)}) for n in widths])
    excess = losses - noise**2 / 2
    slopes = np.diff(np.log(excess)) / np.diff(np.log(widths))
    assert slopes == pytest.approx(-alpha)
    assert excess[0] == pytest.approx(2**-alpha / 2)


@SPECTRA
def test_no_student_is_better_than_the_best(spectrum: float) -> None:
    workload = Teacher({"n_features": 32, "n_examples": 10, "spectrum": spectrum})
    x, y = (t.double().numpy() for t in workload.validation)
    theta, *_ = np.linalg.lstsq(x[:, :8], y, rcond=None)
    loss = 0.5 * np.mean((x[:, :8] @ theta - y) ** 2)
    assert loss == pytest.approx(workload.best_loss({"width": 8}), rel=1e-6)


def test_least_squares_on_few_examples_is_as_bad_as_predicted() -> None:
    losses = []
    for seed in range(60):
        workload = Teacher({"n_features": 16, "n_examples": 40, "data_seed": seed})
        x, y = (t.double().numpy() for t in workload.training)
        theta, *_ = np.linalg.lstsq(x[:, :8], y, rcond=None)
        x, y = (t.double().numpy() for t in workload.validation)
        losses.append(0.5 * np.mean((x[:, :8] @ theta - y) ** 2))
    expected = workload.best_loss({"width": 8}, n_examples=40)
    assert expected == pytest.approx(workload.best_loss({"width": 8}) * 39 / 31)
    assert np.mean(losses) == pytest.approx(expected, rel=0.03)
    assert workload.best_loss({"width": 8}, n_examples=9) == math.inf


def test_a_thousand_steps_come_near_the_best_loss_and_show_its_exponent() -> None:
    workload = Teacher({"n_features": 64})
    rates = [0.02 * min(1.0, (1000 - step) / 500) for step in range(1000)]
    excess = []
    for width in (4, 16, 64):
        loss, _ = train(workload, width, rates=rates, batch_size=128, seed=0)
        best = workload.best_loss({"width": width})
        assert best < loss < 1.01 * best
        excess.append(loss - 0.5**2 / 2)
    assert np.diff(np.log(excess)) / math.log(4) == pytest.approx(-0.5, abs=0.01)


@SPECTRA
def test_sgd_does_as_expected(spectrum: float) -> None:
    """The mean over 50,000 short runs, with batches so small that the noise matters."""
    alpha, noise, width, batch_size, rates = 0.5, 0.5, 3, 2, (0.2, 0.3, 0.1)
    rng = np.random.default_rng(0)
    j = np.arange(1, width + 1)
    c = np.sqrt([1.0, *((j[1:] - 1.0) ** -alpha - j[1:] ** -alpha)])
    scales, residual = j ** (-spectrum / 2), width**-alpha + noise**2
    theta = np.zeros((50_000, width))
    for rate in rates:
        z = rng.normal(size=(50_000, batch_size, width))
        y = z @ c + math.sqrt(residual) * rng.normal(size=z.shape[:2])
        errors = np.einsum("rbj,rj->rb", z * scales, theta) - y
        theta -= rate * np.einsum("rbj,rb->rj", z * scales, errors) / batch_size
    losses = 0.5 * (np.sum((scales * theta - c) ** 2, axis=1) + residual)
    workload = Teacher({"n_features": 4, "n_examples": 10, "spectrum": spectrum})
    expected = workload.expected_loss({"width": width}, rates=rates, batch_size=batch_size)
    standard_error = np.std(losses) / math.sqrt(len(losses))
    assert standard_error < 0.01 * expected
    assert np.mean(losses) == pytest.approx(expected, abs=3 * standard_error)


@SPECTRA
@pytest.mark.parametrize("n_steps", [0, 20])
def test_gradient_moments_are_those_of_the_examples(spectrum: float, n_steps: int) -> None:
    workload = Teacher({"n_features": 8, "n_examples": 200_000, "spectrum": spectrum})
    _, module = train(workload, 6, rates=[0.05] * n_steps, batch_size=8, seed=0)
    moments = workload.gradient_moments(module)
    x, y = (t.double().numpy() for t in workload.training)
    theta = module.output.weight.detach().double().numpy()[0]
    gradients = x[:, :6] * (x[:, :6] @ theta - y)[:, None]
    mean = gradients.mean(0)
    assert moments.grad_sq_norm == pytest.approx(np.sum(mean**2), rel=0.03)
    assert moments.grad_cov_trace == pytest.approx(gradients.var(0).sum(), rel=0.02)
    assert moments.noise_scale == moments.grad_cov_trace / moments.grad_sq_norm


def test_a_known_noise_scale() -> None:
    """At 0, width 1: |G|² = 1, L = (1 + 1 + ¼) / 2, tr Σ = 2 L + 1."""
    workload = Teacher({"n_features": 4, "n_examples": 10})
    assert workload.gradient_moments(workload.build({"width": 1})).noise_scale == 3.25


@SPECTRA
def test_the_noise_scale_of_sgd_is_as_expected(spectrum: float) -> None:
    """Means of both moments over many short runs, with batches so small that the noise matters."""
    workload = Teacher({"n_features": 8, "n_examples": 200_000, "spectrum": spectrum})
    rates = [0.1, 0.2, 0.1, 0.05]
    students = [train(workload, 4, rates=rates, batch_size=2, seed=s)[1] for s in range(3000)]
    moments = np.array([workload.gradient_moments(module) for module in students])
    grad_sq_norm, grad_cov_trace = moments.mean(axis=0)
    expected = workload.expected_noise_scale({"width": 4}, rates=rates, batch_size=2)
    assert grad_cov_trace / grad_sq_norm == pytest.approx(expected, rel=0.05)
    start = workload.gradient_moments(workload.build({"width": 4})).noise_scale
    assert workload.expected_noise_scale({"width": 4}, rates=(), batch_size=2) == start


def test_data_follow_from_their_seed() -> None:
    one, same, other = (
        Teacher({"n_features": 4, "n_examples": 10, "data_seed": seed}) for seed in (0, 0, 1)
    )
    assert torch.equal(one.training[0], same.training[0])
    assert not torch.equal(one.training[0], other.training[0])
    assert one.fingerprint["data_seed"] != other.fingerprint["data_seed"]


def test_parameters_are_counted(tiny: Load) -> None:
    assert tiny("teacher").n_params({"width": 8}) == tiny("teacher").n_params_total({"width": 8})
    assert tiny("teacher").n_params({"width": 8}) == 8


def test_a_student_wider_than_the_examples_is_refused(tiny: Load) -> None:
    workload = tiny("teacher")
    with pytest.raises(ValueError, match="at most n_features=16, got 17; raise the option"):
        workload.loss(workload.build({"width": 17}), workload.validation)
    with pytest.raises(ValueError, match="at most n_features=16, got 17; raise the option"):
        workload.best_loss({"width": 17})


def test_a_teacher_without_an_exponent_is_refused() -> None:
    with pytest.raises(ValueError, match="alpha of teacher must be above 0, got 0"):
        load_workload(Workload(name="teacher", options={"alpha": 0}))
