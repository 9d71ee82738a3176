import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.anova import anova_lm

from extrap.fitting.reference_curves import (
    ReferenceCurves,
    curve_hypotheses,
    fit_reference_curves,
    interval_means,
    log_likelihood_ratios,
)

COVARIANCE = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.8], [0.5, 0.8, 2.0]]) * 1e-4
SHAPES = (("lr", -3.0, (0.1, 0.05, 0.02)), ("lr", 2.0, (0.0, 0.02, 0.06)), ("lr", 1.0, (0.0,) * 3))
CURVES = ReferenceCurves(
    starts=(0.0, 0.1, 0.5),
    fractions=(0.1, 0.5, 1.0),
    n_points=(5.0, 5.0, 5.0),
    point_variance=(1e-6,) * 3,
    places=(0.05, 0.25, 0.75),
    intercept=(1.0, 0.7, 0.5),
    slope=(0.2, 0.6, 1.0),
    centre=0.5,
    covariance=tuple(map(tuple, COVARIANCE)),
    inflation=1.0,
    leverage=(0.1, 2.0),
    sensitivity={"lr": (0.02, 0.01, 0.0)},
    shapes=SHAPES,
    dof=9,
    total_steps=100.0,
    n_curves=10,
)


def test_evidence_is_the_ratio_of_multivariate_t_densities():
    """Twice .05 more scatter, thrice .1 / 3 an offset, .1 jumps; two mistuned shapes share .7."""
    hypotheses, seen = curve_hypotheses(CURVES, COVARIANCE), np.array([0, 2])
    deviations, extra, square = np.array([0.03, -0.01]), np.array([1e-4, 2e-4]), np.ix_(seen, seen)
    expected = [(0, np.zeros(3), COVARIANCE)]
    expected += [(0.05, np.zeros(3), factor * COVARIANCE) for factor in (4, 25)]
    expected += [(0.1 / 3, np.zeros(3), COVARIANCE + sd**2) for sd in (0.01, 0.03, 0.1)]
    expected += [(0.1, np.zeros(3), COVARIANCE + 0.01 * np.eye(3))]
    expected += [
        (prior, np.array(mean), 1.3 * COVARIANCE + 0.09 * np.outer(mean, mean))
        for prior, (_, _, mean) in zip((0.35, 0.35, 0), SHAPES, strict=True)
    ]

    def log_density(mean, covariance):
        shape = covariance[square] + np.diag(extra)
        return float(stats.multivariate_t(mean[seen], shape, df=9).logpdf(deviations))

    densities = np.array([log_density(mean, covariance) for _, mean, covariance in expected])
    ratios = log_likelihood_ratios(
        hypotheses, deviations, intervals=seen, extra_variance=extra, dof=9
    )
    assert ratios == pytest.approx(densities - densities[0])
    assert [hypothesis.prior for hypothesis in hypotheses] == [prior for prior, *_ in expected]
    kinds = ["tuned", *["scattered"] * 2, *["offset"] * 3, "jumping", *["mistuned"] * 3]
    assert [hypothesis.kind for hypothesis in hypotheses] == kinds
    mistuned = [(hypothesis.tuned, hypothesis.octaves) for hypothesis in hypotheses[-3:]]
    assert mistuned == [("lr", -3.0), ("lr", 2.0), ("lr", 1.0)]
    assert sum(hypothesis.prior for hypothesis in hypotheses) == pytest.approx(1)


def test_band_of_a_new_run_adds_what_is_not_known():
    """1 + .1 + 2 · .2² of the covariance, the law's variance and that of a quarter octave."""
    expected = 1.18 * COVARIANCE
    expected = expected + 4e-4 * np.outer([0.2, 0.6, 1], [0.2, 0.6, 1])
    expected = expected + 0.0625 * np.outer([0.02, 0.01, 0], [0.02, 0.01, 0])
    found = CURVES.predictive_covariance(0.7, law_variance=4e-4, octave_sd={"lr": 0.25})
    assert found == pytest.approx(expected)
    half = stats.t.isf(0.05, 9) * np.sqrt(np.diag(expected))
    assert CURVES.half_width(found, 0.9) == pytest.approx(half)
    assert CURVES.mean(0.7) == pytest.approx([1.04, 0.82, 0.7])
    # halfway between the last two places in the logarithm, and as far again beyond
    assert CURVES.mean_at(math.sqrt(0.25 * 0.75), 0.7) == pytest.approx(0.76)
    assert CURVES.mean_at(0.75 * math.sqrt(3), 0.7) == pytest.approx(0.64)
    assert CURVES.mean_at(0.05 / 5, 0.7) == pytest.approx(1.26)


def table_of(y):
    """Curves (runs, points) whose points lie at equal fractions of the training."""
    runs, points = np.indices(y.shape)
    table = pd.DataFrame({"run": runs.ravel(), "step": 100.0 * (points.ravel() + 1)})
    return table.assign(loss=np.exp(y.ravel()))


def pooled(table, log_loss, **more):
    """Nothing tuned, and each run of another size and seed, unless given."""
    number = np.arange(len(log_loss))
    given = {"sizes": number, "seeds": number, "lengths": 0 * number, "tuned": (), **more}
    given.setdefault("octaves", np.empty((len(number), 0)))
    return fit_reference_curves(table, log_loss=log_loss, **given)


GRID = [(size, seed) for size in range(4) for seed in range(3)]
PAIR = [(size, seed) for size in range(2) for seed in range(2)]


@pytest.mark.parametrize(
    ("spread", "shared", "alone"),
    [
        (0.004, GRID, [(0, 9)]),
        (0.0, GRID, []),
        (1.0, GRID, []),
        (0.02, PAIR, [(size, size) for size in range(2, 9)]),
    ],
)
def test_a_new_seed_widens_the_band_by_the_share_that_seeds_have(spread, shared, alone):
    """ψ by a two-way analysis of variance; dof by Satterthwaite's rule for ψ and 1 − ψ."""
    size, seed = np.array([*shared, *alone]).T
    rng, x = np.random.default_rng(5), np.linspace(0.2, 1, 5)
    own = spread * rng.normal(size=10)[seed]
    y = 1 + np.outer(size / 4, x) + own[:, None] + 0.01 * rng.normal(size=(len(size), 5))
    found = pooled(table_of(y), size / 4, sizes=size, seeds=seed)
    k, between, within, total = len(shared), 0.0, 0.0, 0.0
    for values in y.T:
        table = pd.DataFrame({"y": values[:k], "size": size[:k], "seed": seed[:k]})
        of = anova_lm(ols("y ~ C(size) + C(seed)", table).fit())["mean_sq"]
        between, within = between + of["C(seed)"], within + of["Residual"]
        total += OLS(values, np.column_stack([np.ones(len(size)), size])).fit().resid.var()
    rows, n = len(set(size[:k])), len(set(seed[:k]))
    share = np.clip((between - within) / rows / total, 0, 0.95)
    assert (share == 0, share == 0.95) == (spread == 0, spread == 1)
    assert found.inflation == pytest.approx((1 + share / n) / (1 - share / n), rel=1e-7)
    dof = len(size) - 2
    assert found.dof == int(1 / (share**2 / (n - 1) + (1 - share) ** 2 / dof))


def test_seeds_at_different_sizes_tell_nothing_of_each_other():
    size = np.arange(8.0)
    y = 1 + np.outer(size, np.ones(3)) + 0.01 * np.random.default_rng(0).normal(size=(8, 3))
    found = pooled(table_of(y), size / 4, sizes=size, seeds=np.repeat([0, 1], 4))
    assert (found.inflation, found.dof) == (1, 6)


def test_one_seed_alone_is_taken_for_half_of_the_variance():
    """(1 + ½) / (1 − ½), and 1 / (¼ + ¼ / 9) degrees of freedom; correlations are drawn together.

    The share of five intervals and nine degrees of freedom is 5/14.
    """
    x, log_loss = np.linspace(0.2, 1, 5), np.linspace(0, 1, 11)
    rng = np.random.default_rng(0)
    off = 0.02 * rng.normal(size=(11, 1)) * x + 0.01 * rng.normal(size=(11, 5))
    y = 1 + np.outer(log_loss, x) + off
    found = pooled(table_of(y), log_loss, seeds=np.zeros(11))
    assert (found.inflation, found.dof) == (pytest.approx(3), 3)
    design = np.column_stack([np.ones(11), log_loss])
    theirs = [OLS(values, design).fit() for values in y.T]
    correlation = np.corrcoef([each.resid for each in theirs])
    common = correlation[~np.eye(5, dtype=bool)].mean()
    assert 0 < common < 0.95
    drawn = (9 * correlation + 5 * np.where(np.eye(5), 1, common)) / 14
    sd = np.sqrt([3 * each.scale for each in theirs])
    assert np.array(found.covariance) == pytest.approx(drawn * np.outer(sd, sd), rel=1e-6)


def test_mistuned_runs_are_remembered_by_how_far_they_are_off():
    """On a parabola of 1 octave²; three runs within half an octave, ends included, are enough."""
    x, log_loss = np.linspace(0.2, 1, 5), np.append(np.linspace(0, 1, 11), [0.2] * 6)
    near = np.random.default_rng(0).permutation(np.linspace(-1.2, 1.2, 11))
    octaves = np.append(near, [1.5, 2.0, 2.5, -2.5, -3.5, -3.51])
    y = 1 + np.outer(log_loss, x) + octaves[:, None] ** 2
    found = pooled(table_of(y), log_loss, octaves=octaves[:, None], tuned=["lr"])
    assert found.n_curves == 11
    expected = [(-1, 0.96), (1, (0.72**2 + 0.96**2 + 1.2**2 + 1.5**2) / 4), (2, 12.5 / 3)]
    assert [(name, u, *np.unique(np.round(shape, 6))) for name, u, shape in found.shapes] == [
        ("lr", u, pytest.approx(deviation, abs=1e-6)) for u, deviation in expected
    ]


def test_a_curve_that_was_not_logged_to_its_end_is_left_out():
    """98 of 100 steps are its end, 97 are not; runs of two lengths have no common end."""
    log_loss = np.linspace(0, 1, 12)
    for end, n, lengths, total in ((98, 12, 0, 100), (97, 11, 0, 100), (98, 12, 1, None)):
        last = np.where(np.arange(12) == 0, end, 100) * np.where(np.arange(12) > 8, 1 + lengths, 1)
        table = pd.concat(
            pd.DataFrame({"run": i, "step": np.arange(1, 51) * steps / 50, "loss": np.exp(at)})
            for i, (steps, at) in enumerate(zip(last, log_loss, strict=True))
        )
        found = pooled(table, log_loss, lengths=np.where(np.arange(12) > 8, lengths, 0))
        assert (found.n_curves, found.total_steps) == (n, total)


def sweep_of_curves():
    """Twelve runs of ten points, each of another size and seed; their laws' losses and rates."""
    rng = np.random.default_rng(0)
    log_loss, octaves = np.linspace(0.5, 1.0, 12), rng.uniform(-1, 1, (12, 1))
    x = np.arange(1, 11) / 10
    y = 1 - 0.5 * x + np.outer(log_loss, x) + 0.03 * octaves**2 + 0.01 * rng.normal(size=(12, 10))
    return table_of(y), log_loss, octaves


def test_pooled_curves_are_least_squares_on_the_law_and_the_octaves():
    table, log_loss, octaves = sweep_of_curves()
    found = pooled(table, log_loss, octaves=octaves, tuned=["lr"])
    x = log_loss - log_loss.mean()
    design = np.column_stack([np.ones(12), x, octaves, octaves**2])
    logs = np.log(table["loss"].to_numpy()).reshape(12, 10)
    theirs = [OLS(y, design).fit() for y in logs.T]
    values = np.array([each.params for each in theirs])
    assert found.intercept == pytest.approx(values[:, 0], rel=1e-7)
    assert found.slope == pytest.approx(values[:, 1], rel=1e-7)
    assert found.sensitivity["lr"] == pytest.approx(values[:, 2], rel=1e-7)
    assert np.diag(found.covariance) == pytest.approx([each.scale for each in theirs], rel=1e-6)
    assert found.leverage == pytest.approx((1 / 12, 1 / np.sum(x**2)))
    assert (found.inflation, found.dof, found.n_curves, found.total_steps) == (1, 10, 12, 1000)
    assert pooled(table[:0], log_loss) is None
    assert found.fractions == found.places == pytest.approx(np.arange(1, 11) / 10)


@pytest.mark.parametrize("is_enough", [True, False])
@pytest.mark.parametrize(
    ("n_tuned", "n_runs", "n_sizes"), [(1, 8, 12), (2, 10, 12), (1, 12, 4), (0, 12, 3)]
)
def test_eight_runs_at_three_sizes_are_enough_for_few_terms(n_tuned, n_runs, n_sizes, is_enough):
    """Of more terms, four runs more than terms, and as many sizes."""
    table, log_loss, octaves = sweep_of_curves()
    n_runs -= not is_enough and n_runs < 12
    sizes = np.arange(12) % (n_sizes - (not is_enough and n_sizes < 12))
    off, names = np.column_stack([octaves, octaves[::-1]])[:, :n_tuned], ["lr", "wd"][:n_tuned]
    part = table[table["run"] < n_runs]
    found = pooled(part, log_loss, octaves=off, tuned=names, sizes=sizes, seeds=0 * sizes)
    assert (found is not None) is is_enough


def test_averages_over_an_interval_and_the_variance_of_its_points():
    """Steps 1 to 100: the interval (.95, 1] has five points; a line drops out of their variance.

    Second differences of .01 (0, 1, 0, 1, 0) are .02 each: (.02)² / 6.
    """
    steps = np.arange(1.0, 101.0)
    logs = np.where((steps > 95) & (steps % 2 == 1), 0.01, 0.0) + 0.001 * steps
    logs = logs + 0.5
    table = pd.DataFrame({"run": 0, "step": steps, "loss": np.exp(logs)})
    means = interval_means(table, 2)
    assert (means.starts[-1], means.ends[-1], means.n_points[-1]) == (0.95, 1.0, 5)
    assert means.log_loss[0, -1] == pytest.approx(logs[95:].mean())
    assert np.isnan(means.log_loss[1]).all()
    assert means.fractions[-1] == pytest.approx(np.exp(np.log(steps[95:] / 100).mean()))
    assert means.point_variance[-1] == pytest.approx(0.02**2 / 6, rel=1e-2)
    useless = pd.DataFrame({"run": 0, "step": [0.0, 99.5, 99.6, 99.7], "loss": [9, 0, -1, np.nan]})
    again = interval_means(pd.concat([table, useless]), 2)
    assert np.array_equal(again.log_loss, means.log_loss, equal_nan=True)
    half = interval_means(table, 1, length=200.0)
    assert half.ends[-1] == 0.5
    assert interval_means(table.assign(loss=np.nan), 1) is None
    assert replace(CURVES, dof=3).half_width(COVARIANCE, 0.5)[0] == pytest.approx(
        0.02 * 0.76489, rel=1e-4
    )
