import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap.analyses.batch_size import agreement, growth, noise_over_training
from extrap.analyses.batch_size.noise_over_training import noise_until, pool_gradients
from extrap.records import Runs


def gradients(scale=500.0, *, n=200, power=1.0, batch=256, seed=0):
    """Moments along a training whose noise scale is `scale · (step / n)^power` in truth."""
    rng = np.random.default_rng(seed)
    step = np.arange(1.0, n + 1)
    trace = np.full(n, 100.0)
    squared = trace / (scale * (step / n) ** power)
    noisy = squared + (squared / 3 + trace / batch / 8) * rng.standard_normal(n)
    return pd.DataFrame(
        {
            "run": 0,
            "step": step,
            "loss": 4.0 * step**-0.2,
            "grad_sq_norm": noisy,
            "grad_cov_trace": trace * (1 + 0.02 * rng.standard_normal(n)),
        }
    )


def runs_with(curves):
    frame = pd.DataFrame({"width": [8.0, 8.0], "lr": [0.1, 0.1], "loss": [1.0, 1.1]})
    return Runs.from_frame(frame, sizes=["width"], tuned=["lr"], curves=curves)


def until(table, step):
    found = noise_until(table, step=step, batch_size=1e9)
    return found.noise_scale


def test_mean_up_to_a_target_is_that_of_the_true_course():
    found = noise_until(gradients(), step=200, batch_size=1e9)
    assert found.noise_scale == pytest.approx(250, rel=0.15)  # ∫ s ds of a line
    assert 250 in found.ci
    assert until(gradients(), 20) == pytest.approx(25, rel=0.3)
    assert until(gradients(), 1e6) == until(gradients(), 200)
    assert until(gradients(), 150.5) == until(gradients(), 151)  # a point speaks for what led up
    assert noise_until(gradients().iloc[:0], step=10, batch_size=32) is None


def test_windows_without_an_upper_limit_are_joined():
    lost = gradients()
    lost.loc[:3, "grad_sq_norm"] = [-1.0, 1.0, -2.0, 2.0]  # nothing but noise at the start
    assert until(lost, 200) is not None
    noise = gradients()
    noise["grad_sq_norm"] = np.where(np.arange(200) % 2, 1.0, -1.01)
    hopeless = noise_until(noise, step=200, batch_size=1e9)
    assert (hopeless.noise_scale, hopeless.ci.upper) == (None, None)


def test_course_grows_as_the_truth_does():
    course = noise_over_training(gradients())
    truth = 2.5 * course["step"]
    assert ((course["lower"] < truth) & (truth < course["upper"])).mean() >= 0.8
    assert (4.0 * course["step"] ** -0.2).tolist() == pytest.approx(course["loss"].tolist())
    assert noise_over_training(gradients().iloc[:0]).empty
    steep = gradients(n=60)
    steep.loc[:5, "grad_sq_norm"] = [4000.0, 900.0, 100.0, 10.0, 0.1, -5.0]
    course = noise_over_training(steep)  # the first steps are left out
    assert course["noise_scale"].notna().all()
    assert course["step"].iloc[0] > 6


def test_growth_adds_the_errors_of_its_ends_in_quadrature():
    """In ln B: ln 2 down and ln 4 up at the start, ln 3 down and ln 1.5 up at the end."""
    course = pd.DataFrame(
        {"noise_scale": [10.0, 30.0, 50.0], "lower": [5.0, 1, 50 / 3], "upper": [40.0, 99, 75.0]}
    )
    found = growth(course)
    down = math.hypot(math.log(3), math.log(4))
    up = math.hypot(math.log(1.5), math.log(2))
    assert found.value == pytest.approx(5)
    assert tuple(found.ci) == pytest.approx((5 * math.exp(-down), 5 * math.exp(up)))
    open_ended = course.assign(upper=[40.0, 99.0, math.nan])
    assert growth(open_ended).ci.upper is None
    assert growth(open_ended).ci.lower == pytest.approx(found.ci.lower)
    assert growth(course.assign(lower=0.0)).ci == (None, None)
    assert growth(noise_over_training(gradients(n=4))).value is None


def test_seeds_are_pooled_step_by_step():
    curves = pd.concat([gradients(n=6, seed=s).assign(run=s) for s in (0, 1)])
    pooled = pool_gradients(runs_with(curves), [0, 1])
    assert list(pooled["step"]) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    assert set(pool_gradients(runs_with(curves), [1])["run"]) == {1}


def pairs(noise, b_crit):
    return pd.DataFrame({"noise_scale": noise, "b_crit": b_crit})


def test_proportional_pairs_agree_but_for_their_ratio():
    found = agreement(pairs([10.0, 100.0, 1e4], [30.0, 300.0, 3e4]))
    numbers = (found.r_squared, found.ratio, found.largest_factor, found.decades)
    assert numbers == pytest.approx((1.0, 3.0, 3.0, 3.0))


def test_numbers_are_those_of_a_regression_of_logarithms():
    """Of ten pairs one differs by 20 and one by exactly the factor, which is no agreement."""
    noise = np.array([10.0, 100.0, 1000.0, 1000.0, 1.0])
    found = agreement(pairs([*noise], [10.0, 100.0, 1000.0, 50.0, 10.0]))
    assert (found.largest_factor, found.n_within) == (pytest.approx(20.0), 3)
    line = stats.linregress(np.log(noise), np.log([10, 100, 1000, 50, 10]))
    assert found.r_squared == pytest.approx(line.rvalue**2)
    assert found.ratio == pytest.approx(0.5 ** (1 / 5))
    other = agreement(pairs([*(1024 * noise)], [1024 * b for b in (10, 100, 1000, 50, 10)]))
    assert (other.r_squared, other.ratio) == pytest.approx((found.r_squared, found.ratio))


def test_pairs_without_an_estimate_are_counted_and_left_out():
    table = pairs([10.0, 100.0, 1000.0, math.nan, 5.0], [10.0, 100.0, 900.0, 7.0, math.nan])
    found = agreement(table)
    assert (found.n_pairs, found.n_left_out) == (3, 2)
    assert agreement(table.iloc[1:]) is None
    assert agreement(pd.DataFrame()) is None
    constant = agreement(pairs([10.0, 10.0, 10.0], [10.0, 20.0, 40.0]))
    assert constant.r_squared is None
    assert constant.largest_factor == pytest.approx(4.0)
