from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from extrap.fitting.surface import (
    Neighbourhood,
    fit_surface,
    interior_minimum,
    monomials,
    pool_asymmetry,
    pool_scatter,
)

SKEW = np.array([0.004, -0.002, 0.001, 0.003])


def terms(powers: np.ndarray, u: np.ndarray) -> np.ndarray:
    return np.prod(u[:, None, :] ** powers, axis=2)


def valley(
    seed: int,
    *,
    n: int = 40,
    noise: float = 0.002,
    third: float = 1.0,
    centre: tuple[float, float] = (0.3, -0.2),
) -> Neighbourhood:
    """Runs about one optimum at `centre`, with common third-order terms in two tuned values."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(-2, 2, size=(n, 2))
    v = u - np.array(centre)
    cubic = terms(monomials(2, 3)[monomials(2, 3).sum(axis=1) == 3], v) @ SKEW
    y = 0.02 * v[:, 0] ** 2 + 0.015 * v[:, 1] ** 2 + 0.01 * v[:, 0] * v[:, 1] + third * cubic
    return Neighbourhood(
        u=u,
        y=y + noise * rng.normal(size=n),
        weights=np.ones(n),
        seeds=np.empty((n, 0)),
        start=np.zeros(2),
    )


def test_minimum_of_a_cubic_is_found_and_only_inside_the_box() -> None:
    powers, low = monomials(1, 3), np.array([-3.0])
    theta = np.array([1.0, -0.2, 0.5, 0.1])  # stationary at the roots of -.2 + u + .3 u²
    at = interior_minimum(powers, theta, low, np.array([3.0]))
    assert at == pytest.approx([(-1 + np.sqrt(1.24)) / 0.6], abs=1e-10)
    assert interior_minimum(powers, theta, low, np.array([0.1])) is None
    assert interior_minimum(powers, -theta, np.array([-1.0]), np.array([3.0])) is None


def test_top_of_a_hill_and_the_rim_of_the_box_are_no_minima() -> None:
    powers, one = monomials(1, 2), np.ones(1)
    assert interior_minimum(powers, np.array([0.0, 0.0, -1.0]), -one, one) is None
    assert interior_minimum(powers, np.array([0.0, 0.0, 1.0]), 0 * one, one) is None


@pytest.mark.parametrize("d", [2, 3, 4])
def test_minimum_is_found_in_several_dimensions(d: int) -> None:
    powers = monomials(d, 2)
    centre = np.linspace(-0.8, 0.7, d)
    grid = np.random.default_rng(0).uniform(-2, 2, size=(200, d))
    shape = np.eye(d) + 0.3
    y = np.einsum("ni,ij,nj->n", grid - centre, shape, grid - centre)
    theta = np.linalg.lstsq(terms(powers, grid), y, rcond=None)[0]
    at = interior_minimum(powers, theta, np.full(d, -2.0), np.full(d, 2.0))
    assert at == pytest.approx(centre, abs=1e-8)


def test_asymmetry_of_a_size_comes_from_the_others() -> None:
    sizes = [valley(i) for i in range(4)]
    before = pool_asymmetry(sizes)
    turned = [replace(sizes[0], y=-3 * sizes[0].y), *sizes[1:]]
    after = pool_asymmetry(turned)
    assert after[0].mean == pytest.approx(before[0].mean)
    assert after[1].mean != pytest.approx(before[1].mean, rel=0.1)


def test_asymmetry_does_not_depend_on_where_the_polynomial_is_centred() -> None:
    sizes = [valley(i) for i in range(4)]
    moved = [replace(s, u=s.u + 1.5, start=s.start - 1.5) for s in sizes]
    for here, there in zip(pool_asymmetry(sizes), pool_asymmetry(moved), strict=True):
        assert there.mean == pytest.approx(here.mean, abs=1e-8)


def test_pooled_asymmetry_is_that_of_the_truth() -> None:
    pooled = pool_asymmetry([valley(i, n=200, noise=1e-4) for i in range(6)])
    assert pooled[0].mean == pytest.approx(SKEW, abs=2e-5)


def test_two_sizes_pool_nothing() -> None:
    assert pool_asymmetry([valley(0), valley(1)]) == [None, None]


def test_few_runs_are_located_better_with_the_asymmetry_of_others() -> None:
    errors = {"own": [], "pooled": []}
    for seed in range(30):
        sizes = [valley(100 * seed + i, n=14 if i == 0 else 40, noise=0.004) for i in range(6)]
        shape = pool_asymmetry(sizes)[0]
        for name, known in (("own", None), ("pooled", shape)):
            vertex = fit_surface(sizes[0], degree=3, asymmetry=known, known_sd=0.0, known_dof=0)
            off = 1.0 if vertex is None else np.linalg.norm(vertex.position - (0.3, -0.2))
            errors[name].append(min(off, 1.0))
    rms = {name: np.sqrt(np.mean(np.square(values))) for name, values in errors.items()}
    assert rms["pooled"] < 0.7 * rms["own"]


def test_scatter_about_the_surfaces_is_the_noise() -> None:
    sizes = [valley(i, n=100, noise=0.01) for i in range(6)]
    sd, dof = pool_scatter(sizes, pool_asymmetry(sizes))
    assert sd == pytest.approx(0.01, rel=0.07)
    assert 6 * 90 <= dof <= 6 * 94


def test_known_noise_counts_unless_the_residuals_are_significantly_larger() -> None:
    size = valley(0, noise=0.01)
    for known_sd, counts in ((0.012, True), (0.001, False)):
        vertex, alone = (
            fit_surface(size, degree=2, asymmetry=None, known_sd=known_sd, known_dof=dof)
            for dof in (50, 0)
        )
        assert (vertex.dof > 80) == counts
        assert (vertex.covariance[0, 0] == pytest.approx(alone.covariance[0, 0])) != counts
