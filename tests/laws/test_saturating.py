from __future__ import annotations

import numpy as np
import pytest

from extrap.laws import M4


def test_m4_solves_its_equation_over_its_whole_range() -> None:
    rng = np.random.default_rng(0)
    e, c = rng.uniform(0, 0.999, 500), rng.uniform(0.005, 10, 500)
    a, b = np.exp(rng.uniform(np.log(0.05), np.log(20), 500)), np.exp(rng.uniform(-13, 13, 500))
    z = np.exp(np.linspace(-8, 8, 15))[:, None]
    part = M4().basis(np.column_stack([e, a, b, c]), z)[..., 0]
    assert (part >= e[:, None]).all()
    assert (part <= 1).all()
    inside = (part - e[:, None] > 1e-3) & (1 - part > 1e-3)
    assert inside.mean() > 0.05
    with np.errstate(divide="ignore"):
        left = np.log(part - e[:, None]) - a[:, None] * np.log1p(-part)
    right = np.log(b)[:, None] - c[:, None] * np.log(z[:, 0])
    assert left[inside] == pytest.approx(right[inside], abs=1e-10)
