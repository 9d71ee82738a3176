from __future__ import annotations

import gc

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from extrap.fitting import holm


def test_holm_adjusts_as_statsmodels_does(monkeypatch) -> None:
    """One to eight p-values, ties and values of 0 and 1 among them."""
    monkeypatch.setattr(gc, "collect", int)  # of statsmodels, in each of its calls
    rng = np.random.default_rng(0)
    for n in range(1, 9):
        for p in (rng.uniform(0, 0.2, n), rng.uniform(0, 1, n), rng.choice([0, 0.01, 0.3, 1], n)):
            assert holm(p) == pytest.approx(multipletests(p, method="holm")[1].tolist())


def test_families_share_the_level_and_no_test_needs_none() -> None:
    assert holm([0.01, 0.2, 0.9], 2) == pytest.approx([0.06, 0.8, 1.0])
    assert holm([]) == []
