"""Muennighoff et al. 2023, arXiv 2305.16264, Eq. 5: what repeating data is worth.

With R_D* = 15.3878 the effective tokens D'/U at 1 … 40 epochs follow from the equation to the
last digit; four epochs are worth 3.7 (they call it almost as good as new data), forty 15.2.
"""

import numpy as np
import pytest

from extrap.fitting import fit
from extrap.laws import DataConstrained, PowerFloor, effective_epochs

EPOCHS = [1.0, 2.0, 4.0, 8.0, 16.0, 40.0]
EFFECTIVE = [1.0, 1.9682, 3.7257, 6.6241, 10.5825, 15.1675]


def test_effective_epochs_are_the_published_ones():
    assert effective_epochs(np.array(EPOCHS), 15.3878) == pytest.approx(EFFECTIVE, abs=5e-5)
    assert effective_epochs(1e9, 15.3878) == pytest.approx(16.3878)
    assert effective_epochs(0.5, 15.3878) == pytest.approx(0.5)


def test_law_sees_repeated_tokens_as_effective_ones():
    """At N far below what U tokens pay for, N' = N and only D' differs from Chinchilla's law."""
    z = np.array([[1e-3, epochs, 1.0] for epochs in EPOCHS])
    shape = {"c1": 0.35, "c2": 0.35, "r": 1.0, "RD": 15.3878, "RN": 5.3097}
    loss = DataConstrained().predict(np.array([1.87, 1.0, *shape.values()]), z)
    expected = 1.87 + 1e-3**-0.35 + np.array(EFFECTIVE) ** -0.35
    assert loss == pytest.approx(expected, abs=1e-4)


def test_without_repetition_it_is_chinchillas_law_for_models_the_data_pay_for():
    z = np.exp(np.random.default_rng(0).uniform(-1, 1, size=(20, 2)))
    z[:, 0] = np.minimum(z[:, 0], z[:, 1])
    repeated = DataConstrained().predict(
        np.array([1.7, 0.6, 0.34, 0.34, 1.0, 15.0, 5.0]), np.column_stack([z, z[:, 1]])
    )
    plain = PowerFloor().predict(np.array([1.7, 0.6, 0.6, 0.34, 0.34]), z)
    assert repeated == pytest.approx(plain, rel=1e-12)


def test_saturation_can_be_pinned_at_the_published_values_and_the_unit_of_size_is_free():
    rng = np.random.default_rng(1)
    n, unique = np.exp(rng.uniform(-2, 2, 40)) * 1e8, np.exp(rng.uniform(-2, 1, 40)) * 2e9
    tokens = unique * rng.uniform(1, 30, 40)
    law = DataConstrained()
    z = np.column_stack([n / 1e8, tokens / 2e9, unique / 2e9])
    loss = law.predict(np.array([1.87, 0.5, 0.35, 0.35, 1.0, 15.3878, 5.3097]), z)
    columns = {"params": n, "tokens": tokens, "unique_tokens": unique}
    found = fit("data_constrained", columns, loss, fix={"RD": 15.3878, "RN": 5.3097})
    assert found.parameters["c1"] == pytest.approx(0.35, abs=1e-6)
    assert found.parameters["E"] == pytest.approx(1.87, abs=1e-6)
    free = fit("data_constrained", columns, loss)
    assert free.parameters["RD"] == pytest.approx(15.3878, rel=1e-3)
