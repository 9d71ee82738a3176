import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap.analyses.batch_size import noise_over_training
from extrap.analyses.batch_size.noise_course import agreement, noise_until, pool_gradients
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


def test_seeds_are_pooled_step_by_step():
    curves = pd.concat([gradients(n=6, seed=s).assign(run=s) for s in (0, 1)])
    pooled = pool_gradients(runs_with(curves), [0, 1])
    assert list(pooled["step"]) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    assert set(pool_gradients(runs_with(curves), [1])["run"]) == {1}


def test_mean_ratio_counts_the_targets_of_a_task_once_and_allows_for_tasks_that_differ():
    """Where tasks differ by far more than their errors it is a t interval over the tasks."""
    rng = np.random.default_rng(5)
    of_task = np.repeat(rng.normal(0.3, 0.5, 6), 2)
    b_noise = np.exp(rng.normal(5, 2, 12))
    b_crit = b_noise * np.exp(of_task + 0.02 * rng.normal(size=12))
    ends = {"b_lower": b_crit * 0.98, "b_upper": b_crit * 1.02, "lower": b_noise, "upper": b_noise}
    pairs = pd.DataFrame(
        {"noise_scale": b_noise, "b_crit": b_crit, "target": [2.0, 2.1] * 6, **ends}
    ).assign(task=np.repeat([*"abcdef"], 2))
    found = agreement(pairs, level=0.9)
    logs = np.log(b_crit / b_noise).reshape(6, 2).mean(axis=1)
    assert math.log(found.ratio.value) == pytest.approx(logs.mean(), abs=1e-3)
    expected = stats.ttest_1samp(logs, 0).confidence_interval(0.9)
    assert np.log(found.ratio.ci) == pytest.approx(expected, abs=2e-3)
    alone = agreement(pairs.assign(task="a"))
    assert alone.ratio.ci == (None, None)
    assert math.log(alone.ratio.value) == pytest.approx(logs.mean())
    assert (found.n_pairs, found.n_within) == (12, 12)


def test_a_precise_pair_counts_more_where_pairs_agree():
    """Pairs within their errors have the weights 1 / variance."""
    logs, se = np.array([0.1, 0.5, 0.2, -0.3]), np.array([0.1, 1.0, 1.0, 1.0])
    half = stats.norm.ppf(0.975) * se
    ends = {"b_lower": np.exp(logs - half), "b_upper": np.exp(logs + half)}
    found = agreement(pd.DataFrame({"noise_scale": [1.0] * 4, "b_crit": np.exp(logs), **ends}))
    expected = np.average(logs, weights=se**-2)
    assert math.log(found.ratio.value) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("end", [math.nan, math.inf])
def test_a_pair_with_an_open_interval_is_not_known_best(end):
    logs, half = np.array([0.1, 0.12, 0.08, 2.0]), np.array([0.1, 0.2, 0.1, 0.1])
    ends = {"b_lower": np.exp(logs - half), "b_upper": np.exp(logs + half)}
    pairs = pd.DataFrame({"noise_scale": [1.0] * 4, "b_crit": np.exp(logs), **ends})
    pairs.loc[3, "b_upper"] = end
    as_worst = pairs.assign(b_lower=pairs["b_crit"] / 1.2, b_upper=pairs["b_crit"] * 1.2)
    as_worst.loc[:2] = pairs.loc[:2]
    as_worst.loc[3, ["b_lower", "b_upper"]] = np.exp(2.0 + np.array([-0.2, 0.2]))
    assert agreement(pairs).ratio.value == pytest.approx(agreement(as_worst).ratio.value)
    zero = pairs.assign(b_lower=[*pairs["b_lower"][:3], 0.0])
    assert agreement(zero).ratio == agreement(pairs).ratio
