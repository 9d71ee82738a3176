import numpy as np
import pytest

from extrap.errors import FitError
from extrap.fitting import bootstrap as module
from extrap.fitting.bootstrap import bootstrap, replicate_problem
from extrap.fitting.loss_law import fit, predict_log

X = 16 * 2.0 ** np.arange(10)
SE = 0.01


def noisy(seed=0, x=X):
    noise = SE * np.random.default_rng(seed).normal(size=len(x))
    return (1.5 + 2 * (x / 16) ** -0.4) * np.exp(noise)


def fitted(loss, **options):
    return fit("power_floor", {"x": X}, loss, **options)


@pytest.mark.parametrize("kind", ["parametric", "residual"])
def test_spread_of_replicates_is_the_standard_error(kind):
    loss, few = noisy(), {"x": X[:5]}
    found = fit("power", few, loss[:5])
    replicates = bootstrap(found, few, loss[:5], kind=kind, n_replicates=2000, seed=0)
    assert replicates.n_failed == 0
    spread = replicates.values.std(axis=0)
    assert spread == pytest.approx(np.sqrt(np.diag(found.covariance)), rel=0.1)


def draws(kind, loss, found, **options):
    """Deviations from the curve and weights of 4,000 replicates of the data."""
    made = replicate_problem(
        found, {"x": X}, loss, kind=kind, n_replicates=4000, seed=0, **options
    )
    curve = predict_log(found, X[:, None] / found.reference)[0]
    return np.log(made.y) - curve, made.weight


def test_parametric_replicates_have_the_noise_of_the_residuals():
    """4,000 draws: a standard deviation is known to 1.1 %, a mean to 1.6 % of it."""
    loss = noisy()
    found = fitted(loss)
    off, _ = draws("parametric", loss, found)
    sd = np.sqrt(found.chi2 / 7)
    assert off.std(axis=0) == pytest.approx(np.full(10, sd), rel=0.045)
    assert off.mean(axis=0) == pytest.approx(np.zeros(10), abs=0.065 * sd)


def test_residual_replicates_draw_the_residuals_scaled_for_the_parameters():
    """Ten residuals about three parameters: √(10 / 7) wider, centred; a sign for each group."""
    loss = noisy()
    found = fitted(loss)
    residual = np.log(loss) - predict_log(found, X[:, None] / found.reference)[0]
    scaled = residual * np.sqrt(10 / 7)
    off, _ = draws("residual", loss, found)
    values, counts = np.unique(off.round(12), return_counts=True)
    assert values == pytest.approx(np.sort(scaled - scaled.mean()), abs=1e-11)
    assert counts / off.size == pytest.approx(np.full(10, 0.1), abs=0.006)
    off, _ = draws("residual", loss, found, groups=np.repeat(["a", "b"], 5))
    signs = off / scaled
    assert np.abs(signs) == pytest.approx(np.ones(off.shape))
    assert np.ptp(signs[:, :5], axis=1) == pytest.approx(np.zeros(4000), abs=1e-6)
    assert signs.mean(axis=0) == pytest.approx(np.zeros(10), abs=0.07)
    assert np.mean(signs[:, 0] * signs[:, 9]) == pytest.approx(0, abs=0.07)


def test_pairs_are_drawn_with_repetition_and_groups_together():
    """Counts of 10 points are binomial with variance .9; groups count as one."""
    loss = noisy()
    off, weight = draws("pairs", loss, fitted(loss))
    assert off == pytest.approx(np.tile(off[0], (4000, 1)))
    assert weight.sum(axis=1) == pytest.approx(np.full(4000, 10.0))
    assert weight.mean(axis=0) == pytest.approx(np.ones(10), abs=0.065)
    assert weight.var(axis=0) == pytest.approx(np.full(10, 0.9), rel=0.12)
    groups = [0, 1, 2, 3, 4, 5, 6, 7, 8, 8]
    _, weight = draws("pairs", loss, fitted(loss), groups=groups)
    assert (weight[:, 8] == weight[:, 9]).all()
    assert weight[:, :9].sum(axis=1) == pytest.approx(np.full(4000, 9.0))


def test_replicates_do_not_stick_where_the_fit_started(monkeypatch):
    loss = noisy()
    found = fitted(loss, robust=1e-3)
    options = {"kind": "parametric", "n_replicates": 100, "seed": 0}
    few = bootstrap(found, {"x": X}, loss, **options)
    monkeypatch.setattr(module, "N_SCREENED", 4)
    more = bootstrap(found, {"x": X}, loss, **options)
    moved = np.abs(few.values - found.values).min(axis=0)
    assert (moved > 0).all()
    assert few.values[:, 2].std() > 0.01
    curve = 1e-3
    assert np.mean(np.abs(few.values[:, 2] - more.values[:, 2]) < curve) > 0.95


def test_pins_hold_in_every_replicate():
    loss = noisy()
    found = fitted(loss, fix={"E": 1.5})
    values = bootstrap(found, {"x": X}, loss, kind="pairs", n_replicates=50, seed=0).values
    assert (values[:, 0] == 1.5).all()


def test_replicates_that_are_no_design_are_counted_and_left_out():
    x = X[:8]
    found = fit("power_floor", {"x": x}, noisy(0, x))
    options = {"kind": "pairs", "n_replicates": 4000, "seed": 0}
    replicates = bootstrap(found, {"x": x}, noisy(0, x), **options)
    weight = replicate_problem(found, {"x": x}, noisy(0, x), **options).weight
    too_few = int(((weight > 0).sum(axis=1) < 4).sum())
    assert too_few > 0
    assert replicates.n_failed >= too_few
    assert len(replicates.values) == 4000 - replicates.n_failed


def test_many_failures_are_an_error(monkeypatch):
    monkeypatch.setattr(module, "_is_design", lambda problem, fitted: np.arange(100) < 70)
    with pytest.raises(FitError, match="30 of 100"):
        bootstrap(fitted(noisy()), {"x": X}, noisy(), kind="residual", n_replicates=100, seed=0)
