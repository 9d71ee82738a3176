"""The exam of a loss law: `check_law(law, examples)` for a law of your own, as for ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from extrap.laws.base import Array, LossLaw

N_SIZES, EXAM_SPREAD, EXAM_SEED = 12, 3.0, 7
"""Relative sizes of the exam lie within e^±3."""
DIFFERENCE = 1e-6
"""Step of the central differences, relative to a parameter."""


def check_law(law: LossLaw, examples: Mapping[int, Sequence[float]]) -> None:
    """Check that a law keeps what the fitter relies on.

    Shapes of the basis, agreement of a batch with a loop, derivatives against central differences,
    a positive loss, starts within bounds, names that exist. Whether the parameters that may be
    pinned depend on the unit of size it cannot tell.

    Args:
        law: The law.
        examples: Number of size columns → parameters of order 1, coefficients before the shape;
            one entry for each number of `law.n_columns`.

    Raises:
        AssertionError: The law breaks a rule; the message names it.
    """
    assert set(examples) == set(law.n_columns), "examples must cover each number of size columns"
    for k, values in examples.items():
        _check_names(law, k, len(values))
        z = np.exp(
            np.random.default_rng(EXAM_SEED).uniform(-EXAM_SPREAD, EXAM_SPREAD, size=(N_SIZES, k))
        )
        _check_starts(law, z)
        _check_derivatives(law, np.array(values, dtype=float), z)


def _check_names(law: LossLaw, k: int, n_values: int) -> None:
    names = law.names(k)
    assert len(names) == len(set(names)) == n_values, (
        f"the parameters with {k} columns are {names}"
    )
    assert set(law.unit_free(k)) <= set(names), "a unit-free parameter does not exist"
    assert set(law.exponents(k)) <= set(names), "an exponent does not exist"
    assert len(law.exponents(k)) == k, "each size column needs one exponent"


def _check_starts(law: LossLaw, z: Array) -> None:
    ranges = law.ranges(z)
    assert len(ranges) == len(law.shape(z.shape[1])), "each shape parameter needs one range"
    for low, high, starts, is_log in ranges:
        assert all(low <= start <= high for start in starts), "a start lies out of its range"
        assert low > 0 or not is_log, "a range on a log scale must be positive"


def _check_derivatives(law: LossLaw, values: Array, z: Array) -> None:
    m = len(law.coefficients(z.shape[1]))
    batch = values * np.linspace(0.9, 1.1, 6).reshape(2, 3, 1)
    basis = law.basis(batch[..., m:], z)
    assert basis.shape == (2, 3, len(z), m), "basis must broadcast over leading axes"
    slopes = law.basis_and_slopes(batch[..., m:], z)[1]
    assert slopes.shape == (2, 3, len(values) - m, len(z), m), "slopes are those of the shape"
    gradient = law.log_gradient(batch, z)
    for i in np.ndindex(2, 3):
        single = batch[i]
        np.testing.assert_allclose(basis[i], law.basis(single[m:], z), rtol=1e-12)
        assert (law.predict(single, z) > 0).all(), "the loss must be positive at the example"
        steps = DIFFERENCE * np.diag(np.maximum(np.abs(single), DIFFERENCE))
        up, down = (law.log_predict(single + sign * steps, z) for sign in (1, -1))
        numeric = (up - down) / (2 * np.diag(steps)[:, None])
        np.testing.assert_allclose(gradient[i], numeric.T, rtol=1e-5, atol=1e-7)
