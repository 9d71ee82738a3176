import numpy as np
import pytest
from scipy import optimize, stats

from extrap.fitting.loss_law import fit
from extrap.fitting.projection import (
    Problem,
    distinct_starts,
    nonnegative_least_squares,
    project,
    screen,
)
from extrap.fitting.robust import huber, minimise_huber
from extrap.laws import LOSS_LAWS

X = 16 * 2.0 ** np.arange(10)


def losses(seed=0, noise=0.01):
    noisy = np.random.default_rng(seed).standard_t(3, size=len(X))
    return (1.5 + 2 * (X / 16) ** -0.4) * np.exp(noise * noisy)


def test_hubers_loss_is_quadratic_then_linear():
    assert huber(np.array([0.0, 0.5, -1.0, 3.0]), 1.0) == pytest.approx([0, 0.125, 0.5, 2.5])
    assert huber(np.array([3e-3]), 1e-3) == pytest.approx([2.5])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("delta", [1e-3, 1e-2])
def test_robust_minimum_is_that_of_a_general_optimiser(seed, delta):
    loss = losses(seed)
    found = fit("power_floor", {"x": X}, loss, robust=delta)
    log_z = np.log(X / found.reference[0])

    def objective(q):
        r = np.log(np.exp(q[0]) + np.exp(q[1] - q[2] * log_z)) - np.log(loss)
        return float(huber(r, delta).sum())

    ours = np.array([*np.log(found.values[:2]), found.values[2]])
    best = min(
        optimize.minimize(objective, start, method="Nelder-Mead", options=options).fun
        for start in (ours, ours + 0.1, [0.3, 0.3, 0.5])
        for options in ({"xatol": 1e-12, "fatol": 1e-12, "maxiter": 4000, "maxfev": 4000},)
    )
    assert objective(ours) <= best * (1 + 1e-9)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e6])
def test_scale_of_the_objective_does_not_move_the_answer(scale):
    """A mean in place of the sum, with a fixed tolerance, stops early: bootstraps get narrow."""
    loss = losses()
    plain = fit("power_floor", {"x": X}, loss, robust=1e-3)
    problem = Problem(
        law=LOSS_LAWS["power_floor"],
        z=(X / plain.reference[0])[:, None],
        y=loss[None],
        weight=np.full((1, len(X)), scale),
        fixed={},
    )
    found = minimise_huber(problem, np.array([[[1.0, 1.0, 1.0]]]), delta=1e-3)
    assert found.values[0, 0] == pytest.approx(plain.values, rel=1e-6)
    weighted = fit("power_floor", {"x": X}, loss, robust=1e-3, weights=np.full(len(X), scale))
    assert weighted.values == pytest.approx(plain.values, rel=1e-9)
    assert np.array(weighted.covariance) == pytest.approx(np.array(plain.covariance))


@pytest.mark.parametrize("factor", [100.0, 0.01])
def test_one_outlier_misleads_least_squares_but_not_the_robust_fit(factor):
    loss = losses(noise=0.002)
    clean = fit("power_floor", {"x": X}, loss)
    loss[4] *= factor
    squares = fit("power_floor", {"x": X}, loss, loss_se=0.003 * loss)
    robust = fit("power_floor", {"x": X}, loss, loss_se=0.003 * loss, robust=1e-3)
    assert "lack-of-fit" in squares.flags
    assert "lack-of-fit" in robust.flags
    assert robust.parameters["c"] == pytest.approx(clean.parameters["c"], rel=0.1)
    error = [abs(found.parameters["E"] - 1.5) for found in (robust, squares)]
    assert error[0] < 0.05
    if factor < 1:  # a loss far too high has a relative residual of at most 1, which pulls less
        assert error[1] > 1
    assert robust.scatter < 0.02


def test_starts_other_than_the_least_squares_solution_are_needed():
    """Four of twelve losses off by tenfold or more: least squares alone leads to a bound."""
    x, rng = 16 * 2.0 ** np.arange(12), np.random.default_rng(38)
    loss = (1.5 + 2 * (x / 16) ** -0.4) * np.exp(0.003 * rng.normal(size=12))
    wild = rng.choice(12, 4, replace=False)
    loss[wild] *= rng.choice([0.01, 0.1, 10, 100], 4)
    found = fit("power_floor", {"x": x}, loss, robust=1e-3)
    assert found.parameters["c"] == pytest.approx(0.4, abs=0.02)
    assert found.parameters["E"] == pytest.approx(1.5, abs=0.05)


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_closed_form_is_that_of_an_active_set_solver(m):
    rng = np.random.default_rng(m)
    design, target = rng.normal(size=(50, 9, m)) + 0.5, rng.normal(size=(50, 9))
    found = nonnegative_least_squares(design, target)
    expected = [optimize.nnls(a, t)[0] for a, t in zip(design, target, strict=True)]
    assert found == pytest.approx(np.array(expected), abs=1e-9)
    assert (found == 0).any()
    assert (found > 0).any()


def test_equal_or_empty_columns_are_no_division_by_zero():
    column = np.array([1.0, 2.0, 3.0])
    twice = nonnegative_least_squares(np.column_stack([column, column]), 5 * column)
    assert twice.sum() == pytest.approx(5)
    empty = nonnegative_least_squares(np.column_stack([column, 0 * column]), 5 * column)
    assert empty == pytest.approx([5, 0])


def batch(law, n_sets, *, k=1):
    rng = np.random.default_rng(0)
    z = np.exp(rng.uniform(-2, 2, size=(12, k)))
    truth = 1.5 + (z**-0.4).sum(axis=1)
    y = truth * np.exp(0.01 * rng.normal(size=(n_sets, 12)))
    weight = rng.uniform(0.5, 2.0, size=(n_sets, 12))
    return Problem(law=LOSS_LAWS[law], z=z, y=y, weight=weight, fixed={})


@pytest.mark.parametrize(
    ("law", "k"), [("power_floor", 1), ("skaling", 2), ("chinchilla_tied", 2)]
)
def test_a_batch_of_data_sets_is_a_loop_over_them(law, k):
    problem = batch(law, 5, k=k)
    starts = distinct_starts(problem)
    values, chi2, converged = project(problem, starts).best()
    assert converged.all()
    for i in range(5):
        one = Problem(
            law=problem.law,
            z=problem.z,
            y=problem.y[i : i + 1],
            weight=problem.weight[i : i + 1],
            fixed={},
        )
        alone, alone_chi2, _ = project(one, starts).best()
        assert chi2[i] == pytest.approx(alone_chi2[0], rel=1e-12)
        assert values[i] == pytest.approx(alone[0], rel=1e-5)


@pytest.mark.parametrize(("law", "k"), [("power_floor", 1), ("power_floor", 2), ("skaling", 2)])
def test_minimum_is_one_to_rounding(law, k):
    """A general optimiser started there finds nothing lower by more than 1e-10 of chi-square."""
    problem = batch(law, 3, k=k)
    values, chi2, _ = project(problem, distinct_starts(problem)).best()
    for i in range(3):

        def residual(p, i=i):
            off = problem.law.predict(p, problem.z) / problem.y[i] - 1
            return off * np.sqrt(problem.weight[i])

        polished = optimize.least_squares(
            residual, values[i], x_scale="jac", xtol=1e-15, ftol=1e-15, gtol=1e-15
        )
        assert chi2[i] == pytest.approx(np.sum(residual(values[i]) ** 2), rel=1e-10)
        assert chi2[i] <= 2 * polished.cost * (1 + 1e-10)


def test_screening_orders_starts_by_their_chi_square():
    problem = batch("power_floor", 4)
    starts = np.linspace(0.1, 2, 15)[:, None]
    kept = screen(problem, starts, keep=3)
    assert kept.shape == (4, 3, 3)
    for i in range(4):
        predicted = problem.law.predict(kept[i], problem.z) / problem.y[i] - 1
        chi2 = (predicted**2 * problem.weight[i]).sum(axis=1)
        assert list(chi2) == sorted(chi2)
        assert kept[i, 0, 2] == pytest.approx(0.4, abs=0.3)


@pytest.mark.parametrize("fixed", [{"E": 1.2}, {"c": 0.3}, {"E": 1.2, "c": 0.3}])
def test_screened_starts_respect_pins(fixed):
    plain = batch("power_floor", 2)
    problem = Problem(
        law=plain.law, z=plain.z, y=plain.y, weight=np.ones_like(plain.y), fixed=fixed
    )
    kept = screen(problem, distinct_starts(problem), keep=1)[:, 0]
    found = project(problem, distinct_starts(problem)).best()[0]
    for name, value in fixed.items():
        i = problem.law.names(1).index(name)
        assert kept[:, i] == pytest.approx(value)
        assert found[:, i] == pytest.approx(value)
    if "c" in fixed:  # nothing is left to search: the screened coefficients are the solution
        assert kept == pytest.approx(found, rel=1e-9)


def test_exponent_is_refined_so_that_lack_of_fit_spares_the_true_law():
    """An exponent left on a grid of 5 % rejects the true law in more than a third of cases.

    200 data sets of a power law with a floor at 10 sizes and 3 seeds: p < .05 in about 5 %.
    """
    rng, x, n_rejected = np.random.default_rng(0), 16 * 2.0 ** np.arange(10), 0
    truth = 1.5 + 2 * (x / 16) ** -0.42
    for _ in range(200):
        logs = np.log(truth) + 0.02 * rng.normal(size=(3, 10))
        sd = np.sqrt(logs.var(axis=0, ddof=1).mean())
        loss = np.exp(logs.mean(axis=0))
        found = fit("power_floor", {"x": x}, loss, loss_se=loss * sd / np.sqrt(3), loss_se_dof=20)
        n_rejected += stats.f.sf(found.chi2 / found.dof, found.dof, 20) < 0.05
    assert n_rejected / 200 == pytest.approx(0.05, abs=0.046)
