from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extrap.records import Interval


@given(st.floats(-50, 50), st.floats(0, 50))
def test_interval_around_a_log_holds_its_centre(centre: float, half: float) -> None:
    interval = Interval.around_log(centre, half)
    assert math.exp(centre) in interval
    assert interval.lower == pytest.approx(math.exp(centre - half))


def test_side_beyond_the_largest_float_is_open() -> None:
    assert Interval.around_log(0.0, 1e6) == Interval(0.0, None)
    assert Interval.around_log(800.0, 1.0).upper is None


def test_open_sides_hold_everything_and_text_is_never_inside() -> None:
    assert 1e300 in Interval(0.0, None)
    assert -1e300 in Interval(None, 0.0)
    assert 2.0 not in Interval(0.0, 1.0)
    assert "1" not in Interval(None, None)
