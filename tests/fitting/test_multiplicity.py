from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extrap.fitting import holm


@given(p_values=st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_adjusts_as_statsmodels_does(p_values: list[float]) -> None:
    from statsmodels.stats.multitest import multipletests

    theirs = multipletests(p_values, method="holm")[1]
    assert holm(p_values) == pytest.approx(theirs.tolist())


def test_families_share_the_level_and_no_test_needs_none() -> None:
    assert holm([0.01, 0.2, 0.9], 2) == pytest.approx([0.06, 0.8, 1.0])
    assert holm([]) == []
