"""The noise scale against gradients whose noise scale is known."""

import math
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from extrap.noise import (
    gradient_moments,
    mean_noise_scale,
    noise_course,
    noise_scale,
    noise_scale_from_moments,
)

TRUTH = 471.0
N_DIMENSIONS = 200
GRADIENT = np.full(N_DIMENSIONS, N_DIMENSIONS**-0.5)
"""Of norm 1, so that tr Σ is the noise scale."""


def draw_norms(rng, *, batch_small, batch_big, n_steps=50, trace=TRUTH, gradient=GRADIENT):
    """Squared norms of a big batch's gradient and of its small batches', on average over them."""
    n = batch_big // batch_small
    per_dimension = np.broadcast_to(trace, n_steps) / N_DIMENSIONS
    noise = rng.normal(size=(n_steps, N_DIMENSIONS))
    big = ((gradient + noise * np.sqrt(per_dimension / batch_big)[:, None]) ** 2).sum(axis=1)
    about_big = rng.chisquare((n - 1) * N_DIMENSIONS, size=n_steps) / n
    return big + about_big * per_dimension / batch_small, big


def draw_moments(rng, *, batch_small=32, batch_big=256, **options):
    norms = draw_norms(rng, batch_small=batch_small, batch_big=batch_big, **options)
    return gradient_moments(*norms, batch_small=batch_small, batch_big=batch_big)


def windows(squared, trace, n, **options):
    parts = zip(np.array_split(squared, n), np.array_split(trace, n), strict=True)
    return [noise_scale_from_moments(*part, **options) for part in parts]


def test_moments_are_those_of_the_definition_whatever_the_batch_of_a_step():
    big = np.array([8.0, 64.0, 16.0])
    found = gradient_moments([2 + 30 / 4] * 3, 2 + 30 / big, batch_small=4, batch_big=big)
    np.testing.assert_allclose(found, [[2] * 3, [30] * 3], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
@pytest.mark.parametrize(("small", "big", "n_steps"), [(32, 64, 50), (1, 512, 50), (32, 512, 5)])
def test_interval_covers_at_its_level(small, big, n_steps, level):
    rng = np.random.default_rng(1)
    found = [
        noise_scale_from_moments(
            *draw_moments(rng, batch_small=small, batch_big=big, n_steps=n_steps), level=level
        )
        for _ in range(500)
    ]
    covered = np.mean([TRUTH in each.ci for each in found])
    assert covered == pytest.approx(level, abs=2.2 * math.sqrt(level * (1 - level) / 500))


@pytest.mark.slow
def test_interval_covers_where_neighbouring_steps_are_correlated():
    rng = np.random.default_rng(2)
    shape, n_steps = 0.9 ** np.arange(100), 2000
    covered, naive = [], []
    for _ in range(300):
        squared, trace = draw_moments(rng, n_steps=n_steps + 99)
        squared = np.convolve(squared, shape / shape.sum(), mode="valid")
        trace = np.convolve(trace, shape / shape.sum(), mode="valid")
        covered.append(TRUTH in noise_scale_from_moments(squared, trace, level=0.9).ci)
        shuffled = rng.permutation(n_steps)
        naive.append(
            TRUTH in noise_scale_from_moments(squared[shuffled], trace[shuffled], level=0.9).ci
        )
    assert np.mean(covered) == pytest.approx(0.9, abs=0.06)
    assert np.mean(naive) < 0.5


def test_no_gradient_gives_a_lower_bound_only():
    rng = np.random.default_rng(3)
    bounds = []
    for _ in range(100):
        squared, trace = draw_moments(rng, gradient=0 * GRADIENT)
        found = noise_scale_from_moments(squared, trace, level=0.9)
        bounds.append(found.ci.upper is None)
        if found.is_one_sided:
            assert found.noise_scale is None
            assert found.ci.lower >= 0
            assert "at least" in str(found)
    # A one-sided test at 95 %: the rest are chance finds of a gradient.
    assert np.mean(bounds) == pytest.approx(0.95, abs=0.045)


def fieller_by_pseudo_values(squared, trace, level, n_blocks):
    """Roots of (mean s − ρ mean g)² = t² Var, by the jackknife of blocks left out in turn."""
    n, pseudo = len(squared), []
    for block in np.array_split(np.arange(n), n_blocks):
        rest, h = np.setdiff1d(np.arange(n), block), n / len(block)
        own = [h * x.mean() - (h - 1) * x[rest].mean() for x in (squared, trace)]
        pseudo.append([*own, h])
    *own, h = np.array(pseudo).T
    off = np.array([x - y.mean() for x, y in zip(own, (squared, trace), strict=True)])
    (v_g, v_gs), (_, v_s) = (off / (h - 1)) @ off.T / n_blocks  # Busing et al. (1999), eq. 8
    t2 = stats.t.ppf((1 + level) / 2, n_blocks - 1) ** 2
    g, s = squared.mean(), trace.mean()
    return np.sort(np.roots([g**2 - t2 * v_g, -2 * (g * s - t2 * v_gs), s**2 - t2 * v_s]))


@pytest.mark.parametrize(("n_steps", "n_blocks", "level"), [(12, 12, 0.8), (23, 20, 0.9)])
def test_interval_is_fieller_s_of_a_jackknife_over_blocks(n_steps, n_blocks, level):
    moments = draw_moments(np.random.default_rng(5), n_steps=n_steps)
    found = noise_scale_from_moments(*moments, level=level)
    assert found.n_blocks == n_blocks
    expected = fieller_by_pseudo_values(*moments, level, n_blocks)
    assert found.ci == pytest.approx(tuple(expected), rel=1e-8)


def test_interval_ends_where_a_t_test_does():
    squared, trace = draw_moments(np.random.default_rng(5), n_steps=12)
    found = noise_scale_from_moments(squared, trace, level=0.8)
    for limit, tail in zip(found.ci, (0.9, 0.1), strict=True):
        t, _ = stats.ttest_1samp(trace - limit * squared, 0)
        assert t == pytest.approx(stats.t.ppf(tail, 11))
    # where |G|² is not told from 0 the lower limit is such a root, and there is no upper one
    squared = np.array([1.0, -1.0, 2.0, -0.5, 0.3])
    trace = np.array([90.0, 110.0, 95.0, 105.0, 100.0])
    found = noise_scale_from_moments(squared, trace, level=0.9)
    assert found.is_one_sided
    t, _ = stats.ttest_1samp(trace - found.ci.lower * squared, 0)
    assert t == pytest.approx(stats.t.ppf(0.95, 4))


def test_a_noise_scale_of_three_steps_to_every_digit():
    found = noise_scale([3.1, 2.9, 3.0], [1.2, 1.1, 1.3], batch_small=8, batch_big=64)
    squared = (64 * np.array([1.2, 1.1, 1.3]) - 8 * np.array([3.1, 2.9, 3.0])) / 56
    trace = np.array([1.9, 1.8, 1.7]) * 64 / 7
    assert found.grad_sq_norm == pytest.approx(squared.mean(), rel=1e-12)
    assert found.grad_cov_trace == pytest.approx(trace.mean(), rel=1e-12)
    assert found.noise_scale == pytest.approx(trace.mean() / squared.mean(), rel=1e-12)
    expected = fieller_by_pseudo_values(squared, trace, 0.95, 3)
    assert found.ci == pytest.approx(tuple(expected), rel=1e-8)
    assert re.findall(r"[\d.]+", str(found)) == ["17.5", "95", "12.2", "26.7", "3"]


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    st.integers(2, 40), st.floats(1e-140, 1e140), st.floats(0.5, 0.99), st.integers(0, 2**32 - 1)
)
def test_unit_of_the_gradient_does_not_matter(n_steps, unit, level, seed):
    moments = draw_moments(np.random.default_rng(seed), n_steps=n_steps)
    found = noise_scale_from_moments(*moments, level=level)
    scaled = noise_scale_from_moments(*(unit * x for x in moments), level=level)
    for one, other in zip(found.ci, scaled.ci, strict=True):
        assert (one is None) == (other is None)
        assert one is None or other == pytest.approx(one, rel=1e-6, abs=1e-9)
    assert found.noise_scale is None or found.noise_scale in found.ci


def test_mean_of_windows_and_its_limits():
    """Steps count 1 / (1 + scale / batch); limits move the mean by its derivative."""
    squared, trace = draw_moments(np.random.default_rng(13))
    own = noise_scale_from_moments(squared, trace)
    sure = np.append(squared, np.ones(50)), np.append(trace, np.full(50, 100.0))

    def mean(value, batch_size):
        values = np.array([value, 100.0])
        return np.average(values, weights=1 / (1 + values / batch_size))

    for batch_size in (64, 1e9, None):
        found = mean_noise_scale(windows(*sure, 2), batch_size=batch_size)
        exact = [mean(own.noise_scale + h, batch_size or 1e12) for h in (-1e-3, 0.0, 1e-3)]
        weight = (exact[2] - exact[0]) / 2e-3
        assert found.noise_scale == pytest.approx(exact[1])
        assert (found.n_steps, found.n_blocks) == (100, 40)
        for limit, its in zip(found.ci, own.ci, strict=True):
            expected = weight * (its - own.noise_scale)
            assert limit - found.noise_scale == pytest.approx(expected, rel=1e-5)
    for batch_size in (None, 64):
        alone = mean_noise_scale(windows(squared, trace, 1), batch_size=batch_size)
        assert alone.noise_scale == pytest.approx(own.noise_scale)
        assert alone.ci == pytest.approx(own.ci)
    single = mean_noise_scale(windows([1.0, 2.0], [30.0, 40.0], 2))
    assert (single.noise_scale, single.ci) == (25.0, (None, None))


def starts(squared, trace, steps):
    places = [place for place, _ in noise_course(squared, trace, steps)]
    assert all(one.stop == next_.start for one, next_ in pairwise(places))
    assert places[-1].stop == len(steps)
    return [place.start for place in places]


def test_windows_of_a_training_grow_by_half_and_leave_out_or_join_what_is_not_significant():
    steps = np.arange(1, 101)
    flat, trace = np.ones(100), np.full(100, 5.0)
    # places are 1.5^k of the first step; a window has at least four steps
    assert starts(flat, trace, steps) == [0, 5, 11, 17, 25, 38, 57, 86]
    unclear = flat.copy()
    unclear[:5] = [3.0, -3.0, 3.0, -3.0, 0.0]  # at first |G|² is not told from 0: left out
    assert starts(unclear, trace, steps) == [5, 11, 17, 25, 38, 57, 86]
    for start, end, expected in (  # later: joined to the next, the last one to that before
        (38, 57, [0, 5, 11, 17, 25, 38, 86]),
        (86, 100, [0, 5, 11, 17, 25, 38, 57]),
    ):
        unclear = flat.copy()
        unclear[start:end] = np.resize([2.0, 2.0, -1.4, -1.4], end - start)
        assert starts(unclear, trace, steps) == expected


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [None, 64])
def test_interval_of_the_mean_covers_under_a_drift(batch_size):
    rng = np.random.default_rng(10)
    trace = np.repeat(np.geomspace(100, 1600, 10), 40)
    progress = np.ones(400) if batch_size is None else 1 / (1 + trace / batch_size)
    truth = (progress @ trace) / progress.sum()
    covered = []
    for _ in range(300):
        moments = draw_moments(rng, n_steps=400, trace=trace)
        found = mean_noise_scale(windows(*moments, 10, level=0.9), batch_size=batch_size)
        covered.append(truth in found.ci)
    assert np.mean(covered) == pytest.approx(0.9, abs=0.045)


def test_window_without_a_gradient_leaves_the_mean_open():
    rng = np.random.default_rng(11)
    size = np.repeat([1.0, 0.0], 50)[:, None]
    moments = draw_moments(rng, n_steps=100, gradient=size * GRADIENT)
    found = mean_noise_scale(windows(*moments, 2))
    assert found.is_one_sided
    assert found.noise_scale is None
    assert found.ci.lower > TRUTH / 2
