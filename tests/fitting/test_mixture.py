from __future__ import annotations

import numpy as np
import pytest

from extrap.errors import DataError
from extrap.fitting import fit_surviving_laws
from extrap.fitting.mixture import count_sizes, mix, none_fits

X = 2.0 ** np.arange(4, 14)


def weights_of(loss: np.ndarray, **options: object) -> dict[str, float]:
    laws = fit_surviving_laws({"x": X[: len(loss)]}, loss, **{"loss_se": None, **options})  # type: ignore[arg-type]
    return {fit.law: weight for fit, weight in laws}


def joint_sweep(k: float, noise: float = 0.003) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Loss over five model sizes and five amounts of data, terms added with the power k."""
    n, d = (
        a.ravel() for a in np.meshgrid(10.0 ** np.linspace(7, 9, 5), 10.0 ** np.linspace(9, 11, 5))
    )
    rng = np.random.default_rng(3)
    loss = 1.5 + ((n / 1e8) ** -0.6 + (d / 1e10) ** -0.6) ** k
    return {"params": n, "tokens": d}, loss * np.exp(noise * rng.normal(size=len(n)))


def test_clear_floor_rejects_the_laws_without_one() -> None:
    noise = np.exp(0.001 * np.random.default_rng(0).normal(size=len(X)))
    weights = weights_of((1.5 + 2 * (X / 16) ** -0.5) * noise)
    assert weights == {"power": 0.0, "log_linear": 0.0, "power_floor": 1.0}


def test_laws_that_the_noise_cannot_tell_apart_share_the_weight() -> None:
    noise = np.exp(0.02 * np.random.default_rng(1).normal(size=len(X)))
    weights = weights_of(3 * (X / 16) ** -0.04 * noise)
    assert weights == pytest.approx(dict.fromkeys(("power", "log_linear", "power_floor"), 1 / 3))


def test_known_noise_keeps_a_law_that_small_residuals_alone_would_reject() -> None:
    loss = (1.5 + 2 * (X / 16) ** -0.5) * np.exp(1e-5 * np.random.default_rng(0).normal(size=10))
    assert weights_of(loss)["power"] == 0.0
    assert weights_of(loss, loss_se=0.5 * loss, loss_se_dof=30)["power"] == pytest.approx(1 / 3)


def test_law_that_lacks_fit_is_dropped_where_another_fits() -> None:
    """With few sizes an F-test against the best law cannot reject what the seeds can."""
    x = X[:4]
    loss = (1.5 + 2 * (x / 16) ** -0.5) * np.exp(0.003 * np.random.default_rng(3).normal(size=4))
    known = {"loss_se": 0.0015 * loss, "loss_se_dof": 10}
    laws = fit_surviving_laws({"x": x}, loss, **known)  # type: ignore[arg-type]
    lacking = {fit.law for fit, _ in laws if "lack-of-fit" in fit.flags}
    assert "power" in lacking
    assert {fit.law for fit, weight in laws if weight > 0} == {"power_floor"}


def test_three_sizes_carry_the_laws_of_two_parameters() -> None:
    assert weights_of(np.array([3.0, 2.9, 2.81])) == {"power": 0.5, "log_linear": 0.5}


def test_two_sizes_carry_no_law() -> None:
    with pytest.raises(DataError, match=r"needs at least . distinct sizes, got 2"):
        weights_of(np.array([3.0, 2.5]))


def test_joint_laws_are_weighed_by_how_well_they_fit() -> None:
    for true_k, better, worse in ((0.35, 0, 3), (1.0, 3, 0)):
        sizes, loss = joint_sweep(true_k, noise=0.0005)
        laws = fit_surviving_laws(sizes, loss, loss_se=None)
        weights = [weight for _, weight in laws]
        assert [fit.fixed["k"] for fit, _ in laws] == [0.35, 0.5, 0.7, 1.0]
        assert sum(weights) == pytest.approx(1)
        assert weights[better] > 2 * weights[worse] > 0


def test_joint_laws_shrug_off_a_run_that_went_wrong() -> None:
    sizes, loss = joint_sweep(0.5)
    target = np.array([[4e9, 4e11]])
    clean = mix(fit_surviving_laws(sizes, loss, loss_se=None), target).mean[0]
    loss[0] *= 1.3
    spoilt = mix(fit_surviving_laws(sizes, loss, loss_se=None), target).mean[0]
    assert abs(spoilt - clean) < 0.01


def test_pinned_parameter_is_kept_and_chooses_the_laws_that_have_it() -> None:
    loss = 1.5 + 2 * (X / 16) ** -0.5
    laws = fit_surviving_laws({"x": X}, loss, loss_se=None, fix={"E": 1.4})
    assert [(fit.law, fit.parameters["E"]) for fit, _ in laws] == [("power_floor", 1.4)]
    with pytest.raises(ValueError, match="pin one of E, b, c"):
        fit_surviving_laws({"x": X}, loss, loss_se=None, fix={"alpha": 0.3})


def test_pinned_exponents_let_sizes_move_together() -> None:
    n = 2.0 ** np.arange(6) * 1e8
    loss = 1.7 + (n / 1e8) ** -0.34 + 0.8 * (n / 1e8) ** -0.28
    sizes = {"params": n, "tokens": 20 * n}
    with pytest.raises(DataError, match="fix="):
        fit_surviving_laws(sizes, loss, loss_se=None)
    ((fitted, weight),) = fit_surviving_laws(
        sizes, loss, loss_se=None, fix={"c1": 0.34, "c2": 0.28}
    )
    assert (fitted.law, weight) == ("power_floor", 1.0)
    assert fitted.parameters["E"] == pytest.approx(1.7, abs=0.01)
    assert "columns-collinear" in fitted.flags


def test_law_that_would_soon_turn_negative_is_dropped() -> None:
    noise = np.exp(0.05 * np.random.default_rng(5).normal(size=4))
    for slope, kept in ((0.2, True), (0.5, False)):
        laws = fit_surviving_laws(
            {"x": X[:4]}, (3 - slope * np.log(X[:4] / 16)) * noise, loss_se=None
        )
        assert (dict((f.law, w) for f, w in laws)["log_linear"] > 0) is kept


def test_log_linear_law_is_held_before_it_turns_negative() -> None:
    noise = np.exp(0.002 * np.random.default_rng(5).normal(size=len(X)))
    laws = fit_surviving_laws({"x": X}, (3 - 0.2 * np.log(X / 16)) * noise, loss_se=None)
    only = [(fit, float(fit.law == "log_linear")) for fit, _ in laws]
    log_loss = mix(only, np.array([[1e5], [1e9], [1e12]])).mean
    assert np.exp(log_loss[0]) == pytest.approx(3 - 0.2 * np.log(1e5 / 16), rel=0.1)
    last = 3 - 0.2 * np.log(X[-1] / 16)
    assert np.exp(log_loss[1:]) == pytest.approx(0.3 * last, rel=0.05)


def test_no_law_fits_a_curve_that_breaks_and_some_law_fits_one_that_does_not() -> None:
    x = 2.0 ** np.arange(30) ** 0.8
    noise = np.exp(0.002 * np.random.default_rng(0).normal(size=30))
    bent = 3 * x**-0.05 * (1 + (x / x[15]) ** 5) ** -0.05
    for loss, broken in ((bent, True), (3 * x**-0.05, False), (1 + 2 * x**-0.3, False)):
        laws = fit_surviving_laws({"x": x}, loss * noise, loss_se=None)
        assert none_fits(laws, {"x": x}, loss * noise) is broken


def test_sizes_close_together_are_one_size() -> None:
    assert count_sizes(np.array([[100.0, 1], [103, 2], [104.9, 4], [106, 8], [200, 16]])) == 3
