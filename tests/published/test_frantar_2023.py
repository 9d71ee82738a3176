"""Frantar et al. 2023, Scaling laws for sparsely-connected foundation models, arXiv 2309.08520."""

import numpy as np
import pytest

from extrap.fitting import fit
from extrap.laws import Sparsity, dense_worth

# aS, bS, cS, bN, aD, bD, c: the fitted coefficients of the paper
PUBLISHED = {
    "ViT on JFT": (2.94e2, 0.821, 4.68e2, 0.392, 2.37e8, 0.890, 4.517),
    "T5 on C4": (1.68e1, 0.722, 4.50e1, 0.245, 6.90e8, 0.203, 0.651),
}
DENSITIES = np.array([1.0, 0.5, 0.25, 0.125])


def published_loss(name, n, d, tokens):
    """The paper's formula as it stands there, with sparsity S."""
    a_s, b_s, c_s, b_n, a_d, b_d, c = PUBLISHED[name]
    sparsity = 1 - d
    return (a_s * (1 - sparsity) ** b_s + c_s) * n**-b_n + (a_d / tokens) ** b_d + c


def grid():
    """Non-zero parameters, density, data: 36 runs, two amounts of data."""
    n, d, tokens = np.meshgrid(
        np.geomspace(1e6, 1e8, 5), DENSITIES, np.geomspace(2e10, 4e11, 3), indexing="ij"
    )
    return n.ravel(), d.ravel(), tokens.ravel()


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_coefficients_are_those_of_our_formula(name):
    n, d, tokens = grid()
    a_s, b_s, c_s, b_n, a_d, b_d, c = PUBLISHED[name]
    ours = np.array([c, c_s, a_s, a_d**b_d, b_s, b_n, b_d])
    z = np.column_stack([n, d, tokens])
    assert Sparsity().predict(ours, z) == pytest.approx(published_loss(name, n, d, tokens))


@pytest.mark.parametrize(("name", "worth"), [("T5 on C4", 2.16), ("ViT on JFT", 2.17)])
def test_75_percent_sparse_is_worth_a_dense_model_2_16_times_as_large(name, worth):
    """The paper's 2.16 is T5's; ViT's coefficients say 2.17."""
    a_s, b_s, c_s, b_n, *_ = PUBLISHED[name]
    found = dense_worth(0.25, ratio=a_s / c_s, density_exponent=b_s, params_exponent=b_n)
    assert float(found) == pytest.approx(worth, abs=0.005)
    n, tokens = np.array([1e7]), np.array([1e11])
    sparse = published_loss(name, n, np.array([0.25]), tokens)
    dense = published_loss(name, float(found) * n, np.array([1.0]), tokens)
    assert dense == pytest.approx(sparse, rel=1e-12)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_fit_finds_the_published_exponents_again(name):
    n, d, tokens = grid()
    fitted = fit(
        "sparsity",
        {"params": n.tolist(), "density": d.tolist(), "tokens": tokens.tolist()},
        published_loss(name, n, d, tokens).tolist(),
    )
    _, b_s, _, b_n, _, b_d, c = PUBLISHED[name]
    for key, value in {"bS": b_s, "bN": b_n, "bD": b_d, "E": c}.items():
        assert fitted.parameters[key] == pytest.approx(value, rel=1e-4)
