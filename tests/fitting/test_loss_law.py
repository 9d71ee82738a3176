from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from extrap.errors import DataError
from extrap.fitting import fit, predict_log, relative_sizes

SIZES = [16.0, 32.0, 64.0, 128.0, 256.0, 512.0]


def noisy_losses(seed: int, noise: float = 0.01) -> np.ndarray:
    x = np.array(SIZES) / 16
    return (1.5 + 2 * x**-0.4) * np.exp(noise * np.random.default_rng(seed).normal(size=len(x)))


@pytest.mark.parametrize("law", ["power", "power_floor"])
@given(factor=st.floats(1e-12, 1e24), seed=st.integers(0, 20))
def test_unit_of_the_sizes_does_not_matter(law: str, factor: float, seed: int) -> None:
    loss = noisy_losses(seed)
    plain = fit(law, {"x": SIZES}, loss)
    scaled = fit(law, {"x": [factor * v for v in SIZES]}, loss)
    assert scaled.values == pytest.approx(plain.values, rel=1e-3, abs=1e-6)
    for target in (16.0, 2000.0):
        here, there = {"x": target}, {"x": factor * target}
        mean, se = predict_log(plain, relative_sizes(plain, here))
        other_mean, other_se = predict_log(scaled, relative_sizes(scaled, there))
        assert other_mean == pytest.approx(mean, abs=1e-5)
        assert other_se == pytest.approx(se, rel=1e-2, abs=1e-8)


@pytest.mark.parametrize("law", ["power", "power_floor"])
@given(factor=st.floats(1e-20, 1e24))
def test_unit_of_the_loss_shifts_the_logarithm_only(law: str, factor: float) -> None:
    plain = fit(law, {"x": SIZES}, noisy_losses(0))
    scaled = fit(law, {"x": SIZES}, factor * noisy_losses(0))
    z = relative_sizes(plain, {"x": 4000.0})
    (mean, se), (other_mean, other_se) = predict_log(plain, z), predict_log(scaled, z)
    assert other_mean - mean == pytest.approx(np.log(factor), abs=1e-5)
    assert other_se == pytest.approx(se, rel=1e-2)
    assert scaled.chi2 == pytest.approx(plain.chi2, rel=1e-5)


@given(order=st.permutations(range(len(SIZES))))
def test_order_of_the_points_does_not_matter(order: list[int]) -> None:
    loss = noisy_losses(3)
    plain = fit("power_floor", {"x": SIZES}, loss)
    mixed = fit("power_floor", {"x": [SIZES[i] for i in order]}, loss[list(order)])
    assert mixed.values == pytest.approx(plain.values, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_projection_finds_what_plain_least_squares_finds(seed: int) -> None:
    loss, x = noisy_losses(seed), np.array(SIZES)
    fitted = fit("power_floor", {"x": SIZES}, loss)
    z = x / fitted.reference[0]

    def residuals(p: np.ndarray) -> np.ndarray:
        return (loss - p[0] - p[1] * z ** -p[2]) / loss

    starts = [(1.0, 1.0, c) for c in (0.1, 0.5, 1.0)]
    found = [optimize.least_squares(residuals, s, bounds=(0, [9, 9, 3])) for s in starts]
    best = min(2 * f.cost for f in found)
    assert fitted.chi2 == pytest.approx(best, rel=1e-6)


def test_noise_known_to_be_larger_than_the_residuals_is_kept() -> None:
    loss = noisy_losses(0, noise=0.001)
    free = fit("power", {"x": SIZES[:3]}, loss[:3])
    known = fit("power", {"x": SIZES[:3]}, loss[:3], loss_se=0.1 * loss[:3], loss_se_dof=20)
    assert known.covariance[0][0] > 10 * free.covariance[0][0]
    assert known.scale_dof == 20
    assert known.scatter == pytest.approx(0.1, rel=0.01)


def test_residuals_larger_than_the_known_noise_widen_the_covariance() -> None:
    loss = noisy_losses(0, noise=0.05)
    known = fit("power", {"x": SIZES}, loss, loss_se=1e-4 * loss, loss_se_dof=20)
    assert known.chi2 > known.dof
    assert known.scale_dof == known.dof
    assert known.scatter > 0.01


@pytest.mark.parametrize(
    ("law", "sizes", "message"),
    [
        ("power_floor", [1.0, 2.0, 4.0], "has 3 parameters and needs at least 4 distinct sizes"),
        ("power", [1.0, 2.0, 2.0], "needs at least 3 distinct sizes, got 2"),
        ("power", [], "needs at least 3 distinct sizes, got 0"),
        ("power", [100.0, 100.001, 100.002], "must span at least a factor 1.1"),
    ],
)
def test_too_few_sizes_are_refused(law: str, sizes: list[float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        fit(law, {"x": sizes}, [3.0, 2.0, 1.5][: len(sizes)])


def test_unknown_law_names_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match=r"law must be one of power, power_floor, .*; got 'chinchila'"
    ):
        fit("chinchila", {"x": SIZES}, noisy_losses(0))


def test_law_refuses_a_number_of_columns_it_has_no_formula_for() -> None:
    with pytest.raises(ValueError, match=r"the law m3 takes 1 size column\(s\), got 2"):
        fit("m3", {"x": SIZES, "y": SIZES}, noisy_losses(0))


@pytest.mark.parametrize("fix", [{"E": 1.5}, {"c": 0.4}, {"E": 1.5, "c": 0.4}])
def test_pinned_parameters_stay_and_cost_no_degree_of_freedom(fix: dict[str, float]) -> None:
    loss = noisy_losses(0)
    free = fit("power_floor", {"x": SIZES}, loss)
    pinned = fit("power_floor", {"x": SIZES}, loss, fix=fix)
    assert pinned.fixed == fix
    assert pinned.dof == free.dof + len(fix)
    assert pinned.chi2 > free.chi2
    for i, name in enumerate(pinned.names):
        if name in fix:
            assert pinned.values[i] == fix[name]
            assert not np.any(pinned.covariance[i])
            assert not np.any(np.array(pinned.covariance)[:, i])
        else:
            assert 0 < pinned.covariance[i][i] < free.covariance[i][i]


def test_pinning_a_parameter_at_its_estimate_changes_nothing_else() -> None:
    free = fit("power_floor", {"x": SIZES}, noisy_losses(1))
    for name in ("E", "c"):
        pinned = fit(
            "power_floor", {"x": SIZES}, noisy_losses(1), fix={name: free.parameters[name]}
        )
        assert pinned.values == pytest.approx(free.values, rel=1e-6)


def test_a_pin_saves_a_size() -> None:
    loss = noisy_losses(0)[:3]
    with pytest.raises(DataError, match="has 3 parameters and needs at least 4 distinct sizes"):
        fit("power_floor", {"x": SIZES[:3]}, loss)
    found = fit("power_floor", {"x": SIZES[:3]}, loss, fix={"E": 1.5})
    assert found.dof == 1
    with pytest.raises(DataError, match="has 2 free parameters and needs at least 3"):
        fit("power_floor", {"x": SIZES[:2]}, loss[:2], fix={"E": 1.5})


@pytest.mark.parametrize(
    ("fix", "message"),
    [
        (
            {"b": 1.0},
            "b of the law power_floor holds at the fit's reference size.*pin one of E, c",
        ),
        ({"k": 1.0}, "fix names no parameter 'k' of the law power_floor; pin one of E, c"),
        ({"c": 7.0}, r"c of the law power_floor must lie in \[0.005, 3\], got 7"),
        ({"E": -1.0}, r"E of the law power_floor must lie in \[0, inf\], got -1"),
    ],
)
def test_only_unit_free_parameters_within_range_can_be_pinned(
    fix: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        fit("power_floor", {"x": SIZES}, noisy_losses(0), fix=fix)


def test_tied_size_columns_need_a_pin_and_say_so() -> None:
    n = np.array(SIZES) * 1e6
    sizes = {"params": n, "tokens": 20 * n}
    loss = 1.7 + 0.5 * (n / n[0]) ** -0.34 + 0.6 * (n / n[0]) ** -0.8
    with pytest.raises(DataError, match=r'params, tokens move together.*fix=\{"c1": 0.34\}'):
        fit("power_floor", sizes, loss, fix={"E": 1.7})
    found = fit("power_floor", sizes, loss, fix={"E": 1.7, "c1": 0.34})
    assert "columns-collinear" in found.flags
    assert found.parameters["c2"] == pytest.approx(0.8, rel=1e-4)


def test_weights_pull_the_fit_towards_the_points_that_have_them() -> None:
    loss = noisy_losses(0)
    loss[-1] *= 1.02
    heavy = np.where(np.arange(6) == 5, 100.0, 1.0)
    plain = fit("power_floor", {"x": SIZES}, loss)
    pulled = fit("power_floor", {"x": SIZES}, loss, weights=heavy)
    z = relative_sizes(plain, {"x": SIZES[-1]})
    off = [abs(predict_log(f, z)[0][0] - np.log(loss[-1])) for f in (plain, pulled)]
    assert off[1] < 0.3 * off[0]


def test_only_the_ratio_of_weights_counts_where_noise_is_unknown() -> None:
    weights = np.arange(1.0, 7.0)
    one = fit("power_floor", {"x": SIZES}, noisy_losses(0), weights=weights)
    other = fit("power_floor", {"x": SIZES}, noisy_losses(0), weights=1e3 * weights)
    assert other.values == pytest.approx(one.values)
    assert other.chi2 == pytest.approx(one.chi2)
    assert other.scatter == pytest.approx(one.scatter)


def test_a_point_given_twice_with_half_the_weight_counts_once() -> None:
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


@pytest.mark.parametrize("weights", [[1, 1, 1], [1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, np.nan]])
def test_weights_must_be_positive_one_a_loss(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weights must be 6 positive numbers"):
        fit("power_floor", {"x": SIZES}, noisy_losses(0), weights=weights)


@pytest.mark.parametrize("law", ["m3", "m4", "log_quadratic", "bnsl"])
@pytest.mark.parametrize("factor", [1e-12, 1e24])
def test_unit_of_the_sizes_does_not_matter_to_any_law(law: str, factor: float) -> None:
    x = 16 * 2.0 ** np.arange(10)
    rng = np.random.default_rng(4)
    loss = (1.5 + 2 * (x / 16) ** -0.4) * np.exp(0.003 * rng.normal(size=10))
    plain, scaled = fit(law, {"x": x}, loss), fit(law, {"x": factor * x}, 1e9 * loss)
    far, also_far = ({"x": 4 * x[-1]}, {"x": 4 * factor * x[-1]})
    mean, _ = predict_log(plain, relative_sizes(plain, far))
    other, _ = predict_log(scaled, relative_sizes(scaled, also_far))
    assert other - np.log(1e9) == pytest.approx(mean, abs=1e-5)
    assert scaled.chi2 == pytest.approx(plain.chi2, rel=1e-7)
