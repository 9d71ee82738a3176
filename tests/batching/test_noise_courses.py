from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from extrap.batching import (
    collapse,
    growth,
    noise_over_training,
    noise_until,
    pool_gradients,
    step_exponent,
)
from extrap.errors import DataError
from extrap.records import Runs


def gradients(
    scale: float = 500.0, *, n: int = 200, power: float = 1.0, batch: int = 256, seed: int = 0
) -> pd.DataFrame:
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


def runs_with(curves: pd.DataFrame) -> Runs:
    frame = pd.DataFrame({"width": [8.0, 8.0], "lr": [0.1, 0.1], "loss": [1.0, 1.1]})
    return Runs.from_frame(frame, sizes=["width"], tuned=["lr"], curves=curves)


def test_mean_up_to_a_target_is_that_of_the_true_course() -> None:
    found = noise_until(gradients(), step=200, batch_size=1e9)
    assert found is not None
    assert found.noise_scale == pytest.approx(250, rel=0.15)  # ∫ s ds of a line
    assert found.ci.lower is not None
    assert found.ci.upper is not None
    assert found.ci.lower < 250 < found.ci.upper


def test_a_target_reached_early_does_not_see_what_came_later() -> None:
    early = noise_until(gradients(), step=20, batch_size=1e9)
    assert early is not None
    assert early.noise_scale is not None
    assert early.noise_scale < 60
    beyond = noise_until(gradients(), step=1e6, batch_size=1e9)
    assert beyond == noise_until(gradients(), step=200, batch_size=1e9)


def test_windows_without_an_upper_limit_are_joined() -> None:
    lost = gradients()
    lost.loc[:3, "grad_sq_norm"] = [-1.0, 1.0, -2.0, 2.0]  # nothing but noise at the start
    found = noise_until(lost, step=200, batch_size=1e9)
    assert found is not None
    assert found.noise_scale is not None
    noise = gradients()
    noise["grad_sq_norm"] = np.where(np.arange(200) % 2, 1.0, -1.01)
    hopeless = noise_until(noise, step=200, batch_size=1e9)
    assert hopeless is not None
    assert hopeless.noise_scale is None
    assert hopeless.ci.upper is None


def test_nothing_measured_has_no_mean() -> None:
    assert noise_until(gradients().iloc[:0], step=10, batch_size=32) is None


def test_course_grows_as_the_truth_does() -> None:
    course = noise_over_training(gradients())
    assert list(course.columns) == ["step", "loss", "noise_scale", "lower", "upper"]
    truth = 2.5 * course["step"]
    assert ((course["lower"] < truth) & (truth < course["upper"])).mean() >= 0.8
    grown = growth(course)
    assert truth.iloc[-1] / truth.iloc[0] in grown.ci
    assert grown.ci.lower is not None
    assert grown.ci.lower > 1


def test_growth_of_a_single_window_is_unknown() -> None:
    course = noise_over_training(gradients(n=4))
    assert growth(course).value is None
    open_ended = pd.DataFrame(
        {"noise_scale": [10.0, 50.0], "lower": [5.0, 25.0], "upper": [20.0, math.nan]}
    )
    found = growth(open_ended)
    assert found.value == pytest.approx(5)
    assert found.ci.lower == pytest.approx(5 * math.exp(-math.hypot(math.log(2), math.log(2))))
    assert found.ci.upper is None


@pytest.mark.parametrize("exponent", [0.0, 0.5])
def test_collapse_tells_curves_of_the_loss_alone_from_those_of_the_size(exponent: float) -> None:
    rng = np.random.default_rng(1)
    parts = []
    for width in (16, 32, 64, 128):
        step = np.geomspace(20, 1000, 10)
        loss = 6 * step**-0.15 * width**-0.05
        noise = 1e3 * loss**-3 * width**exponent * np.exp(0.1 * rng.standard_normal(10))
        parts.append(
            pd.DataFrame({"width": width, "step": step, "loss": loss, "noise_scale": noise})
        )
    found = collapse(pd.concat(parts), size="width")
    assert found is not None
    assert found.size_exponent.ci.lower < exponent < found.size_exponent.ci.upper
    assert (0 in found.size_exponent.ci) == (exponent == 0)
    assert found.loss_exponent.value == pytest.approx(-3, abs=0.6)
    assert (found.log_sd < 1.3 * found.log_sd_by_size) == (exponent == 0)


def test_two_sizes_show_no_collapse() -> None:
    course = noise_over_training(gradients())
    both = pd.concat([course.assign(width=8), course.assign(width=16)])
    assert collapse(both, size="width") is None


def test_seeds_are_pooled_step_by_step() -> None:
    curves = pd.concat([gradients(n=6, seed=s).assign(run=s) for s in (0, 1)])
    pooled = pool_gradients(runs_with(curves), [0, 1])
    assert list(pooled["step"]) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    assert set(pool_gradients(runs_with(curves), [1])["run"]) == {1}


def test_runs_without_moments_say_how_to_measure_them() -> None:
    with pytest.raises(DataError, match="noise_every"):
        pool_gradients(runs_with(gradients(n=4)[["run", "step", "loss"]]), [0])


def test_noise_grows_as_a_power_of_the_step_whatever_the_level_of_a_size() -> None:
    courses = pd.concat(
        [
            noise_over_training(gradients(100.0 * (1 + i), power=0.7, seed=i)).assign(
                width=8 * 2**i
            )
            for i in range(4)
        ]
    )
    found = step_exponent(courses, size="width")
    assert found.value == pytest.approx(0.7, abs=0.1)
    assert 0.7 in found.ci
    two = step_exponent(courses[courses["width"] < 20], size="width")
    assert two.ci == (None, None)
    assert step_exponent(courses.iloc[:2], size="width").value is None


def test_first_steps_are_left_out_where_gradients_shrink_too_fast() -> None:
    steep = gradients(n=60)
    steep.loc[:5, "grad_sq_norm"] = [4000.0, 900.0, 100.0, 10.0, 0.1, -5.0]
    course = noise_over_training(steep)
    assert course["noise_scale"].notna().all()
    assert course["step"].iloc[0] > 6
