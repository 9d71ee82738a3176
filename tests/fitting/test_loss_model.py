from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extrap.fitting import DISCREPANCY, LossModel, Noise, fit_loss_model

X = 2.0 ** np.arange(9)
UNKNOWN = Noise(own_sd=None, own_dof=0, size_sd=None, source="none")


def model(loss: np.ndarray, *, se: float | None = None, **options: object) -> LossModel:
    known = {} if se is None else {"loss_se_dof": 2 * len(loss)}
    errors = None if se is None else se * loss
    return fit_loss_model({"x": X[: len(loss)]}, loss, loss_se=errors, **known, **options)  # type: ignore[arg-type]


def floor_law(noise: float, seed: int = 0) -> np.ndarray:
    return (1.5 + X**-0.4) * np.exp(noise * np.random.default_rng(seed).normal(size=len(X)))


def bent(noise: float) -> np.ndarray:
    """A power that breaks in the middle of the sweep."""
    rng = np.random.default_rng(1)
    return 3 * X**-0.05 * (1 + (X / X[4]) ** 8) ** -0.04 * np.exp(noise * rng.normal(size=len(X)))


def width(found: LossModel, x: float, band: str, noise: Noise = UNKNOWN) -> float:
    lower, upper = found.predict({"x": x}, noise=noise, band=band).interval(0.9, new_run=True)
    assert lower is not None
    assert upper is not None
    return math.log(upper / lower)


def test_laws_alone_forecast_where_they_fit_and_noise_is_known() -> None:
    found = model(floor_law(0.002), se=0.002)
    assert found.local is not None
    assert found.local_weight < 0.2
    assert found.discrepancy == DISCREPANCY


def test_local_law_takes_over_where_no_law_fits() -> None:
    found = model(bent(0.001), se=0.001)
    assert found.local_weight == 1.0
    truth = 3 * 1024**-0.05 * (1 + (1024 / X[4]) ** 8) ** -0.04
    default, family = (
        found.predict({"x": 1024.0}, noise=UNKNOWN, band=band) for band in ("default", "family")
    )
    assert abs(default.log_loss - math.log(truth)) < 0.3 * abs(family.log_loss - math.log(truth))


def test_among_the_fitted_sizes_the_local_law_speaks_of_the_largest_only() -> None:
    found = replace(model(floor_law(0.002), se=0.002), local_weight=0.5)
    assert found.local is not None
    for x, share in ((X[-1], 0.5), (X[-2], 0.25), (X[0], 0.5 / X[-1]), (2 * X[-1], 0.5)):
        default, family = (
            found.predict({"x": float(x)}, noise=UNKNOWN, band=b).log_loss
            for b in ("default", "family")
        )
        near = found.local.predict_log(np.array([x]))[0][0]
        assert default == pytest.approx(family + share * (near - family), abs=1e-12)


def test_default_band_is_wider_than_the_family_and_grows_with_the_predicted_change() -> None:
    found = replace(model(floor_law(0.002), se=0.002), local_weight=0.0)
    ratios = [
        width(found, x, "default") / width(found, x, "family") for x in (256.0, 1024.0, 4096.0)
    ]
    assert ratios[0] == pytest.approx(1, abs=0.05)
    assert ratios[1] > 1.05
    assert ratios[2] > 1.05


def test_disagreement_of_the_parts_is_at_least_the_structural_discrepancy() -> None:
    found = replace(model(floor_law(0.002), se=0.002), local_weight=0.0)
    at, last = (found.predict({"x": x}, noise=UNKNOWN, band="default") for x in (4096.0, X[-1]))
    between = max(v for v, dof in at.curve if dof == math.inf)
    assert between >= (DISCREPANCY * (at.log_loss - last.log_loss)) ** 2 * (1 - 1e-9)
    harsher = replace(found, discrepancy=0.5)
    assert width(harsher, 4096.0, "default") > 1.5 * width(found, 4096.0, "default")


def test_small_share_of_the_local_law_does_not_lend_all_its_doubt() -> None:
    found = replace(model(floor_law(0.003)), discrepancy=0.0)
    assert found.local is not None
    for share in (0.1, 0.4):
        at = replace(found, local_weight=share).predict(
            {"x": 1024.0}, noise=UNKNOWN, band="default"
        )
        assert any(dof == pytest.approx(found.local.dof / share) for _, dof in at.curve)
    little, none = (width(replace(found, local_weight=w), 1024.0, "default") for w in (0.2, 0.0))
    assert little < 2 * none


def test_pinned_parameter_leaves_the_local_law_out() -> None:
    found = model(floor_law(0.002), fix={"E": 1.5})
    assert found.local is None
    assert [fit.parameters["E"] for fit, _ in found.laws] == [1.5]
    assert width(found, 4096.0, "family") < width(model(floor_law(0.002)), 4096.0, "family")


def test_noise_of_a_new_run_widens_the_band() -> None:
    found = model(floor_law(0.002), se=0.002)
    loud = Noise(own_sd=0.05, own_dof=30, size_sd=0.05)
    assert width(found, 512.0, "default", loud) > 0.16 > width(found, 512.0, "default")


@given(size=st.floats(1e-12, 1e24), loss=st.floats(1e-9, 1e9))
def test_units_do_not_matter(size: float, loss: float) -> None:
    plain = fit_loss_model({"x": X}, floor_law(0.003), loss_se=None)
    scaled = fit_loss_model({"x": size * X}, loss * floor_law(0.003), loss_se=None)
    here = plain.predict({"x": 2048.0}, noise=UNKNOWN, band="default")
    there = scaled.predict({"x": size * 2048.0}, noise=UNKNOWN, band="default")
    assert there.log_loss - math.log(loss) == pytest.approx(here.log_loss, abs=1e-4)
    assert there.log_sd == pytest.approx(here.log_sd, rel=1e-2)
