import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extrap.fitting.curve_laws import family_at
from extrap.fitting.ladder_prior import LadderPrior
from extrap.fitting.loss_model import STATED_DOF, fit_loss_model
from extrap.fitting.seed_noise import Noise

X = 2.0 ** np.arange(9)
UNKNOWN = Noise(own_sd=None, own_dof=0, source="none")


def model(loss, *, se=None, **options):
    known = {} if se is None else {"loss_se_dof": 2 * len(loss)}
    errors = None if se is None else se * loss
    return fit_loss_model({"x": X[: len(loss)]}, loss, loss_se=errors, **known, **options)


def floor_law(noise, seed=0):
    return (1.5 + X**-0.4) * np.exp(noise * np.random.default_rng(seed).normal(size=len(X)))


def bent(noise):
    """A power that breaks in the middle of the sweep."""
    rng = np.random.default_rng(1)
    return 3 * X**-0.05 * (1 + (X / X[4]) ** 8) ** -0.04 * np.exp(noise * rng.normal(size=len(X)))


def width(found, x, band, noise=UNKNOWN):
    lower, upper = found.predict({"x": x}, noise=noise, band=band).interval(0.9, new_run=True)
    assert lower is not None
    assert upper is not None
    return math.log(upper / lower)


def test_averaged_laws_forecast_where_noise_is_known_or_sizes_are_few():
    found = model(floor_law(0.002), se=0.002)
    assert found.local is None
    assert found.local_weight == 0
    assert model(floor_law(0.002)[:7]).posterior is not None
    at = found.predict({"x": 2048.0}, noise=UNKNOWN, band="default")
    (mean, last), (spread, _) = found.posterior.predict_log(np.array([2048.0, X[-1]]))
    assert at.log_loss == pytest.approx(mean)
    assert at.curve[0] == (pytest.approx(spread), found.posterior.dof)
    assert at.curve[-1][0] == pytest.approx((found.discrepancy * (mean - last)) ** 2)


@pytest.mark.parametrize("far", [0.5, 1.0, 3.0])
def test_over_two_columns_the_discrepancy_grows_with_the_distance(far):
    """.05 of the change where it is as far beyond the sweep as that is long."""
    n, d = (a.ravel() for a in np.meshgrid(1e7 * 4.0 ** np.arange(4), 1e9 * 4.0 ** np.arange(4)))
    loss = 1.7 + 0.7 * (n / 1e8) ** -0.34 + 0.6 * (d / 1e10) ** -0.28
    found = fit_loss_model({"params": n, "tokens": d}, loss, loss_se=None)
    length = 64.0**far  # the sweep goes from its smallest to 64 times that in both
    ahead = {"params": n.max() * length, "tokens": d.max() * length}
    plain, wider = (
        found.predict(ahead, noise=UNKNOWN, band=band) for band in ("family", "default")
    )
    last = found.predict({"params": n.max(), "tokens": d.max()}, noise=UNKNOWN, band="family")
    more = (0.05 * far * (plain.log_loss - last.log_loss)) ** 2
    assert sum(v for v, _ in wider.curve) - sum(v for v, _ in plain.curve) == pytest.approx(more)


def test_family_band_is_never_wider():
    for x in (300.0, 2048.0, 1e5):
        for found in (model(floor_law(0.01), se=0.01), model(floor_law(0.01)), model(bent(0.01))):
            assert width(found, x, "family") <= width(found, x, "default")


def test_local_law_takes_over_where_no_law_fits():
    found = model(bent(0.001))
    assert found.local_weight > 0.9
    truth = math.log(3 * 1024**-0.05 * (1 + (1024 / X[4]) ** 8) ** -0.04)
    of_laws = float(family_at(found.family, np.array([[1024.0]])).mean[0])
    for each in (found, model(bent(0.001), se=0.001)):
        at = each.predict({"x": 1024.0}, noise=UNKNOWN, band="default")
        assert abs(at.log_loss - truth) < 0.3 * abs(of_laws - truth)


def test_a_break_in_the_sweep_is_a_lack_of_fit_and_two_powers_are_not():
    assert not model(bent(0.001), se=0.001).fits
    two = 1 + X**-0.8 + 0.5 * X**-0.2
    assert model(two * np.exp(0.003 * np.random.default_rng(2).normal(size=9)), se=0.003).fits


def test_laws_that_forecast_have_weights_that_sum_to_one():
    """Averaged laws are one, at the largest size as high as they forecast; a local law is one."""
    averaged = model(floor_law(0.002), se=0.002)
    ((law, weight),) = averaged.laws
    at = averaged.predict({"x": X[-1]}, noise=UNKNOWN, band="default").log_loss
    assert (weight, law.n_points, law.fitted_range) == (1.0, 9, ((1.0, X[-1]),))
    assert law.parameters["E"] + law.parameters["b"] == pytest.approx(math.exp(at), rel=1e-3)
    assert law.parameters["E"] == pytest.approx(1.5, abs=3 * math.sqrt(law.covariance[0][0]))
    found = replace(model(floor_law(0.002)), local_weight=0.25)
    *family, (local, share) = found.laws
    assert (share, local.law) == (0.25, "power_floor")
    assert sum(weight for _, weight in family) == pytest.approx(0.75)


@pytest.mark.parametrize(("n", "flags"), [(3, 2), (4, 1), (5, 0)])
def test_few_sizes_are_named(n, flags):
    ((law, _),) = model(floor_law(0.002)[:n], se=0.002).laws
    names = ("too-few-sizes", "too-few-sizes-for-a-floor")
    assert [name for name in names if name in law.flags] == list(names[:flags])


def test_losses_that_do_not_fall_show_no_effect_of_size():
    flat = 2 * np.exp(0.002 * np.arange(6))
    ((law, _),) = model(flat, se=0.01).laws
    assert "size-without-effect" in law.flags


def test_among_the_fitted_sizes_the_local_law_speaks_of_the_largest_only():
    found = replace(model(floor_law(0.002)), local_weight=0.5)
    for x, share in ((X[-1], 0.5), (X[-2], 0.25), (X[0], 0.5 / X[-1]), (2 * X[-1], 0.5)):
        at = found.predict({"x": float(x)}, noise=UNKNOWN, band="default").log_loss
        of_laws = float(family_at(found.family, np.array([[x]])).mean[0])
        near = found.local.predict_log(np.array([x]))[0][0]
        assert at == pytest.approx(of_laws + share * (near - of_laws), abs=1e-12)


@pytest.mark.parametrize(("share", "discrepancy"), [(0.0, 0.0), (0.2, 0.0), (0.2, 0.5)])
def test_variance_of_the_forecast_has_the_parts_of_a_mixture(share, discrepancy):
    """Laws and local law: their own variances, that between them or a share of the change.

    The local law's own is known as from its points over its share: a small share lends no doubt.
    """
    found = replace(model(floor_law(0.02)), local_weight=share, discrepancy=discrepancy)
    noise = Noise(own_sd=0.03, own_dof=8, shared_sd=0.04, shared_dof=3, n_seeds=4)
    x, last = np.array([[2048.0]]), np.array([[X[-1]]])
    centres = []
    for z in (last, x):
        laws = family_at(found.family, z)
        mean, within, apart = (float(a[0]) for a in (laws.mean, laws.within, laws.between))
        near, spread = (float(part[0]) for part in found.local.predict_log(z[:, 0]))
        centres.append(share * near + (1 - share) * mean)
    apart = (1 - share) * apart + share * (1 - share) * (near - mean) ** 2
    more = max((discrepancy * (centres[1] - centres[0])) ** 2 - apart, 0.0)
    dof = min(fit.scale_dof for fit, _ in found.family)
    scatter = max(fit.scatter for fit, _ in found.family) ** 2
    curve, run = [((1 - share) * within, dof)], [((1 - share) * scatter, dof)]
    if share:
        known = max(found.local.dof, 2.0) / share  # its prior counts as points do
        curve.append((share * spread, known))
        run.append((share * found.local.scatter**2, known))
    curve.append((apart, math.inf))
    at = found.predict({"x": 2048.0}, noise=UNKNOWN, band="default")
    assert at.log_loss == pytest.approx(centres[1], abs=1e-12)
    assert at.curve == tuple(map(pytest.approx, [*curve, (more, STATED_DOF)]))
    assert at.run == tuple(map(pytest.approx, run))
    known = found.predict({"x": 2048.0}, noise=noise, band="default")
    assert known.curve == tuple(map(pytest.approx, [*at.curve, (0.04**2 / 4, 3)]))
    assert known.run == tuple(map(pytest.approx, [(0.03**2, 8), (0.04**2, 3)]))
    wild = replace(found, local_weight=1.0).predict({"x": 2048.0}, noise=noise, band="default")
    scatter_of_local = found.local.scatter**2
    assert wild.run[0][0] == pytest.approx(max(0.03**2, scatter_of_local))
    family = found.predict({"x": 2048.0}, noise=UNKNOWN, band="family")
    assert family.curve == tuple(map(pytest.approx, curve))
    assert family.run == at.run


@pytest.mark.parametrize(
    ("seeds", "shift", "own", "shared", "law"),
    [
        (("a",), 0.01, 1.0, 0.0, 0.0),
        (("a", "b"), 0.0, 1 / 2, 0.0, 0.0),
        (("new",), 0.0, 1.0, 1.0, 1.0),
        (("new", "other"), 0.0, 1 / 2, 1 / 2, 1.0),
        (("new", "new"), 0.0, 1 / 2, 1.0, 1.0),
        (("a", "new"), 0.005, 1 / 2, 1 / 4, 1 / 4),
    ],
)
def test_runs_that_reuse_a_seed_of_the_sweep_share_its_effect(seeds, shift, own, shared, law):
    """Var(Σ b_i / n − b̄) of the seeds' effects b with variance .04², b̄ their mean in the sweep."""
    effects = {"a": 0.01, "b": -0.01}
    noise = Noise(
        own_sd=0.03,
        own_dof=9,
        shared_sd=0.04,
        shared_dof=9,
        n_seeds=2,
        seed_effects=effects,
    )
    found = model(floor_law(0.02))
    plain = found.predict({"x": 2048.0}, noise=noise, band="family")
    mean = found.predict({"x": 2048.0}, noise=noise, band="family", seeds=seeds)
    assert mean.log_loss == pytest.approx(plain.log_loss + shift)
    assert mean.run == (pytest.approx((own * 0.03**2, 9)), pytest.approx((shared * 0.04**2, 9)))
    assert mean.curve[-1] == pytest.approx((law * 0.04**2 / 2, 9))
    if seeds == ("new",):
        assert mean == plain


def test_pinned_parameter_leaves_the_local_law_out():
    found = model(floor_law(0.002), fix={"E": 1.5})
    assert found.local is None
    assert [fit.parameters["E"] for fit, _ in found.laws] == [1.5]
    assert width(found, 4096.0, "family") < width(model(floor_law(0.002)), 4096.0, "family")


@settings(max_examples=5)
@given(size=st.floats(1e-12, 1e24), loss=st.floats(1e-9, 1e9))
def test_units_do_not_matter(size, loss):
    plain = fit_loss_model({"x": X}, floor_law(0.003), loss_se=None)
    scaled = fit_loss_model({"x": size * X}, loss * floor_law(0.003), loss_se=None)
    here = plain.predict({"x": 2048.0}, noise=UNKNOWN, band="default")
    there = scaled.predict({"x": size * 2048.0}, noise=UNKNOWN, band="default")
    assert there.log_loss - math.log(loss) == pytest.approx(here.log_loss, abs=1e-4)
    assert there.log_sd == pytest.approx(here.log_sd, rel=1e-2)


def test_a_prior_bounds_the_doubt_beyond_the_sizes_and_moves_no_centre():
    """The variance gained is that of the laws, or the share of the change where that is less."""
    prior = LadderPrior(share=0.09, dof=3.0, noise=1.0, sources=7)
    loss = floor_law(0.004)
    plain, bounded = model(loss, se=0.004), model(loss, se=0.004, prior=prior)
    inside, far = ({"x": float(x)} for x in (X[-1], 32 * X[-1]))
    for size in (inside, far):
        both = [each.predict(size, noise=UNKNOWN, band="default") for each in (plain, bounded)]
        assert both[0].log_loss == both[1].log_loss
    start, beyond = (
        plain.posterior.predict_log(np.array([size["x"]]))[1][0] for size in (inside, far)
    )
    found = bounded.predict(far, noise=UNKNOWN, band="default")
    fall = bounded.predict(inside, noise=UNKNOWN, band="default").log_loss - found.log_loss
    assert (0.09 * fall) ** 2 < 0.7 * (beyond - start)
    expected = [(start, plain.posterior.dof), ((0.09 * fall) ** 2, 3.0)]
    assert np.array(found.curve) == pytest.approx(np.array(expected))
    wide = LadderPrior(share=9.0, dof=3.0, noise=1.0, sources=7)
    unbounded = model(loss, se=0.004, prior=wide).predict(far, noise=UNKNOWN, band="default")
    assert sum(variance for variance, _ in unbounded.curve) == pytest.approx(beyond)
    assert {dof for _, dof in unbounded.curve} == {plain.posterior.dof}
    assert width(bounded, X[-1], "default") < 1.05 * width(plain, X[-1], "default")
    assert width(bounded, 32 * X[-1], "family") == width(bounded, 32 * X[-1], "default")


def test_with_a_prior_laws_are_averaged_however_many_sizes_there_are():
    prior = LadderPrior(share=0.09, dof=3.0, noise=1.0, sources=7)
    found = model(floor_law(0.004), prior=prior)
    assert model(floor_law(0.004)).posterior is None
    assert (found.family, found.local) == ((), None)
    assert found.posterior is not None
