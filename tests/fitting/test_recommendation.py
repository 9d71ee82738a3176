from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from extrap.fitting import DivergenceModel, ExcessCurve, recommend
from extrap.fitting.spread import OptimumSpread, predict_optimum
from extrap.records import Fit

SIZE = {"width": 1024.0}


def law(scatter: float = 0.3, dof: int = 6) -> Fit:
    return Fit(
        law="optimum_power",
        names=("a", "b"),
        values=(-5.0, -0.5),
        covariance=((0.01, 0.0), (0.0, 0.002)),
        scatter=scatter,
        dof=dof,
        scale_dof=dof,
        chi2=1.0,
        columns=("width",),
        reference=(64.0,),
        fitted_range=((16.0, 256.0),),
        n_points=dof + 2,
    )


def spread(curve: ExcessCurve | None = None, *, scatter: float = 0.3) -> OptimumSpread:
    return predict_optimum({"lr": law(scatter)}, SIZE, curve)


def excess_curve(*rise: tuple[float, float], curvature: float = 0.03) -> ExcessCurve:
    d = len(rise)
    return ExcessCurve(
        tuned=("lr", "batch")[:d],
        columns=("width",),
        reference=(64.0,),
        curvature=tuple(tuple(curvature * (i == j) for j in range(d)) for i in range(d)),
        trend=(0.0,),
        rise=rise,
        relative_sd=0.1,
    )


def cliff(at_octaves: float, sharpness: float = 6.0) -> DivergenceModel:
    """Divergence that sets in so many octaves above the optimum at `SIZE`."""
    optimum = spread().centre[0]
    return DivergenceModel(
        columns=("width",),
        tuned=("lr",),
        centre=(np.log(1024.0), (optimum + at_octaves) * np.log(2)),
        scale=(1.0, 1.0),
        weights=(0.0, sharpness),
        intercept=0.0,
        n_runs=100,
        n_diverged=10,
    )


def test_steeper_side_is_avoided_the_more_the_less_is_known() -> None:
    octaves = [
        recommend(spread(excess_curve((0.0, 1.2)), scatter=scatter)).octaves["lr"]
        for scatter in (0.01, 0.3, 0.6)
    ]
    assert octaves[0] > octaves[1] > octaves[2]
    assert octaves[2] < -0.2
    high = recommend(spread(excess_curve((1.2, 0.0)), scatter=0.6)).octaves["lr"]
    assert high == pytest.approx(-octaves[2], abs=0.01)


def test_expected_excess_is_that_of_direct_integration() -> None:
    shape = excess_curve((0.2, 0.9))
    there = spread(shape)
    density = stats.t(there.dof[0], scale=there.sd[0])

    def integrand(off: float) -> float:
        return float(min(shape.excess([-off], SIZE), 1.0) * density.pdf(off))

    expected = integrate.quad(integrand, -12, 12, limit=400, points=[0.0])[0]
    assert recommend(there).at_optimum == pytest.approx(expected, rel=5e-3)


def test_spread_is_the_prediction_of_one_new_optimum() -> None:
    there, log_ratio = spread(), np.log(16.0)
    assert there.centre[0] == pytest.approx((-5.0 - 0.5 * log_ratio) / np.log(2))
    assert there.sd[0] * np.log(2) == pytest.approx(np.sqrt(0.01 + 0.002 * log_ratio**2 + 0.3**2))
    offsets, weights = there.nodes
    assert weights.sum() == pytest.approx(1)
    # the variance of Student t with 6 degrees of freedom is 6 / 4
    assert weights @ offsets[:, 0] ** 2 == pytest.approx(1.5 * there.sd[0] ** 2, rel=5e-3)


def test_divergence_pushes_the_recommendation_down() -> None:
    flat = spread(excess_curve((0.3, 0.3)))
    free = recommend(flat)
    near, far = (recommend(flat, divergence=cliff(octaves)) for octaves in (0.5, 6.0))
    assert near.octaves["lr"] < -0.3
    assert near.chance_of_divergence == pytest.approx(cliff(0.5).chance(SIZE, near.tuned))
    assert far.octaves["lr"] == pytest.approx(free.octaves["lr"], abs=0.01)
    assert near.expected_excess < near.at_optimum


def test_laws_of_other_values_are_refused() -> None:
    curve = excess_curve((0.3, 0.3))
    with pytest.raises(ValueError, match="got batch and lr"):
        recommend(predict_optimum({"batch": law()}, SIZE, curve))


def test_recommendation_stays_within_the_interval_of_the_optimum() -> None:
    """A blunt model of divergence, as a single diverged run gives, must not move it far away."""
    blunt = cliff(1.0, sharpness=0.8)
    there = spread(excess_curve((0.0, 0.0)), scatter=0.1)
    found = recommend(there, divergence=blunt)
    reach = stats.t.ppf(0.975, there.dof[0]) * there.sd[0]
    assert -reach <= found.octaves["lr"] < -0.9 * reach
