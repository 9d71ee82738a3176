from __future__ import annotations

import numpy as np
import pytest

from extrap.errors import DataError, FitError
from extrap.fitting import bootstrap as module
from extrap.fitting import fit
from extrap.fitting.bootstrap import bootstrap, replicate_problem
from extrap.records import Fit

X = 16 * 2.0 ** np.arange(10)
SE = 0.01


def noisy(seed: int = 0, x: np.ndarray = X) -> np.ndarray:
    noise = SE * np.random.default_rng(seed).normal(size=len(x))
    return (1.5 + 2 * (x / 16) ** -0.4) * np.exp(noise)


def fitted(loss: np.ndarray, **options) -> Fit:
    return fit("power_floor", {"x": X}, loss, **options)


@pytest.mark.parametrize("kind", ["parametric", "residual"])
def test_spread_of_replicates_is_the_standard_error(kind: str) -> None:
    loss, few = noisy(), {"x": X[:5]}
    found = fit("power", few, loss[:5])
    replicates = bootstrap(found, few, loss[:5], kind=kind, n_replicates=2000, seed=0)
    assert replicates.n_failed == 0
    spread = replicates.values.std(axis=0)
    assert spread == pytest.approx(np.sqrt(np.diag(found.covariance)), rel=0.1)


def test_known_noise_sets_the_spread_of_a_parametric_bootstrap() -> None:
    loss = noisy()
    found = fitted(loss, loss_se=3 * SE * loss, loss_se_dof=50)
    wide = bootstrap(
        found, {"x": X}, loss, kind="parametric", n_replicates=400, seed=0, loss_se=3 * SE * loss
    )
    narrow = bootstrap(fitted(loss), {"x": X}, loss, kind="parametric", n_replicates=400, seed=0)
    ratio = wide.values[:, 1].std() / narrow.values[:, 1].std()
    assert ratio == pytest.approx(3 * SE / fitted(loss).scatter, rel=0.4)


def test_pairs_bootstrap_of_many_sizes_agrees_with_the_standard_error() -> None:
    x = 16 * 2.0 ** np.linspace(0, 9, 60)
    loss = noisy(1, x)
    found = fit("power_floor", {"x": x}, loss)
    replicates = bootstrap(found, {"x": x}, loss, kind="pairs", n_replicates=600, seed=0)
    assert replicates.values[:, 2].std() == pytest.approx(np.sqrt(found.covariance[2][2]), rel=0.3)


def test_common_noise_of_a_group_is_seen_only_when_groups_are_drawn_together() -> None:
    """Five runs a size that share their deviation: they say no more than one."""
    rng = np.random.default_rng(0)
    x = np.repeat(16 * 2.0 ** np.linspace(0, 9, 20), 5)
    label = np.repeat(np.arange(20), 5)
    loss = (1.5 + 2 * (x / 16) ** -0.4) * np.exp(SE * rng.normal(size=20))[label]
    found = fit("power_floor", {"x": x}, loss)
    for kind in ("pairs", "residual"):
        options = {"kind": kind, "n_replicates": 400, "seed": 0}
        alone = bootstrap(found, {"x": x}, loss, **options).values[:, 2].std()
        together = bootstrap(found, {"x": x}, loss, **options, groups=label).values[:, 2].std()
        assert together > 1.6 * alone


def test_replicates_do_not_stick_where_the_fit_started(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_same_seed_gives_the_same_replicates() -> None:
    loss = noisy()
    options = {"kind": "residual", "n_replicates": 50}
    one = bootstrap(fitted(loss), {"x": X}, loss, **options, seed=3).values
    two = bootstrap(fitted(loss), {"x": X}, loss, **options, seed=3).values
    other = bootstrap(fitted(loss), {"x": X}, loss, **options, seed=4).values
    assert (one == two).all()
    assert not np.allclose(one, other)


def test_pins_hold_in_every_replicate() -> None:
    loss = noisy()
    found = fitted(loss, fix={"E": 1.5})
    values = bootstrap(found, {"x": X}, loss, kind="pairs", n_replicates=50, seed=0).values
    assert (values[:, 0] == 1.5).all()


def test_replicates_that_are_no_design_are_counted_and_left_out() -> None:
    x = X[:8]
    found = fit("power_floor", {"x": x}, noisy(0, x))
    options = {"kind": "pairs", "n_replicates": 4000, "seed": 0}
    replicates = bootstrap(found, {"x": x}, noisy(0, x), **options)
    weight = replicate_problem(found, {"x": x}, noisy(0, x), **options).weight
    too_few = int(((weight > 0).sum(axis=1) < 4).sum())
    assert too_few > 0
    assert replicates.n_failed >= too_few
    assert len(replicates.values) == 4000 - replicates.n_failed


def test_pairs_bootstrap_of_few_sizes_is_refused() -> None:
    found = fit("power_floor", {"x": X[:7]}, noisy()[:7])
    with pytest.raises(DataError, match=r"at least 8 distinct sizes \(or groups\), got 7"):
        bootstrap(found, {"x": X[:7]}, noisy()[:7], kind="pairs", seed=0)
    found, two = fitted(noisy()), np.arange(10) // 5
    with pytest.raises(DataError, match="got 2"):
        bootstrap(found, {"x": X}, noisy(), kind="pairs", seed=0, groups=two)


def test_parametric_bootstrap_knows_no_groups() -> None:
    with pytest.raises(ValueError, match="draws every point alone"):
        bootstrap(fitted(noisy()), {"x": X}, noisy(), kind="parametric", seed=0, groups=X)


def test_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="kind must be parametric, residual or pairs; got 'wild'"):
        bootstrap(fitted(noisy()), {"x": X}, noisy(), kind="wild", seed=0)


def test_many_failures_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_is_design", lambda problem, fitted: np.arange(100) < 70)
    with pytest.raises(FitError, match="30 of 100 bootstrap replicates"):
        bootstrap(fitted(noisy()), {"x": X}, noisy(), kind="residual", n_replicates=100, seed=0)
