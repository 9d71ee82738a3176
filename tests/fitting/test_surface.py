from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import block_diag
from statsmodels.regression.linear_model import OLS, WLS

from extrap.fitting.surface import (
    Neighbourhood,
    fit_surface,
    interior_minimum,
    monomials,
    pool_asymmetry,
    pool_scatter,
)

SKEW = np.array([0.004, -0.002, 0.001, 0.003])


def terms(powers, u):
    return np.prod(u[:, None, :] ** powers, axis=2)


def excess_curve(seed, *, n=40, noise=0.002, third=1.0, centre=(0.3, -0.2)):
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


def test_minimum_of_a_cubic_is_found_and_only_inside_the_box():
    powers, low = monomials(1, 3), np.array([-3.0])
    theta = np.array([1.0, -0.2, 0.5, 0.1])  # stationary at the roots of -.2 + u + .3 u²
    at = interior_minimum(powers, theta, low, np.array([3.0]))
    assert at == pytest.approx([(-1 + np.sqrt(1.24)) / 0.6], abs=1e-10)
    assert interior_minimum(powers, theta, low, np.array([0.1])) is None
    assert interior_minimum(powers, -theta, np.array([-1.0]), np.array([3.0])) is None


def test_top_of_a_hill_and_the_rim_of_the_box_are_no_minima():
    powers, one = monomials(1, 2), np.ones(1)
    assert interior_minimum(powers, np.array([0.0, 0.0, -1.0]), -one, one) is None
    assert interior_minimum(powers, np.array([0.0, 0.0, 1.0]), 0 * one, one) is None


@pytest.mark.parametrize("d", [2, 3, 4])
def test_minimum_is_found_in_several_dimensions(d):
    powers = monomials(d, 2)
    centre = np.linspace(-0.8, 0.7, d)
    grid = np.random.default_rng(0).uniform(-2, 2, size=(200, d))
    shape = np.eye(d) + 0.3
    y = np.einsum("ni,ij,nj->n", grid - centre, shape, grid - centre)
    theta = np.linalg.lstsq(terms(powers, grid), y, rcond=None)[0]
    at = interior_minimum(powers, theta, np.full(d, -2.0), np.full(d, 2.0))
    assert at == pytest.approx(centre, abs=1e-8)


@pytest.mark.parametrize(
    ("lowest", "highest"),
    [
        ((0.05,), (0.2,)),
        ((0.95,), (0.8,)),
        ((0.12, 0.88, 0.12), (0.25, 0.75, 0.25)),
        ((0.1, 0.5, 0.5, 0.5), (0.3, 1.5, 1.5, 1.5)),
        ((0.5, 0.5, 0.5, 0.9), (1.5, 1.5, 1.5, 0.7)),
    ],
)
def test_minimum_is_found_between_a_maximum_and_the_rim_of_the_box(lowest, highest):
    """A sum over the values of cubics with the derivative ±(u − lowest)(u − highest)."""
    d, low, high = len(lowest), np.array(lowest), np.array(highest)
    powers, side = monomials(d, 3), np.sign(low - high)
    theta = np.zeros(len(powers))
    for i, of_powers in enumerate((low * high, -(low + high) / 2, np.full(d, 1 / 3)), start=1):
        for axis, value in enumerate(side * of_powers):
            theta[(powers == i * np.eye(d)[axis]).all(axis=1)] = value
    at = interior_minimum(powers, theta, np.zeros(d), np.ones(d))
    assert at == pytest.approx(low, abs=1e-8)


def test_asymmetry_of_a_size_is_least_squares_over_the_others():
    """Each of the others has its own lower orders, all have the same four third-order terms.

    They count like three sizes of their average information.
    """
    sizes = [excess_curve(i, n=20 + 5 * i) for i in range(5)]
    sizes[2] = replace(sizes[2], weights=np.linspace(0.5, 2, 30), u=sizes[2].u + 1.5)
    powers = monomials(2, 3)
    third = powers.sum(axis=1) == 3
    for left_out, pooled in enumerate(pool_asymmetry(sizes)):
        others = [size for i, size in enumerate(sizes) if i != left_out]
        own = block_diag(*(terms(powers[~third], size.u) for size in others))
        common = np.vstack([terms(powers[third], size.u) for size in others])
        y, weights = (
            np.concatenate([getattr(size, name) for size in others]) for name in ("y", "weights")
        )
        theirs = WLS(y, np.column_stack([common, own]), weights=weights).fit()
        assert pooled.mean == pytest.approx(theirs.params[:4], rel=1e-6)
        information = np.linalg.inv(theirs.normalized_cov_params[:4, :4])
        assert pooled.precision == pytest.approx(3 / 4 * information, rel=1e-6)
    three = pool_asymmetry(sizes[:3])
    assert three[0].precision == pytest.approx(pool_asymmetry(sizes[:3][::-1])[2].precision)


def test_asymmetry_known_beforehand_counts_as_so_many_observations():
    """Rows of the third-order terms with the root of the precision as weight."""
    size = replace(excess_curve(0, n=14, noise=0.004), weights=np.linspace(0.5, 2, 14))
    known = pool_asymmetry([size, *(excess_curve(i) for i in (1, 2, 3))])[0]
    powers = monomials(2, 3)
    root = np.sqrt(size.weights)
    design = terms(powers, size.u) * root[:, None]
    rows = np.zeros((4, 10))
    rows[:, powers.sum(axis=1) == 3] = np.linalg.cholesky(known.precision).T
    theirs = OLS(
        np.concatenate([size.y * root, rows[:, powers.sum(axis=1) == 3] @ known.mean]),
        np.vstack([design, rows]),
    ).fit()
    square = float(np.sum((size.y * root - design @ theirs.params) ** 2))
    dof = 14 - theirs.get_influence().hat_matrix_diag[:14].sum()
    sd, pooled_dof = pool_scatter([size, size], [known, None])
    assert (sd, pooled_dof) == (pytest.approx(np.sqrt(square / dof)), int(dof))
    found = fit_surface(size, degree=3, asymmetry=known, known_sd=0.0, known_dof=0)
    at = terms(powers, found.position[None])[0]
    assert found.log_loss == pytest.approx(at @ theirs.params)
    variance = square / dof * at @ theirs.normalized_cov_params @ at
    assert found.log_loss_variance == pytest.approx(variance)
    assert found.dof == pytest.approx(dof)


@pytest.mark.parametrize("known", [(0.0, 0), (0.012, 50), (0.001, 50)])
def test_vertex_and_its_errors_are_those_of_statsmodels(known):
    """A parabola in one value; the residuals count where F rejects the known noise at 5 %."""
    rng = np.random.default_rng(1)
    u, seeds = np.tile(np.arange(-2.0, 3.0), 4), np.repeat(np.eye(4)[:, :3], 5, axis=0)
    seeds[15:] = -1
    y = 0.5 + 0.02 * (u - 0.4) ** 2 + 0.01 * rng.normal(size=20)
    size = Neighbourhood(
        u=u[:, None], y=y, weights=1 / (1 + u**2), seeds=seeds, start=np.array([-6.0])
    )
    theirs = WLS(y, np.column_stack([np.ones(20), u, u**2, seeds]), weights=size.weights).fit()
    assert theirs.df_resid == 14
    rejected = theirs.scale > known[0] ** 2 * stats.f.isf(0.05, 14, 50)
    assert rejected == (known[0] != 0.012)
    variance, dof = (theirs.scale, 14) if rejected else (known[0] ** 2, 14 + 50)
    _, b, c = theirs.params[:3]
    found = fit_surface(size, degree=2, asymmetry=None, known_sd=known[0], known_dof=known[1])
    assert found.position == pytest.approx([-6 - b / (2 * c)])
    slope = np.array([0, -1 / (2 * c), b / (2 * c**2), 0, 0, 0])
    covariance = variance * theirs.normalized_cov_params
    assert found.covariance == pytest.approx(np.array([[slope @ covariance @ slope]]))
    at = theirs.get_prediction([[1, -b / (2 * c), b**2 / (4 * c**2), 0, 0, 0]])
    assert found.log_loss == pytest.approx(at.predicted_mean[0])
    assert found.log_loss_variance == pytest.approx(at.var_pred_mean[0] * variance / theirs.scale)
    assert found.dof == pytest.approx(dof)


def test_two_sizes_pool_nothing():
    assert pool_asymmetry([excess_curve(0), excess_curve(1)]) == [None, None]
