import math
from pathlib import Path

import numpy as np
import pytest
import torch

from extrap.files import import_source
from tests.study_workloads import TEACHER

Teacher = import_source(Path(TEACHER.rpartition(":")[0]), "teacher_workload").Teacher
SPECTRA = pytest.mark.parametrize("spectrum", [0.0, 1.5])


def best_loss(teacher, size, *, n_examples=None):
    """The lowest loss a width can reach, ½ σ² + ½ n^-α; exact.

    With D = `n_examples` the mean loss of least squares on so many instead, larger by the factor
    (D - 1) / (D - n - 1); infinite unless D > n + 1.
    """
    width = int(size["width"])
    best = 0.5 * teacher._residual(width)
    if n_examples is None:
        return best
    degrees = n_examples - width - 1
    return best * (n_examples - 1) / degrees if degrees > 0 else math.inf


def noise_scale(teacher, module):
    """B_simple = tr Σ / |G|² of a student where it stands (McCandlish et al. 2018, 1812.06162).

    |G|² = Σ_j λ_j δ_j² and tr Σ = 2 L Σ_j λ_j + |G|², sums over j ≤ n.
    """
    (weight,) = module.parameters()
    theta = weight.detach().double().cpu().numpy().reshape(-1)
    scales = teacher._scales[: len(theta)]
    squares, variances = (scales * theta - teacher._teacher[: len(theta)]) ** 2, scales**2
    grad_sq_norm = float(variances @ squares)
    double_loss = float(squares.sum()) + teacher._residual(len(squares))
    return (double_loss * float(variances.sum()) + grad_sq_norm) / grad_sq_norm


@SPECTRA
def test_held_out_loss_is_the_loss_over_the_distribution(spectrum):
    """Any student's held-out loss against ½ (|δ|² + τ), and against a million fresh examples."""
    workload = Teacher(n_features=12, n_examples=10, spectrum=spectrum, alpha=0.7, noise=0.3)
    module = workload.build({"width": 5})
    torch.manual_seed(0)
    module.output.weight.data = torch.randn(1, 5)
    j = np.arange(1, 6)
    c = np.sqrt([1.0, *((j[1:] - 1.0) ** -0.7 - j[1:] ** -0.7)])
    delta = j ** (-spectrum / 2) * module.output.weight.detach().numpy()[0] - c
    exact = 0.5 * (np.sum(delta**2) + 5**-0.7 + 0.3**2)
    assert workload.loss(module, workload.validation).item() == pytest.approx(exact, rel=1e-5)

    fresh = Teacher(**{**workload.fingerprint, "n_examples": 1_000_000})
    assert workload.loss(module, fresh.training).item() == pytest.approx(exact, rel=0.005)


@pytest.mark.parametrize(("alpha", "noise"), [(0.5, 0.5), (0.8, 0.0), (0.3, 1.0)])
def test_best_losses_follow_the_law_they_promise(alpha, noise):
    workload = Teacher(alpha=alpha, noise=noise, n_examples=10)
    widths = np.array([2, 8, 32, 128])
    losses = np.array([best_loss(workload, {"width": int(n)}) for n in widths])
    excess = losses - noise**2 / 2
    slopes = np.diff(np.log(excess)) / np.diff(np.log(widths))
    assert slopes == pytest.approx(-alpha)
    assert excess[0] == pytest.approx(2**-alpha / 2)


@SPECTRA
def test_no_student_is_better_than_the_best(spectrum):
    workload = Teacher(n_features=32, n_examples=10, spectrum=spectrum)
    x, y = (t.double().numpy() for t in workload.validation)
    theta, *_ = np.linalg.lstsq(x[:, :8], y, rcond=None)
    loss = 0.5 * np.mean((x[:, :8] @ theta - y) ** 2)
    assert loss == pytest.approx(best_loss(workload, {"width": 8}), rel=1e-6)


def test_least_squares_on_few_examples_is_as_bad_as_predicted():
    losses = []
    for seed in range(60):
        workload = Teacher(n_features=16, n_examples=40, data_seed=seed)
        x, y = (t.double().numpy() for t in workload.training)
        theta, *_ = np.linalg.lstsq(x[:, :8], y, rcond=None)
        x, y = (t.double().numpy() for t in workload.validation)
        losses.append(0.5 * np.mean((x[:, :8] @ theta - y) ** 2))
    expected = best_loss(workload, {"width": 8}, n_examples=40)
    assert expected == pytest.approx(best_loss(workload, {"width": 8}) * 39 / 31)
    assert np.mean(losses) == pytest.approx(expected, rel=0.03)
    assert best_loss(workload, {"width": 8}, n_examples=9) == math.inf


def test_a_known_noise_scale():
    """At 0, width 1: |G|² = 1, L = (1 + 1 + ¼) / 2, tr Σ = 2 L + 1."""
    workload = Teacher(n_features=4, n_examples=10)
    assert noise_scale(workload, workload.build({"width": 1})) == 3.25


def test_data_follow_from_their_seed(tiny):
    one, same, other = (tiny("teacher", data_seed=seed).training[0] for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
