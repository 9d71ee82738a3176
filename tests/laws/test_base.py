from __future__ import annotations

import numpy as np
import pytest

from extrap.laws import LOSS_LAWS
from extrap.laws.base import STEP, exp, log_add_exp


def test_exponential_of_a_complex_step_carries_its_derivative() -> None:
    t = np.array([-700.0, -1.0, 0.0, 2.0, 700.0])
    moved = exp(t + 1j * STEP)
    assert moved.real == pytest.approx(np.exp(t))
    assert moved.imag / STEP == pytest.approx(np.exp(t))
    assert exp(t).dtype == float


def test_logarithm_of_a_sum_does_not_overflow_and_carries_its_derivative() -> None:
    a, b = np.array([800.0, -800.0, 1.0, 1.0]), np.array([799.0, -801.0, 1.0, -900.0])
    assert log_add_exp(a, b) == pytest.approx(np.logaddexp(a, b))
    moved = log_add_exp(a + 1j * STEP, b.astype(complex))
    assert moved.real == pytest.approx(np.logaddexp(a, b))
    assert moved.imag / STEP == pytest.approx(1 / (1 + np.exp(b - a)))


def test_gradient_of_a_law_that_has_no_loss_is_zero() -> None:
    law, values = LOSS_LAWS["power"], np.array([[0.0, 0.3], [2.0, 0.3]])
    gradient = law.log_gradient(values, np.array([[1.0], [4.0]]))
    assert np.all(gradient[0] == 0)
    assert gradient[1, :, 0] == pytest.approx(0.5)
