"""What plain SGD does to a student of the teacher, exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from torch import nn

from extrap.workloads.teacher import Teacher

Size = Mapping[str, float]


class GradientMoments(NamedTuple):
    """Of the gradient of one example, at one point.

    Attributes:
        grad_sq_norm: |G|², of its mean.
        grad_cov_trace: tr Σ, of its covariance.
    """

    grad_sq_norm: float
    grad_cov_trace: float

    @property
    def noise_scale(self) -> float:
        """B_simple = tr Σ / |G|² (McCandlish et al. 2018, arXiv 1812.06162)."""
        return self.grad_cov_trace / self.grad_sq_norm if self.grad_sq_norm else math.inf


def best_loss(teacher: Teacher, size: Size, *, n_examples: int | None = None) -> float:
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


def expected_loss(
    teacher: Teacher, size: Size, *, rates: Sequence[float], batch_size: int
) -> float:
    """The mean loss of plain SGD on fresh examples.

    With m_j = E δ_j², every step of rate η and batch B takes m_j to
    (1 - η λ_j)² m_j + η² λ_j² (|δ|² + τ + m_j) / B.
    """
    squares = _expected_squares(teacher, int(size["width"]), rates, batch_size)
    return float(0.5 * (squares.sum() + teacher._residual(len(squares))))


def expected_noise_scale(
    teacher: Teacher, size: Size, *, rates: Sequence[float], batch_size: int
) -> float:
    """B_simple after so many steps of plain SGD on fresh examples: E tr Σ / E |G|².

    References:
        McCandlish et al. 2018, arXiv 1812.06162, Eq. 2.9.
    """
    squares = _expected_squares(teacher, int(size["width"]), rates, batch_size)
    return _moments(teacher, squares, teacher._scales[: len(squares)] ** 2).noise_scale


def gradient_moments(teacher: Teacher, module: nn.Module) -> GradientMoments:
    """Those of a student where it stands.

    |G|² = Σ_j λ_j δ_j² and tr Σ = 2 L Σ_j λ_j + |G|², sums over j ≤ n.
    """
    (weight,) = module.parameters()
    theta = weight.detach().double().cpu().numpy().reshape(-1)
    scales = teacher._scales[: len(theta)]
    delta = scales * theta - teacher._teacher[: len(theta)]
    return _moments(teacher, delta**2, scales**2)


def _moments(teacher: Teacher, squares: np.ndarray, variances: np.ndarray) -> GradientMoments:
    """From δ_j², or their means, and λ_j."""
    grad_sq_norm = float(variances @ squares)
    double_loss = float(squares.sum()) + teacher._residual(len(squares))
    return GradientMoments(grad_sq_norm, double_loss * float(variances.sum()) + grad_sq_norm)


def _expected_squares(
    teacher: Teacher, width: int, rates: Sequence[float], batch_size: int
) -> np.ndarray:
    """m_j = E δ_j² after these steps."""
    variances = teacher._scales[:width] ** 2
    residual, squares = teacher._residual(width), teacher._teacher[:width] ** 2
    for rate in rates:
        moved = rate * variances
        spread = squares.sum() + residual + squares
        squares = (1 - moved) ** 2 * squares + moved**2 * spread / batch_size
    return squares
