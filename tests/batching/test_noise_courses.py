import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

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


def courses(exponent, *, tilt=0.0):
    """Noise scales of four sizes over loss and step; `tilt` is what a size does to its own."""
    rng = np.random.default_rng(1)
    parts = []
    for i, width in enumerate((16, 32, 64, 128)):
        step = np.geomspace(20, 1000, 10)
        loss = 6 * step**-0.15 * width**-0.05
        noise = 1e3 * loss**-3 * width**exponent * np.exp(0.1 * rng.standard_normal(10))
        noise *= np.exp(tilt * (-1) ** i * np.log(step / 150))
        part = {"width": width, "step": step, "loss": loss, "noise_scale": noise}
        parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def jackknifed(design, y, sizes):
    left = [sm.OLS(y[sizes != n], design[sizes != n]).fit().params for n in np.unique(sizes)]
    return 3 / 4 * ((np.array(left) - np.mean(left, axis=0)) ** 2).sum(axis=0)


@pytest.mark.parametrize(("exponent", "tilt"), [(0.0, 0.0), (0.5, 0.0), (0.5, 0.3)])
def test_collapse_is_least_squares_with_the_larger_of_two_errors(exponent, tilt):
    """statsmodels, pooled and with one size left out at a time; Student's t on two sizes."""
    table = courses(exponent, tilt=tilt)
    found = collapse(table, size="width")
    late = table[table["step"] > 100]  # a tenth of 1000
    y, x = np.log(late["noise_scale"].to_numpy()), np.log(late["loss"].to_numpy())
    x, s = x - x.mean(), np.log(late["step"].to_numpy())
    by_loss = sm.add_constant(np.column_stack([x, x**2]))
    design = np.column_stack([by_loss, np.log(late["width"])])
    full = sm.OLS(y, design).fit()
    variance = np.maximum(full.bse**2, jackknifed(design, y, late["width"].to_numpy()))
    for measure, place in ((found.size_exponent, 3), (found.loss_exponent, 1)):
        half = stats.t.ppf(0.975, 2) * math.sqrt(variance[place])
        value = full.params[place]
        assert measure.value == pytest.approx(value, abs=1e-9)
        assert tuple(measure.ci) == pytest.approx((value - half, value + half), abs=1e-8)
    assert found.log_sd_by_size == pytest.approx(math.sqrt(full.scale))
    assert found.log_sd == pytest.approx(math.sqrt(sm.OLS(y, by_loss).fit().scale))
    by_step = sm.OLS(y, sm.add_constant(np.column_stack([s, s**2]))).fit()
    assert found.log_sd_of_step == pytest.approx(math.sqrt(by_step.scale))
    assert (found.n_points, found.n_sizes) == (len(late), 4)
    if not tilt:
        assert (0 in found.size_exponent.ci) == (exponent == 0)
    assert collapse(table[table["width"] < 64], size="width") is None


@pytest.mark.parametrize("tilt", [0.0, 0.1])
def test_exponent_of_the_step_is_least_squares_within_sizes(tilt):
    """statsmodels with a level for each size; the larger of its error and a jackknife's."""
    table = courses(0.5, tilt=tilt)
    found = step_exponent(table, size="width")
    sizes = table["width"].to_numpy()
    levels = (sizes[:, None] == np.unique(sizes)).astype(float)
    x, y = np.log(table["step"].to_numpy()), np.log(table["noise_scale"].to_numpy())
    full = sm.OLS(y, np.column_stack([x, levels])).fit()
    x, y = (v - levels @ (levels.T @ v) / 10 for v in (x, y))
    own = jackknifed(x[:, None], y, sizes)[0]
    assert (own > full.bse[0] ** 2) == (tilt > 0)
    variance = max(full.bse[0] ** 2, own)
    half = stats.t.ppf(0.975, 3) * math.sqrt(variance)
    assert found.value == pytest.approx(full.params[0])
    ends = (full.params[0] - half, full.params[0] + half)
    assert tuple(found.ci) == pytest.approx(ends)
    small = step_exponent(table.assign(noise_scale=table["noise_scale"] * 1e-6), size="width")
    assert small.value == pytest.approx(found.value)
    two = step_exponent(table[table["width"] < 64], size="width")
    assert two.value is not None
    assert two.ci == (None, None)
    assert step_exponent(table.iloc[:2], size="width").value is None


def test_seeds_are_pooled_step_by_step():
    curves = pd.concat([gradients(n=6, seed=s).assign(run=s) for s in (0, 1)])
    pooled = pool_gradients(runs_with(curves), [0, 1])
    assert list(pooled["step"]) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    assert set(pool_gradients(runs_with(curves), [1])["run"]) == {1}
    with pytest.raises(DataError, match="noise_every"):
        pool_gradients(runs_with(gradients(n=4)[["run", "step", "loss"]]), [0])
