from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from extrap.fitting import ExcessCurve, LossPrediction, doubt_loss, doubt_tuned
from extrap.fitting.spread import OptimumSpread, predict_optimum
from tests.checking.byhand import LARGE, by_hand, of_rate

Z90 = 1.6448536270
"""Half of the normal 90 % interval."""
T5 = 2.0150483726
"""The same of Student's t of 5 degrees of freedom."""


def predicted(log_loss: float, half: float) -> LossPrediction:
    """Known exactly but for a normal error; half of its 90 % interval is given."""
    return LossPrediction(log_loss=log_loss, curve=(((half / Z90) ** 2, 1e9),), run=((0.0, 1e9),))


@pytest.mark.parametrize(
    ("change", "half", "is_refused"),
    [
        (0.0, 0.0499, False),
        (0.0, 0.0501, True),
        (-0.02, 0.0501, True),
        (-0.2, 0.199, False),
        (-0.2, 0.201, True),
        (0.2, 0.199, False),
        (0.2, 0.201, True),
        (-2.0, 1.99, False),
        (-1.0, 400.0, True),
    ],
)
def test_loss_is_refused_where_its_interval_is_wider_than_its_change_and_5_percent(
    change: float, half: float, is_refused: bool
) -> None:
    doubt = doubt_loss(predicted(1.0 + change, half), predicted(1.0, 10.0))
    assert (doubt is not None) == is_refused
    assert doubt is None or doubt.is_refused


@pytest.mark.parametrize(("half", "is_refused"), [(0.29, False), (0.31, True)])
def test_an_interval_of_three_times_the_noise_is_imprecise(half: float, is_refused: bool) -> None:
    """Noise with a 90 % interval of ± .1, a law that makes half of the whole interval `half`."""
    noise, curve = (0.1 / Z90) ** 2, (half / Z90) ** 2 - (0.1 / Z90) ** 2
    wide = LossPrediction(log_loss=1.0, curve=((curve, 1e9),), run=((noise, 1e9),))
    for of_noise, refused in ((3.0, is_refused), (0.0, True)):
        doubt = doubt_loss(wide, predicted(1.0, 10.0), of_noise=of_noise)
        assert doubt is not None
        assert doubt.is_refused == refused


@pytest.mark.parametrize(("log_sd", "is_refused"), [(0.0, True), (0.015, True), (0.1, False)])
def test_a_regret_of_three_times_the_noise_is_imprecise(log_sd: float, is_refused: bool) -> None:
    """A regret of E[u²] k / 2 = .083, less in the tails, beside 4.93 · .015 = .074 of noise."""
    (doubt,) = doubt_tuned(rate(1.0, parabola(0.1)), log_sd=log_sd).values()
    assert doubt.is_refused == is_refused


def rate(octaves: float, excess_curve: ExcessCurve | None) -> OptimumSpread:
    """A law of which one optimum at width 1024 lies this far off, one standard deviation."""
    nats = octaves * math.log(2)
    law = of_rate(scatter=math.sqrt(nats**2 - 0.1**2))
    return predict_optimum({"lr": law}, LARGE, excess_curve)


def parabola(curvature: float) -> ExcessCurve:
    excess_curve = by_hand().excess_curve
    assert excess_curve is not None
    return replace(excess_curve, curvature=((curvature,),))


@pytest.mark.parametrize("octaves", [0.3, 1.0, 1.9])
def test_values_are_refused_where_they_cost_3_percent_on_average(octaves: float) -> None:
    """The mean of k/2 u², no more than 1, over u = s t of 5 degrees of freedom, by 4e5 draws."""
    draws = octaves * stats.t.ppf((np.arange(400_000) + 0.5) / 400_000, 5)
    for regret in (0.027, 0.033):
        low, high = 1e-6, 10.0
        for _ in range(60):
            k = math.sqrt(low * high)
            mean = float(np.minimum(k / 2 * draws**2, 1.0).mean())
            low, high = (k, high) if mean < regret else (low, k)
        found = doubt_tuned(rate(octaves, parabola(k)))
        assert list(found) == (["lr"] if regret > 0.03 else [])


@pytest.mark.parametrize("excess_curve", [None, parabola(1e-6)])
def test_value_is_refused_where_its_interval_spans_8_octaves(
    excess_curve: ExcessCurve | None,
) -> None:
    for width, refused in ((7.95, []), (8.05, ["lr"])):
        found = doubt_tuned(rate(width / 2 / T5, excess_curve), log_sd=1.0)
        assert [name for name, doubt in found.items() if doubt.is_refused] == refused


def test_no_reason_states_a_width_that_says_nothing() -> None:
    doubt = doubt_loss(predicted(1.0, 500.0), predicted(1.0, 0.1))
    assert doubt is not None
    assert "a factor of 10 or more" in doubt.why
    assert "e+" not in doubt.why


def test_changes_beyond_every_number_are_told() -> None:
    """A law that falls by a factor of e^2000 has no percentage."""
    wide = LossPrediction(log_loss=-2000.0, curve=((9e6, 5.0),), run=())
    last = LossPrediction(log_loss=0.0, curve=(), run=())
    doubt = doubt_loss(wide, last)
    assert doubt is not None
    assert "900 % or more predicted" in doubt.why
