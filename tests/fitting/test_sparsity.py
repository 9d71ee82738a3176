from __future__ import annotations

import numpy as np
import pytest

from extrap.fitting import fit_sparsity
from extrap.laws import dense_worth

E, S, C_S, A_S, B_S, B_N = 1.4, 0.6, 1.0, 0.5, 0.7, 0.3
TERMS = {"ratio": A_S / C_S, "density_exponent": B_S, "params_exponent": B_N}


def sweep(densities: tuple[float, ...] = (1.0, 0.5, 0.2, 0.1), sd: float = 0.0, seed: int = 0):
    """Non-zero parameters, densities and losses of four sizes by a known law."""
    total, density = (
        a.ravel() for a in np.meshgrid(np.geomspace(3e4, 8e5, 4), densities, indexing="ij")
    )
    kept = total * density
    loss = E + S * (C_S + A_S * density**B_S) * (kept / 1e5) ** -B_N
    noise = sd * np.random.default_rng(seed).normal(size=len(loss))
    return kept.tolist(), density.tolist(), (loss * np.exp(noise)).tolist()


def test_the_density_term_is_found_without_noise() -> None:
    found = fit_sparsity(*sweep(), n_replicates=20)
    assert found.density_exponent.value == pytest.approx(B_S, rel=1e-4)
    assert found.ratio.value == pytest.approx(A_S / C_S, rel=1e-4)
    assert found.params_exponent.value == pytest.approx(B_N, rel=1e-4)
    assert found.fitted.parameters["E"] == pytest.approx(E, rel=1e-4)
    for density, worth in found.worth.items():
        assert worth.value == pytest.approx(float(dense_worth(density, **TERMS)), rel=1e-4)
        assert found.size_kept[density].value == pytest.approx(density * worth.value)


def test_a_dense_model_is_worth_itself_whatever_the_noise() -> None:
    found = fit_sparsity(*sweep(sd=0.01), n_replicates=50)
    assert found.worth[1.0].value == pytest.approx(1.0)
    assert found.worth[1.0].ci == pytest.approx((1.0, 1.0))


def test_where_all_runs_saw_other_data_it_has_a_term_of_its_own() -> None:
    kept, density, loss = (np.tile(a, 3) for a in sweep())
    tokens = np.repeat([1e6, 4e6, 1.6e7], len(kept) // 3)
    loss = loss + 0.4 * (tokens / 4e6) ** -0.5
    found = fit_sparsity(
        kept.tolist(), density.tolist(), loss.tolist(), tokens=tokens.tolist(), n_replicates=10
    )
    assert found.fitted.parameters["bD"] == pytest.approx(0.5, rel=1e-3)
    assert found.density_exponent.value == pytest.approx(B_S, rel=1e-3)


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """16 points, .4 % noise: 150 replicates of 95 % have a standard error of 1.8 points."""
    n, held = 150, dict.fromkeys(("worth .1", "worth .5", "bS", "ratio", "bN"), 0)
    for seed in range(n):
        found = fit_sparsity(*sweep(sd=0.004, seed=seed), seed=seed, n_replicates=200)
        for name, measure, truth in (
            ("worth .1", found.worth[0.1], float(dense_worth(0.1, **TERMS))),
            ("worth .5", found.worth[0.5], float(dense_worth(0.5, **TERMS))),
            ("bS", found.density_exponent, B_S),
            ("ratio", found.ratio, A_S / C_S),
            ("bN", found.params_exponent, B_N),
        ):
            low, high = measure.ci
            held[name] += (low or 0.0) <= truth <= (high or np.inf)
    assert all(0.89 <= count / n <= 1.0 for count in held.values()), held
