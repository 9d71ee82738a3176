from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import WLS

from extrap.errors import DataError
from extrap.fitting.loss_law import predict_log, relative_sizes
from extrap.fitting.optimum_law import check_curvature, fit_optimum_law
from extrap.records import Estimate, Interval
from tests.checking import byhand

WIDTHS = np.array([16.0, 32.0, 64.0, 128.0, 256.0, 512.0])
OPEN = Interval(None, None)


def optimum(value, log_se=0.1, **size):
    se = None if value is None else value * log_se
    estimate = Estimate(value=value, se=se, ci=OPEN, pi=OPEN)
    return replace(byhand.optimum(64.0), size=size, tuned={"lr": estimate})


def optima(log_se, seed=0):
    noise = log_se * np.random.default_rng(seed).normal(size=len(WIDTHS))
    lr = 0.01 * (WIDTHS / 16) ** -0.4 * np.exp(noise)
    return [optimum(v, s, width=w) for v, s, w in zip(lr, log_se, WIDTHS, strict=True)]


def law_of(points, **fix):
    return fit_optimum_law(points, tuned="lr", columns=["width"], fix=fix)


UNEQUAL = np.array([0.05, 0.1, 0.08, 0.2, 0.12, 0.1])


PRIOR = {0.003: 0.5, 0.03: 0.15, 0.06: 0.2, 0.12: 0.1, 0.25: 0.05}
"""As docs/methods.md has it: octaves per squared doubling → how likely."""


def in_logs(points):
    """Log sizes about their mean, log optima, standard errors."""
    x = np.log([width_of(o) for o in points])
    values = np.array([o.tuned["lr"].value for o in points])
    return x - x.mean(), np.log(values), np.array([o.tuned["lr"].se for o in points]) / values


@pytest.mark.parametrize("seed", range(2))
def test_law_is_weighted_least_squares(seed):
    points = optima(UNEQUAL, seed)
    law, (x, y, se) = law_of(points), in_logs(points)
    theirs = WLS(y, np.column_stack([np.ones(6), x]), weights=se**-2.0).fit()
    assert law.values == pytest.approx([*theirs.params, 0.0], abs=1e-4)
    assert law.chi2 == pytest.approx(np.sum((theirs.resid / UNEQUAL) ** 2), rel=1e-3)
    assert (law.dof, law.scale_dof, law.n_points) == (3 + 4, 3 + 4, 6)
    assert law.reference == pytest.approx([np.exp(np.log(WIDTHS).mean())])
    assert law.fitted_range == ((16.0, 512.0),)


@pytest.mark.parametrize("curvature", [0.0, 0.5])
def test_doubt_is_that_of_bends_mixed_by_their_evidence(curvature):
    """The evidence is a multivariate t density of what the optima leave of a straight line."""
    points = bent(curvature, seed=3, n=6)
    x, y, se = in_logs(points)
    square, straight = x**2, np.column_stack([np.ones(6), x])
    contrasts = np.linalg.svd(straight.T)[2][2:]  # of the optima, free of any straight line
    design = np.column_stack([straight, square])
    shares, means, covariances, scales = [], [], [], []
    for octaves, weight in PRIOR.items():
        sd = octaves / np.log(2) / 0.4
        marginal = contrasts @ (np.diag(se**2) + sd**2 * np.outer(square, square)) @ contrasts.T
        known = stats.multivariate_t(np.zeros(4), 0.4**2 * marginal, df=3)
        shares.append(weight * known.pdf(contrasts @ y))
        inverse = np.linalg.inv(design.T / se**2 @ design + np.diag([0, 0, sd**-2]))
        means.append(inverse @ (design.T / se**2 @ y))
        left = contrasts @ y
        scales.append((3 * 0.4**2 + left @ np.linalg.solve(marginal, left)) / 7)
        covariances.append(inverse * scales[-1])
    shares = np.array(shares) / np.sum(shares)
    law = law_of(points)
    mean = shares @ means
    expected = np.einsum("k,kij->ij", shares, covariances)
    for share, each in zip(shares, means, strict=True):
        expected += share * np.outer(each - mean, each - mean)
    theirs = WLS(y, straight, weights=se**-2.0).fit()
    line = np.append(theirs.params, 0.0)
    p = WLS(y, design, weights=se**-2.0).fit().pvalues[2]
    share = 1 / (1 + (p / 0.01) ** 2)
    assert bool(share > 0.9) is (curvature > 0)
    assert law.values == pytest.approx(share * mean + (1 - share) * line, rel=1e-6)
    expected += max(1.8 * (1 - share) ** 2, 0.2) * np.outer(mean - line, mean - line)
    assert np.array(law.covariance) == pytest.approx(expected, rel=1e-6)
    octave = 0.1 * np.log(2)
    assert law.scatter == pytest.approx(max(octave, 0.125 * np.sqrt(shares @ scales)), rel=1e-6)
    assert ("optimum-law-bends" in law.flags) is (curvature > 0)


def test_an_optimum_beyond_a_bend_lies_within_its_interval():
    """A straight law misses it by more than an octave at ×8."""
    for seed in range(5):
        points = bent(0.15, seed)
        law, x = law_of(points), np.log(16.0 * 2.0 ** np.arange(8)).mean()
        far = np.log(8 * 2048) - x
        mean, se = predict_log(law, relative_sizes(law, {"width": 8 * 2048}))
        off = -4 - 0.5 * far + 0.075 * far**2 - mean[0]
        line = WLS(in_logs(points)[1], np.column_stack([np.ones(8), in_logs(points)[0]])).fit()
        assert line.predict([1.0, far])[0] - mean[0] + off < -np.log(2)
        assert abs(off) < stats.t.ppf(0.95, law.dof) * np.hypot(se[0], law.scatter)


def test_errors_that_are_ten_times_as_large_widen_the_interval():
    """Stated errors are too large usually; optima that scatter by more than them say so."""
    points = optima(np.full(6, 0.1))
    sure = [
        replace(o, tuned={"lr": replace(o.tuned["lr"], se=0.01 * width)})
        for o, width in ((o, o.tuned["lr"].value) for o in points)
    ]
    assert law_of(sure).scatter == pytest.approx(law_of(points).scatter, rel=0.5)
    assert law_of(points).scatter < 0.1


def test_exponents_of_two_sizes_are_recovered():
    grid = [(n, d) for n in (1e8, 3e8, 1e9) for d in (1e9, 1e10, 1e11)]
    points = [optimum(1.79 * n**-0.713 * d**0.307, params=n, tokens=d) for n, d in grid]
    law = fit_optimum_law(points, tuned="lr", columns=["params", "tokens"])
    assert law.parameters["b1"] == pytest.approx(-0.713)
    assert law.parameters["b2"] == pytest.approx(0.307)


def test_optima_without_a_point_estimate_are_left_out():
    points = optima(np.full(6, 0.1))
    more = [*points, optimum(None, width=1024.0)]
    assert law_of(more) == law_of(points)


def test_too_few_and_inseparable_sizes_are_refused():
    points = optima(np.full(6, 0.1))
    with pytest.raises(DataError, match=r"at least 3 .* got 2"):
        law_of(points[:2])
    assert law_of(points[:2], b=-0.4).dof == 3 + 1
    tied = [optimum(0.1 / n, params=n, tokens=20 * n) for n in (1.0, 2.0, 4.0, 8.0, 16.0)]
    with pytest.raises(DataError, match="params, tokens"):
        fit_optimum_law(tied, tuned="lr", columns=["params", "tokens"])


def bent(curvature, seed, n=8, noise=0.05):
    """Stated errors are 2.5 times the real ones, as they usually are."""
    widths = 16.0 * 2.0 ** np.arange(n)
    log_w = np.log(widths) - np.log(widths).mean()
    rng = np.random.default_rng(seed)
    log_lr = -4 - 0.5 * log_w + 0.5 * curvature * log_w**2 + noise * rng.normal(size=n)
    return [optimum(v, 2.5 * noise, width=w) for v, w in zip(np.exp(log_lr), widths, strict=True)]


def test_pinned_slope_is_kept_and_certain():
    points = optima(np.full(6, 0.1))
    law = law_of(points, b=-0.5)
    assert law.parameters["b"] == -0.5
    assert law.covariance[1] == (0.0, 0.0, 0.0)
    assert law.fixed == {"b": -0.5}
    assert law.dof == 3 + 5
    y = np.log([o.tuned["lr"].value for o in points]) + 0.5 * np.log(WIDTHS / law.reference[0])
    assert law.parameters["a"] == pytest.approx(y.mean())


def test_pin_makes_sizes_that_move_together_fittable():
    tied = [optimum(0.1 * n**-0.3, params=n, tokens=20 * n) for n in 4.0 ** np.arange(1, 6)]
    law = fit_optimum_law(tied, tuned="lr", columns=["params", "tokens"], fix={"b2": 0.3})
    assert law.parameters["b1"] == pytest.approx(-0.6)
    assert "columns-collinear" in law.flags


def width_of(point):
    return point.size["width"]


def test_law_that_bends_has_a_flag():
    assert law_of(bent(0.2, seed=0)).flags == ("optimum-law-bends",)
    assert law_of(bent(0.0, seed=0)).flags == ()


@pytest.mark.parametrize("fix", [{}, {"b": -0.6}])
def test_curvature_test_is_the_t_test_of_statsmodels(fix):
    points = [
        replace(o, tuned={"lr": replace(o.tuned["lr"], se=o.tuned["lr"].value * se)})
        for o, se in zip(
            bent(0.05, seed=1), [0.05, 0.1, 0.08, 0.2, 0.12, 0.1, 0.1, 0.1], strict=True
        )
    ]
    x = np.log([width_of(o) for o in points])
    x = x - x.mean()
    y = np.log([o.tuned["lr"].value for o in points]) - sum(fix.values()) * x
    design = np.column_stack([np.ones(8), x, x**2 / 2])[:, [0, 2] if fix else [0, 1, 2]]
    weights = [(o.tuned["lr"].value / o.tuned["lr"].se) ** 2 for o in points]
    theirs = WLS(y, design, weights=weights).fit()
    ours = check_curvature(points, tuned="lr", columns=["width"], fix=fix)
    assert (ours.curvature, ours.se) == pytest.approx((theirs.params[-1], theirs.bse[-1]))
    assert ours.p_value == pytest.approx(theirs.pvalues[-1])
    assert ours.bends is bool(theirs.pvalues[-1] < 0.05)
    assert ours.dof == theirs.df_resid


def test_curvature_needs_two_sizes_to_spare_and_three_different_ones():
    assert check_curvature(bent(0.1, seed=0, n=3), tuned="lr", columns=["width"]) is None
    two = [optimum(0.1, width=w) for w in (8.0, 8.0, 8.0, 64.0, 64.0)]
    assert check_curvature(two, tuned="lr", columns=["width"]) is None


PAIR = [(n, d) for n in 4.0 ** np.arange(4) for d in 3.0 ** np.arange(6)]


def pairs(effect, *, bend=0.0, seed=0, sizes=PAIR):
    """Optima of parameters and tokens; those of one number of parameters share an effect."""
    rng = np.random.default_rng(seed)
    numbers = sorted({n for n, _ in sizes})
    shared = dict(zip(numbers, effect * rng.normal(size=len(numbers)), strict=True))
    logs = [-0.4 * np.log(n) + 0.2 * np.log(d) + bend * np.log(n) ** 2 for n, d in sizes]
    return [
        optimum(np.exp(log + shared[n] + 0.03 * rng.normal()), params=n, tokens=d)
        for log, (n, d) in zip(logs, sizes, strict=True)
    ]


def law_of_pairs(points, **fix):
    return fit_optimum_law(points, tuned="lr", columns=["params", "tokens"], fix=fix)


def half_width(law, **size):
    _, se = predict_log(law, relative_sizes(law, size))
    return float(stats.t.ppf(0.95, law.dof) * np.hypot(se[0], law.scatter))


def test_optima_that_share_an_effect_count_little_more_than_their_sizes():
    """Of 24 optima at four sizes: intervals of a new size, whose effect is its own, hold 90 %."""
    held = []
    for seed in range(60):
        law = law_of_pairs(pairs(0.15, seed=seed))
        truth = 0.15 * np.random.default_rng((9, seed)).normal()
        truth += -0.4 * np.log(512) + 0.2 * np.log(1000)
        mean, _ = predict_log(law, relative_sizes(law, {"params": 512, "tokens": 1000}))
        held.append(abs(mean[0] - truth) <= half_width(law, params=512, tokens=1000))
    assert 0.82 <= np.mean(held) <= 0.99
    assert law.dof == 3  # four sizes less one
    assert law.scatter == pytest.approx(0.15, rel=0.8)


def test_values_are_those_of_weighted_least_squares():
    points = pairs(0.1)
    x = np.log([[o.size["params"], o.size["tokens"]] for o in points])
    line = WLS(np.log([o.tuned["lr"].value for o in points]), np.column_stack([np.ones(24), x]))
    law = law_of_pairs(points)
    assert [law.parameters["b1"], law.parameters["b2"]] == pytest.approx(line.fit().params[1:])
    pinned = law_of_pairs(points, b1=-0.4)
    assert pinned.parameters["b1"] == -0.4
    assert half_width(pinned, params=512, tokens=1000) < half_width(law, params=512, tokens=1000)


def test_each_column_is_tested_for_a_bend_of_its_own():
    sizes = [(n, d) for n in 4.0 ** np.arange(8) for d in 3.0 ** np.arange(5)]
    points = pairs(0.02, bend=0.04, sizes=sizes)
    assert "optimum-law-bends" in law_of_pairs(points).flags
    found = check_curvature(points, tuned="lr", columns=["params", "tokens"])
    assert found.curvature == pytest.approx(0.08, rel=0.2)
    assert found.dof == 5  # eight sizes less three
    assert check_curvature(pairs(0.0), tuned="lr", columns=["params", "tokens"]).dof == 3


def test_effects_are_taken_for_no_bend_and_the_flag_is_that_of_the_test():
    sizes, flagged = [(n, d) for n in 4.0 ** np.arange(8) for d in 3.0 ** np.arange(4)], []
    for seed in range(30):
        points = pairs(0.15, seed=seed, sizes=sizes)
        found = check_curvature(points, tuned="lr", columns=["params", "tokens"])
        flagged.append("optimum-law-bends" in law_of_pairs(points).flags)
        assert flagged[-1] == found.bends
    assert sum(flagged) <= 4


def test_of_many_optima_an_even_part_tells_the_effects():
    sizes = [(n, d) for n in 4.0 ** np.arange(6) for d in 1.5 ** np.arange(40)]
    found = [law_of_pairs(pairs(0.15, seed=seed, sizes=sizes)).scatter for seed in range(8)]
    assert np.median(found) == pytest.approx(0.15, rel=0.35)
