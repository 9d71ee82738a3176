import numpy as np
import pytest
from scipy import optimize, stats
from statsmodels.regression.linear_model import OLS, WLS

from benchmarks.broken_power import broken_power_known
from extrap.errors import DataError
from extrap.fitting.designs import check_identifiable
from extrap.fitting.health import lack_of_fit_p
from extrap.fitting.loss_law import fit, predict_log, relative_sizes
from extrap.laws import LOSS_LAWS

SIZES = [16.0, 32.0, 64.0, 128.0, 256.0, 512.0]
LOG_Z = np.log(SIZES) - np.mean(np.log(SIZES))
DESIGN = np.column_stack([np.ones(6), -LOG_Z])
"""Of `ln b − c ln z`, and of `a − b ln z`."""


def noisy_losses(seed, noise=0.01):
    x = np.array(SIZES) / 16
    return (1.5 + 2 * x**-0.4) * np.exp(noise * np.random.default_rng(seed).normal(size=len(x)))


def test_known_noise_gives_the_standard_errors_of_weighted_least_squares():
    """On losses without residuals the errors are those of a line on log-log axes."""
    sd = np.array([0.03, 0.04, 0.05, 0.02, 0.03, 0.06])
    loss = np.exp(DESIGN @ [0.7, 0.3])
    found = fit("power", {"x": SIZES}, loss, loss_se=loss * np.sqrt(sd**2 - 0.002**2))
    theirs = WLS(np.log(loss), DESIGN, weights=sd**-2.0).fit(cov_type="fixed scale")
    assert found.values == pytest.approx((np.exp(0.7), 0.3))
    unit = np.array([np.exp(0.7), 1.0])  # b instead of ln b
    expected = theirs.normalized_cov_params * np.outer(unit, unit)
    assert np.array(found.covariance) == pytest.approx(expected, rel=1e-6)
    mean, se = predict_log(found, relative_sizes(found, {"x": 4096.0}))
    far = [[1.0, -np.log(4096.0 / found.reference[0])]]
    assert mean == pytest.approx(far @ np.array([0.7, 0.3]))
    far_se = np.sqrt(far @ theirs.normalized_cov_params @ np.transpose(far))[0]
    assert se == pytest.approx(far_se, rel=1e-6)
    assert found.scatter == pytest.approx(np.sqrt(np.mean(sd**2)))
    assert (found.dof, found.scale_dof, found.n_points) == (4, 1000, 6)
    assert found.reference == pytest.approx([np.exp(np.mean(np.log(SIZES)))])


@pytest.mark.parametrize(("share", "is_weak"), [(0.49, False), (0.51, True)])
def test_exponent_is_weak_where_its_error_exceeds_half_of_it(share, is_weak):
    """The slope of a line on log-log axes, known to s / √Σ ln² z."""
    log_se = share * 0.3 * np.sqrt(np.sum(LOG_Z**2))
    loss = np.exp(DESIGN @ [0.7, 0.3])
    found = fit("power", {"x": SIZES}, loss, loss_se=log_se * loss)
    assert ("exponent-weakly-identified" in found.flags) == is_weak


@pytest.mark.parametrize("se", [None, 0.003, 0.1])
def test_residuals_scale_the_covariance_where_they_exceed_the_noise(se):
    """The log-linear law is linear: weighted least squares with weights 1 / (y s)²."""
    loss = (5 - 0.3 * LOG_Z) * np.exp(0.02 * np.random.default_rng(1).normal(size=6))
    weights = np.arange(1.0, 7.0)
    errors = None if se is None else se * loss
    found = fit("log_linear", {"x": SIZES}, loss, loss_se=errors, loss_se_dof=7, weights=weights)
    log_se = 1.0 if se is None else np.hypot(se, 0.002)
    weights = weights / (3.5 if se is None else log_se**2)
    theirs = WLS(loss, DESIGN, weights=weights / loss**2).fit()
    assert found.values == pytest.approx(theirs.params)
    assert found.chi2 == pytest.approx(theirs.ssr)
    inflation = theirs.ssr / 4 if se != 0.1 else 1.0
    at_curve = WLS(loss, DESIGN, weights=weights / theirs.fittedvalues**2).fit()
    expected = inflation * at_curve.normalized_cov_params
    assert np.array(found.covariance) == pytest.approx(expected)
    assert found.scatter == pytest.approx(np.sqrt(inflation) * log_se)
    assert found.scale_dof == (7 if se == 0.1 else 4)


def test_robust_covariance_is_the_sandwich_hc1():
    """With δ beyond all residuals, a power law is a line on log-log axes."""
    loss = np.exp(DESIGN @ [0.7, 0.3] + 0.02 * np.random.default_rng(2).normal(size=6))
    found = fit("power", {"x": SIZES}, loss, robust=10.0)
    theirs = OLS(np.log(loss), DESIGN).fit(cov_type="HC1")
    unit = np.array([found.values[0], 1.0])
    assert [np.log(found.values[0]), found.values[1]] == pytest.approx(theirs.params, rel=1e-6)
    expected = theirs.cov_params() * np.outer(unit, unit)
    assert np.array(found.covariance) == pytest.approx(expected, rel=1e-6)
    spread = 1.4826 * np.median(np.abs(theirs.resid)) * np.sqrt(6 / 4)
    assert found.scatter == pytest.approx(spread, rel=1e-6)


def test_robust_location_is_the_one_worked_out_by_hand():
    """Deviations −.5, 0, .5, .2, 10 δ: four within δ of their location .3, one beyond.

    0 = Σψ = (.2 − 4 · .3) + 1; variance Σψ² / 4² · 5 / 4 with Σψ² = .64 + .09 + .04 + .01 + 1.
    """
    delta, x = 0.01, np.array(SIZES[:5])
    loss = 2 * (x / x[2]) ** -0.4 * np.exp(delta * np.array([-0.5, 0, 0.5, 0.2, 10]))
    found = fit("power", {"x": x}, loss, fix={"c": 0.4}, robust=delta)
    log_b = np.log(found.values[0] / 2) + 0.4 * np.log(found.reference[0] / x[2])
    assert log_b == pytest.approx(0.3 * delta)
    variance = 1.78 / 16 * 5 / 4 * delta**2
    assert found.covariance[0][0] == pytest.approx(variance * found.values[0] ** 2)
    assert found.scatter == pytest.approx(1.4826 * 0.3 * np.sqrt(5 / 4) * delta)
    assert found.covariance[1] == (0.0, 0.0)


@pytest.mark.parametrize(
    ("se", "known", "expected"), [(0.1, 20, 20), (0.1, 2, 4), (0.1, None, 1000), (1e-4, 20, 4)]
)
def test_known_noise_counts_by_its_degrees_of_freedom_at_least_those_of_the_fit(
    se, known, expected
):
    loss = noisy_losses(0)
    found = fit("power", {"x": SIZES}, loss, loss_se=se * loss, loss_se_dof=known)
    assert found.scale_dof == expected


@pytest.mark.parametrize("noise_dof", [None, 12])
def test_lack_of_fit_is_claimed_at_one_percent(noise_dof):
    """By χ² with 4 degrees of freedom, or F with 4 and 12; weights do not count."""
    quantile = 4 * stats.f.isf(0.01, 4, 12) if noise_dof else stats.chi2.isf(0.01, 4)
    loss, weights = noisy_losses(0, 0.05), np.arange(1.0, 7.0)
    theirs = WLS(loss, DESIGN, weights=weights / loss**2).fit()
    square = float(np.sum((theirs.resid / loss) ** 2))
    for factor, lacks in ((1.001, True), (0.999, False)):
        se = np.sqrt(square / (factor * quantile) - 0.002**2) * loss
        known = {"loss_se": se, "loss_se_dof": noise_dof, "weights": weights}
        assert ("lack-of-fit" in fit("log_linear", {"x": SIZES}, loss, **known).flags) is lacks
    assert "lack-of-fit" not in fit("log_linear", {"x": SIZES}, loss).flags


@pytest.mark.parametrize("law", ["power", "power_floor"])
@pytest.mark.parametrize("factor", [1e-12, 1e24])
def test_units_of_size_and_loss_do_not_matter(law, factor):
    x = 16 * 2.0 ** np.arange(10)
    rng = np.random.default_rng(4)
    loss = (1.5 + 2 * (x / 16) ** -0.4) * np.exp(0.003 * rng.normal(size=10))
    plain, scaled = fit(law, {"x": x}, loss), fit(law, {"x": factor * x}, 1e9 * loss)
    mean, se = predict_log(plain, relative_sizes(plain, {"x": 4 * x[-1]}))
    other, other_se = predict_log(scaled, relative_sizes(scaled, {"x": 4 * factor * x[-1]}))
    assert other - np.log(1e9) == pytest.approx(mean, abs=1e-5)
    assert scaled.chi2 == pytest.approx(plain.chi2, rel=1e-7)
    if law.startswith("power"):
        assert other_se == pytest.approx(se, rel=1e-2)


@pytest.mark.parametrize("seed", range(3))
def test_fit_is_that_of_a_general_optimiser(seed):
    loss = noisy_losses(seed)
    found = fit("power_floor", {"x": SIZES}, loss)
    z = np.array(SIZES) / found.reference[0]

    def curve(z, floor, b, c):
        return floor + b * z**-c

    values, covariance = optimize.curve_fit(curve, z, loss, found.values, sigma=loss, ftol=1e-14)
    assert found.values == pytest.approx(values, rel=1e-4)
    # derivatives at the curve instead of at the losses: 1 % noise, squared by the inverse
    assert np.array(found.covariance) == pytest.approx(covariance, rel=0.1)
    starts = [(1.0, 1.0, c) for c in (0.1, 0.5, 1.0)]
    best = min(
        2 * optimize.least_squares(lambda p: curve(z, *p) / loss - 1, s, bounds=(0, 9)).cost
        for s in starts
    )
    assert found.chi2 == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("fix", [{"E": 1.5}, {"c": 0.4}, {"E": 1.5, "c": 0.4}])
def test_pinned_parameters_stay_and_cost_no_degree_of_freedom(fix):
    loss = noisy_losses(0)
    free = fit("power_floor", {"x": SIZES}, loss)
    pinned = fit("power_floor", {"x": SIZES}, loss, fix=fix)
    assert pinned.fixed == fix
    assert pinned.dof == free.dof + len(fix)
    assert pinned.chi2 > free.chi2
    for i, name in enumerate(pinned.names):
        if name in fix:
            assert pinned.values[i] == fix[name]
            assert not np.any(np.array(pinned.covariance)[:, i])
        else:
            assert 0 < pinned.covariance[i][i] < free.covariance[i][i]
    if len(fix) == 2:  # only b is left, which is linear
        column = (np.array(SIZES) / free.reference[0]) ** -0.4 / loss
        theirs = OLS(1 - 1.5 / loss, column).fit()
        assert pinned.values[1] == pytest.approx(theirs.params[0])
        assert pinned.chi2 == pytest.approx(theirs.ssr)


def test_tied_size_columns_need_a_pin():
    n = np.array(SIZES) * 1e6
    sizes = {"params": n, "tokens": 20 * n}
    loss = 1.7 + 0.5 * (n / n[0]) ** -0.34 + 0.6 * (n / n[0]) ** -0.8
    with pytest.raises(DataError, match=r"fix=\{\"c1\": 0.34\}"):
        fit("power_floor", sizes, loss, fix={"E": 1.7})
    found = fit("power_floor", sizes, loss, fix={"E": 1.7, "c1": 0.34})
    assert "columns-collinear" in found.flags
    assert found.parameters["c2"] == pytest.approx(0.8, rel=1e-4)
    assert found.fitted_range == ((16e6, 512e6), (320e6, 10240e6))


def test_a_point_given_twice_with_half_the_weight_counts_once():
    loss = noisy_losses(0)
    se = 0.01 * loss
    once = fit("power_floor", {"x": SIZES}, loss, loss_se=se)
    twice = fit(
        "power_floor",
        {"x": [*SIZES, SIZES[2]]},
        [*loss, loss[2]],
        loss_se=[*se, se[2]],
        weights=[1, 1, 0.5, 1, 1, 1, 0.5],
    )
    z, other = (relative_sizes(f, {"x": 3000.0}) for f in (once, twice))
    assert predict_log(twice, other)[0] == pytest.approx(predict_log(once, z)[0], abs=1e-9)
    assert twice.chi2 == pytest.approx(once.chi2, rel=1e-9)


def test_noise_of_no_known_size_has_no_use_for_the_scale_of_weights():
    one, other = (
        fit("power_floor", {"x": SIZES}, noisy_losses(0), weights=scale * np.arange(1.0, 7.0))
        for scale in (1.0, 1e3)
    )
    assert (other.chi2, other.scatter) == pytest.approx((one.chi2, one.scatter))


HEALTH_X = 16 * 2.0 ** np.arange(8)
CURVE = 1.5 + 2 * (HEALTH_X / 16) ** -0.4


def flags(loss, law="power_floor", x=HEALTH_X, **options):
    return set(fit(law, {"x": x}, loss, **options).flags)


def test_lack_of_fit_is_the_chi_square_test_or_the_f_test():
    assert lack_of_fit_p(20.0, 5, None) == pytest.approx(stats.chi2.sf(20, 5))
    assert lack_of_fit_p(20.0, 5, 3) == pytest.approx(stats.f.sf(4, 5, 3))


def test_two_solutions_that_part_beyond_the_data_are_told():
    """Losses that waver about a line: a break before or after the middle fits equally well."""
    loss = np.exp(-0.1 * np.log(HEALTH_X) + 0.02 * np.array([1, -1, 1, -1, 1, -1, 1, -1]))
    with broken_power_known() as law:
        assert "starts-disagree" in flags(loss, law)
    assert "starts-disagree" not in flags(loss, "power")


def test_a_break_in_a_constant_is_ill_conditioned():
    with broken_power_known() as law:
        assert "ill-conditioned" in flags(np.full(8, 2.0), law)


@pytest.mark.parametrize("law", [key for key, law in LOSS_LAWS.items() if 1 in law.n_columns])
@pytest.mark.parametrize("robust", [None, 1e-3])
def test_identical_losses_give_a_result_with_finite_numbers(law, robust):
    found = fit(law, {"x": HEALTH_X}, np.full(8, 2.0), robust=robust)
    assert np.isfinite(found.values).all()
    assert np.isfinite(found.covariance).all()
    if law in ("power_floor", "log_linear"):
        assert "size-without-effect" in found.flags


NOISY = CURVE * np.exp(0.005 * np.random.default_rng(0).normal(size=8))
SHALLOW = 1.5 + 0.05 * (HEALTH_X / 16) ** -0.4
SHALLOW = SHALLOW * np.exp(0.01 * np.random.default_rng(2).normal(size=8))
BROKEN = np.where(HEALTH_X > 200, 0.9, 1.0) * CURVE


@pytest.mark.parametrize(
    ("loss", "options", "flag", "is_there"),
    [
        (HEALTH_X**0.2, {"law": "power"}, "bound-hit", True),
        (HEALTH_X**0.2, {}, "size-without-effect", True),
        (np.exp(-0.02 * np.log(HEALTH_X) ** 2), {}, "floor-at-zero", True),
        (SHALLOW, {}, "exponent-weakly-identified", True),
        (SHALLOW, {"fix": {"c": 0.4}}, "exponent-weakly-identified", False),
        (CURVE[:4], {}, "too-few-sizes", True),
        (CURVE[:5], {}, "too-few-sizes", False),
        (CURVE[:4], {"fix": {"E": 1.5}}, "too-few-sizes", False),
        (BROKEN, {"loss_se": 0.003 * BROKEN, "loss_se_dof": 16}, "lack-of-fit", True),
        (BROKEN, {}, "lack-of-fit", False),  # nothing to hold the residuals against
        (5 - 0.3 * np.log(HEALTH_X), {"law": "log_linear"}, "loss-turns-negative", True),
    ],
)
def test_what_is_wrong_with_a_fit_is_a_flag(loss, options, flag, is_there):
    assert (flag in flags(loss, x=HEALTH_X[: len(loss)], **options)) is is_there
    assert flags(NOISY) == flags(NOISY, loss_se=0.005 * NOISY, loss_se_dof=16) == set()


GRID = np.array([[n, d] for n in (1.0, 2.0, 4.0) for d in (1.0, 3.0)])


@pytest.mark.parametrize("unit", [1e-12, 1e24])
def test_sizes_of_one_grid_pass_in_any_unit(unit):
    check_identifiable(GRID * unit, ["params", "tokens"])
    assert not check_identifiable(GRID * unit, ["n", "d"], exponents=["c1", "c2"], fixed={"c1"})
