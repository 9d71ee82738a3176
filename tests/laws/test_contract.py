"""One exam for every law; a new law joins by being listed in `extrap.laws.LAWS`."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import optimize

from extrap.fitting import fit
from extrap.laws import LAWS, LOSS_LAWS, ConditionallyLinearLaw, Law

# Parameters of each law by number of size columns, coefficients before exponents.
EXAMPLES = {
    ("power", 1): [2.5, 0.3],
    ("power", 2): [2.5, 0.3, 0.15],
    ("power_floor", 1): [1.7, 0.9, 0.45],
    ("power_floor", 2): [1.7, 0.5, 0.6, 0.34, 0.28],
    ("optimum_power", 1): [-4.5, -0.4],
    ("optimum_power", 2): [-4.5, -0.4, 0.2],
}
CASES = [(law, k) for law in LAWS.values() for k in (1, 2)]
LOSS_CASES = [(law, k) for law in LOSS_LAWS.values() for k in (1, 2)]


def ids(cases: list[tuple[Law, int]]) -> list[str]:
    return [f"{law.key}-{k}" for law, k in cases]


def example(law: Law, k: int) -> np.ndarray:
    return np.array(EXAMPLES[law.key, k])


def sizes(k: int, n: int = 12) -> np.ndarray:
    return np.exp(np.random.default_rng(7).uniform(-3, 3, size=(n, k)))


@pytest.mark.parametrize(("law", "k"), CASES, ids=ids(CASES))
def test_law_is_finite_and_keeps_the_shape_of_its_sizes(law: Law, k: int) -> None:
    values, z = example(law, k), sizes(k)
    assert law.log_predict(values, z).shape == (len(z),)
    assert law.log_gradient(values, z).shape == (len(z), len(values))
    assert np.isfinite(law.log_predict(values, z)).all()
    assert len(law.names(k)) == len(values)
    assert len(set(law.names(k))) == len(values)
    one_by_one = [law.log_predict(values, row[None])[0] for row in z]
    assert law.log_predict(values, z) == pytest.approx(one_by_one)


@pytest.mark.parametrize(("law", "k"), CASES, ids=ids(CASES))
def test_gradient_is_that_of_finite_differences(law: Law, k: int) -> None:
    values, z = example(law, k), sizes(k)
    numeric = optimize.approx_fprime(values, lambda v: law.log_predict(v, z), 1e-7)
    assert law.log_gradient(values, z) == pytest.approx(numeric, abs=2e-6)


@pytest.mark.parametrize(("law", "k"), LOSS_CASES, ids=ids(LOSS_CASES))
def test_loss_falls_with_every_size(law: ConditionallyLinearLaw, k: int) -> None:
    values, z = example(law, k), sizes(k)
    for column in range(k):
        larger = z.copy()
        larger[:, column] *= 2
        assert (law.log_predict(values, larger) < law.log_predict(values, z)).all()


@pytest.mark.parametrize(("law", "k"), LOSS_CASES, ids=ids(LOSS_CASES))
def test_basis_and_coefficients_make_up_the_law(law: ConditionallyLinearLaw, k: int) -> None:
    values, z = example(law, k), sizes(k)
    n = law.n_coefficients(k)
    combined = law.basis(values[n:], z) @ values[:n]
    assert np.log(combined) == pytest.approx(law.log_predict(values, z))


@pytest.mark.parametrize(("law", "k"), LOSS_CASES, ids=ids(LOSS_CASES))
def test_law_recovers_its_own_parameters_from_noiseless_data(
    law: ConditionallyLinearLaw, k: int
) -> None:
    x = sizes(k, n=20)
    x /= np.exp(np.log(x).mean(axis=0))  # so that the fit's reference size is 1
    loss = np.exp(law.log_predict(example(law, k), x))
    fitted = fit(law.key, {f"x{i}": x[:, i] for i in range(k)}, loss)
    assert fitted.values == pytest.approx(example(law, k), rel=1e-4)
    assert fitted.names == law.names(k)


@pytest.mark.parametrize("law", LAWS.values(), ids=list(LAWS))
def test_law_names_its_formula_and_its_source(law: Law) -> None:
    assert LAWS[law.key] is law
    assert "=" in law.formula
    assert re.search(r"(19|20)\d\d", law.reference)
    assert "References:" in (type(law).__doc__ or "")
