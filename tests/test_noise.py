"""The noise scale against gradients whose noise scale is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import extrap
from extrap.errors import DataError
from extrap.noise import (
    RunningMoments,
    _student_quantile,
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


def test_moments_are_those_of_the_definition():
    squared, trace, small, big = 2.0, 30.0, 4, 64
    found = gradient_moments(
        [squared + trace / small], [squared + trace / big], batch_small=small, batch_big=big
    )
    assert found[0] == pytest.approx([squared])
    assert found[1] == pytest.approx([trace])


def test_batch_sizes_may_differ_from_step_to_step():
    big = np.array([8.0, 64.0, 16.0])
    found = gradient_moments([2 + 30 / 4] * 3, 2 + 30 / big, batch_small=4, batch_big=big)
    assert np.allclose(found, [[2] * 3, [30] * 3])


@pytest.mark.parametrize(("small", "big"), [(32, 64), (1, 256), (32, 256), (32, 512)])
def test_median_estimate_is_the_truth_and_the_mean_of_ratios_is_not(small, big):
    rng = np.random.default_rng(0)
    ours, naive = [], []
    for _ in range(300):
        squared, trace = draw_moments(rng, batch_small=small, batch_big=big)
        ours.append(noise_scale_from_moments(squared, trace).noise_scale or math.inf)
        naive.append(np.mean(trace / squared))
    assert np.median(ours) == pytest.approx(TRUTH, rel=0.03 if big < 256 else 0.01)
    if big == 64:
        assert np.median(naive) < 0.8 * TRUTH
    else:
        assert abs(np.median(naive) - np.median(ours)) > 0.02 * TRUTH


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
@pytest.mark.parametrize(("small", "big", "n_steps"), [(32, 64, 50), (1, 512, 50), (32, 512, 5)])
def test_interval_covers_at_its_level(small, big, n_steps, level):
    rng = np.random.default_rng(1)
    found = [
        noise_scale_from_moments(
            *draw_moments(rng, batch_small=small, batch_big=big, n_steps=n_steps), level=level
        )
        for _ in range(1000)
    ]
    covered = np.mean([TRUTH in each.ci for each in found])
    assert covered == pytest.approx(level, abs=0.035)


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
            assert "cannot be told from 0" in str(found)
    # A one-sided test at 95 %: the rest are chance finds of a gradient.
    assert np.mean(bounds) == pytest.approx(0.95, abs=0.05)


def test_lower_bound_grows_into_an_interval_with_more_steps():
    rng = np.random.default_rng(13)
    squared, trace = draw_moments(rng, batch_big=64, n_steps=400)
    few, many = (noise_scale_from_moments(squared[:n], trace[:n]) for n in (3, 400))
    assert few.is_one_sided
    assert 0 < few.ci.lower < TRUTH
    assert not many.is_one_sided
    assert TRUTH in many.ci
    assert many.noise_scale in many.ci
    assert {type(side) for side in (*many.ci, few.ci.lower)} == {float}


def test_lower_bound_is_the_root_of_fieller_s_quadratic():
    squared = np.array([1.0, -1.0, 2.0, -0.5, 0.3])
    trace = np.array([90.0, 110.0, 95.0, 105.0, 100.0])
    found = noise_scale_from_moments(squared, trace, level=0.9)
    assert found.is_one_sided
    rest = trace - found.ci.lower * squared
    t = rest.mean() / (rest.std(ddof=1) / 5**0.5)
    assert t == pytest.approx(stats.t.ppf(0.95, 4))


def test_interval_ends_where_a_t_test_does():
    rng = np.random.default_rng(5)
    squared, trace = draw_moments(rng, n_steps=12)
    found = noise_scale_from_moments(squared, trace, level=0.8)
    for limit, sign in zip(found.ci, (1, -1), strict=True):
        rest = trace - limit * squared
        t = rest.mean() / (rest.std(ddof=1) / 12**0.5)
        assert t == pytest.approx(sign * stats.t.ppf(0.9, 11))


def test_blocks_are_of_neighbouring_steps():
    rng = np.random.default_rng(6)
    squared, trace = draw_moments(rng, n_steps=60)
    blocks = [np.repeat(x.reshape(20, 3).mean(axis=1), 3) for x in (squared, trace)]
    found = noise_scale_from_moments(squared, trace)
    assert found.n_blocks == 20
    assert found.ci == pytest.approx(noise_scale_from_moments(*blocks).ci)


@pytest.mark.parametrize("dof", [1, 2, 3, 4, 7, 19, 100])
@pytest.mark.parametrize("level", [0.01, 0.5, 0.9, 0.999])
def test_quantile_is_that_of_student(dof, level):
    assert _student_quantile(level, dof) == pytest.approx(stats.t.ppf((1 + level) / 2, dof))


def test_single_step_gives_a_number_without_an_interval():
    found = noise_scale(9.5, 2.5, batch_small=4, batch_big=64)
    assert found.noise_scale == pytest.approx(29.8667 / 2.0333, rel=1e-4)
    assert found.ci == (None, None)
    assert (found.n_steps, found.is_one_sided) == (1, False)
    assert "too few for an interval" in str(found)


def test_single_step_without_a_gradient_gives_nothing():
    found = noise_scale([9.5], [0.5], batch_small=4, batch_big=64)
    assert (found.noise_scale, found.ci) == (None, (None, None))
    assert str(found).startswith("no noise scale from 1 step")


def test_zero_gradients_give_no_number():
    found = noise_scale(np.zeros(5), np.zeros(5), batch_small=4, batch_big=64)
    assert (found.noise_scale, found.ci) == (None, (0.0, None))
    assert (found.grad_sq_norm, found.grad_cov_trace) == (0.0, 0.0)


def test_gradients_without_noise_have_a_noise_scale_of_zero():
    found = noise_scale([2.0, 2.1, 1.9], [2.0, 2.1, 1.9], batch_small=4, batch_big=64)
    assert (found.noise_scale, found.ci) == (0.0, (0.0, 0.0))


def test_sentence_has_value_interval_and_steps():
    found = noise_scale([3.1, 2.9, 3.0], [1.2, 1.1, 1.3], batch_small=8, batch_big=64)
    assert str(found) == "noise scale 17.5 (95 %: 12.2 to 26.7), from 3 steps"


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    st.integers(2, 40), st.floats(1e-140, 1e140), st.floats(0.5, 0.99), st.integers(0, 2**32 - 1)
)
def test_unit_of_the_gradient_does_not_matter(n_steps, unit, level, seed):
    moments = draw_moments(np.random.default_rng(seed), n_steps=n_steps)
    found = noise_scale_from_moments(*moments, level=level)
    scaled = noise_scale_from_moments(*(unit * x for x in moments), level=level)
    wider = noise_scale_from_moments(*moments, level=(1 + level) / 2)
    for one, other in zip(found.ci, scaled.ci, strict=True):
        assert (one is None) == (other is None)
        assert one is None or other == pytest.approx(one, rel=1e-6, abs=1e-9)
    assert wider.ci.lower <= found.ci.lower
    assert wider.ci.upper is None or wider.ci.upper >= found.ci.upper
    assert found.noise_scale is None or found.noise_scale in found.ci


def test_course_follows_a_drift():
    rng = np.random.default_rng(7)
    trace = np.geomspace(100, 1600, 1000)
    windows = noise_course(*draw_moments(rng, n_steps=1000, trace=trace), n_windows=10)
    assert [window.n_steps for window in windows] == [100] * 10
    truths = [part.mean() for part in np.split(trace, 10)]
    for window, truth in zip(windows, truths, strict=True):
        assert window.noise_scale == pytest.approx(truth, rel=0.1)
    inside = sum(truth in window.ci for window, truth in zip(windows, truths, strict=True))
    assert inside >= 8


def test_mean_over_training_is_that_of_the_local_noise_scales():
    rng = np.random.default_rng(8)
    size = np.linspace(3.0, 0.5, 600)[:, None]  # the gradient shrinks, so the noise scale grows
    moments = draw_moments(rng, n_steps=600, gradient=size * GRADIENT)
    local = TRUTH / size[:, 0] ** 2
    found = mean_noise_scale(*moments, n_windows=20)
    assert local.mean() in found.ci
    assert found.noise_scale == pytest.approx(local.mean(), rel=0.05)
    pooled = noise_scale_from_moments(*moments)
    assert pooled.noise_scale < 0.5 * local.mean()
    assert (found.n_steps, found.n_blocks) == (600, 20 * 20)


def test_steps_of_a_small_batch_count_by_the_progress_they_make():
    rng = np.random.default_rng(9)
    size = np.linspace(3.0, 0.5, 600)[:, None]
    moments = draw_moments(rng, n_steps=600, gradient=size * GRADIENT)
    local = TRUTH / size[:, 0] ** 2
    progress = 1 / (1 + local / 64)
    truth = (progress @ local) / progress.sum()
    found = mean_noise_scale(*moments, n_windows=20, batch_size=64)
    assert truth < 0.5 * local.mean()
    assert truth in found.ci
    large = mean_noise_scale(*moments, n_windows=20, batch_size=1e9)
    every = mean_noise_scale(*moments, n_windows=20)
    assert large.noise_scale == pytest.approx(every.noise_scale, rel=1e-5)


def test_limits_of_the_mean_are_those_of_the_windows_times_their_weight():
    squared, trace = draw_moments(np.random.default_rng(13))
    sure = np.ones(50), np.full(50, 100.0)
    own = noise_scale_from_moments(squared, trace)
    found = mean_noise_scale(
        np.append(squared, sure[0]), np.append(trace, sure[1]), n_windows=2, batch_size=64
    )

    def mean(value):
        values = np.array([value, 100.0])
        return np.average(values, weights=1 / (1 + values / 64))

    weight = (mean(own.noise_scale + 1e-3) - mean(own.noise_scale - 1e-3)) / 2e-3
    assert found.noise_scale == pytest.approx(mean(own.noise_scale))
    for limit, its in zip(found.ci, own.ci, strict=True):
        assert limit - found.noise_scale == pytest.approx(weight * (its - own.noise_scale))


@pytest.mark.parametrize("batch_size", [None, 64])
def test_mean_of_one_window_is_that_window(batch_size):
    moments = draw_moments(np.random.default_rng(12))
    window = noise_scale_from_moments(*moments)
    found = mean_noise_scale(*moments, n_windows=1, batch_size=batch_size)
    assert found.noise_scale == pytest.approx(window.noise_scale)
    assert found.ci == pytest.approx(window.ci)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [None, 64])
def test_interval_of_the_mean_covers_under_a_drift(batch_size):
    rng = np.random.default_rng(10)
    trace = np.repeat(np.geomspace(100, 1600, 10), 40)
    progress = np.ones(400) if batch_size is None else 1 / (1 + trace / batch_size)
    truth = (progress @ trace) / progress.sum()
    covered = [
        truth
        in mean_noise_scale(
            *draw_moments(rng, n_steps=400, trace=trace),
            n_windows=10,
            batch_size=batch_size,
            level=0.9,
        ).ci
        for _ in range(400)
    ]
    assert np.mean(covered) == pytest.approx(0.9, abs=0.05)


def test_window_without_a_gradient_leaves_the_mean_open():
    rng = np.random.default_rng(11)
    size = np.repeat([1.0, 0.0], 50)[:, None]
    found = mean_noise_scale(
        *draw_moments(rng, n_steps=100, gradient=size * GRADIENT), n_windows=2
    )
    assert found.is_one_sided
    assert found.noise_scale is None
    assert found.ci.lower > TRUTH / 2


def test_windows_of_single_steps_give_a_mean_without_an_interval():
    found = mean_noise_scale([1.0, 2.0], [30.0, 40.0], n_windows=2)
    assert (found.noise_scale, found.ci) == (25.0, (None, None))


def test_running_averages_are_debiased_and_divided_last():
    running = RunningMoments(decay=0.9)
    assert (running.grad_sq_norm, running.grad_cov_trace, running.noise_scale) == (None,) * 3
    running.update(2.0, 30.0)
    assert running.grad_sq_norm == pytest.approx(2.0)
    assert running.noise_scale == pytest.approx(15.0)
    running.update(-1.0, 60.0)
    weights = np.array([0.9, 1.0])
    assert running.grad_sq_norm == pytest.approx(weights @ [2, -1] / weights.sum())
    assert running.grad_cov_trace == pytest.approx(weights @ [30, 60] / weights.sum())
    assert running.noise_scale == pytest.approx(running.grad_cov_trace / running.grad_sq_norm)
    running.update(-100.0, 1.0)
    assert running.noise_scale is None
    assert running.n_steps == 3


@pytest.mark.parametrize(
    ("small", "big", "message"),
    [
        ([], [], "one number a step"),
        ([[1.0]], [[1.0]], "one number a step"),
        ([1.0, 2.0], [1.0], "2 grad_sq_small and 1 grad_sq_big"),
        ([1.0, math.nan], [1.0, 1.0], "grad_sq_small .* got nan"),
        ([1.0], [math.inf], "grad_sq_big .* got inf"),
        ([1.0], [-2.0], "not negative, got -2"),
    ],
)
def test_norms_that_are_none_are_refused(small, big, message):
    with pytest.raises(DataError, match=message):
        noise_scale(small, big, batch_small=1, batch_big=2)


@pytest.mark.parametrize(
    ("small", "big"), [(64, 64), (64, 32), (0, 8), (0.5, 8), (math.nan, 8), (1, math.inf)]
)
def test_batch_sizes_that_cannot_be_compared_are_refused(small, big):
    with pytest.raises(ValueError, match="1 ≤ batch_small < batch_big"):
        noise_scale([1.0], [1.0], batch_small=small, batch_big=big)


@pytest.mark.parametrize("level", [0, 1, 95, math.nan])
def test_level_out_of_range_is_refused(level):
    with pytest.raises(ValueError, match=r"write 0\.95"):
        noise_scale([1.0], [1.0], batch_small=1, batch_big=2, level=level)


def test_other_bad_input_is_refused():
    with pytest.raises(DataError, match="1 grad_sq_norm and 2"):
        noise_scale_from_moments([1.0], [1.0, 2.0])
    with pytest.raises(DataError, match="finite"):
        noise_scale_from_moments([1.0], [math.inf])
    for n_windows in (0, 3):
        with pytest.raises(ValueError, match=r"n_windows must lie between 1 and .* 2, got"):
            noise_course([1.0, 2.0], [1.0, 2.0], n_windows=n_windows)
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        mean_noise_scale([1.0], [1.0], n_windows=1, batch_size=0)
    for decay in (-0.1, 1, math.nan):
        with pytest.raises(ValueError, match="decay"):
            RunningMoments(decay)
    with pytest.raises(DataError, match="skip the step"):
        RunningMoments().update(math.nan, 1.0)


def test_public_name_is_the_function():
    assert extrap.noise_scale is noise_scale
