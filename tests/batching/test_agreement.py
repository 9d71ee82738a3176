import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap.batching import agreement
from extrap.errors import DataError


def pairs(noise, b_crit):
    return pd.DataFrame({"noise_scale": noise, "b_crit": b_crit})


def test_proportional_pairs_agree_but_for_their_ratio():
    found = agreement(pairs([10.0, 100.0, 1e4], [30.0, 300.0, 3e4]))
    numbers = (found.r_squared, found.slope, found.ratio, found.largest_factor, found.decades)
    assert numbers == pytest.approx((1.0, 1.0, 3.0, 3.0, 3.0))
    assert found.log_sd == pytest.approx(0.0, abs=1e-12)


def test_numbers_are_those_of_a_regression_of_logarithms():
    """Of ten pairs one differs by 20 and one by exactly the factor, which is no agreement."""
    noise = np.array([10.0, 100.0, 1000.0, 1000.0, 1.0])
    found = agreement(pairs([*noise], [10.0, 100.0, 1000.0, 50.0, 10.0]), factor=10.0)
    assert (found.largest_factor, found.share_within) == pytest.approx((20.0, 0.6))
    line = stats.linregress(np.log(noise), np.log([10, 100, 1000, 50, 10]))
    assert found.r_squared == pytest.approx(line.rvalue**2)
    assert found.slope == pytest.approx(line.slope)
    off = [0, 0, 0, math.log(0.05), math.log(10)]
    assert found.ratio == pytest.approx(0.5 ** (1 / 5))
    assert found.log_sd == pytest.approx(np.std(off, ddof=1))
    other = agreement(pairs([*(1024 * noise)], [1024 * b for b in (10, 100, 1000, 50, 10)]))
    assert (other.r_squared, other.ratio) == pytest.approx((found.r_squared, found.ratio))


def test_pairs_without_an_estimate_are_counted_and_left_out():
    table = pairs([10.0, 100.0, 1000.0, math.nan, 5.0], [10.0, 100.0, 900.0, 7.0, math.nan])
    found = agreement(table)
    assert (found.n_pairs, found.n_left_out) == (3, 2)
    assert agreement(table.iloc[1:]) is None
    assert agreement(pd.DataFrame()) is None
    constant = agreement(pairs([10.0, 10.0, 10.0], [10.0, 20.0, 40.0]))
    assert (constant.r_squared, constant.slope) == (None, None)
    assert constant.largest_factor == pytest.approx(4.0)


def test_unusable_arguments_are_refused():
    with pytest.raises(DataError, match=r"\['b_crit'\]"):
        agreement(pd.DataFrame({"noise_scale": [1.0]}))
    with pytest.raises(ValueError, match="above 1, got 1"):
        agreement(pairs([1.0], [1.0]), factor=1.0)
