from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from extrap.batching import agreement
from extrap.errors import DataError


def pairs(noise: list[float], b_crit: list[float]) -> pd.DataFrame:
    return pd.DataFrame({"noise_scale": noise, "b_crit": b_crit})


def test_proportional_pairs_agree_but_for_their_ratio() -> None:
    found = agreement(pairs([10.0, 100.0, 1e4], [30.0, 300.0, 3e4]))
    assert found is not None
    assert (found.r_squared, found.slope, found.ratio) == pytest.approx((1.0, 1.0, 3.0))
    assert found.largest_factor == pytest.approx(3.0)
    assert found.decades == pytest.approx(3.0)
    assert found.log_sd == pytest.approx(0.0, abs=1e-12)


def test_worst_pair_sets_the_factor_and_the_share() -> None:
    found = agreement(pairs([10.0, 100.0, 1000.0, 1000.0], [10.0, 100.0, 1000.0, 50.0]))
    assert found is not None
    assert found.largest_factor == pytest.approx(20.0)
    assert found.share_within == 0.75
    x, y = np.log([10, 100, 1000, 1000]), np.log([10, 100, 1000, 50])
    assert found.r_squared == pytest.approx(np.corrcoef(x, y)[0, 1] ** 2)
    assert found.slope == pytest.approx(np.polyfit(x, y, 1)[0])


def test_pairs_without_an_estimate_are_counted_and_left_out() -> None:
    table = pairs([10.0, 100.0, 1000.0, math.nan, 5.0], [10.0, 100.0, 900.0, 7.0, math.nan])
    found = agreement(table)
    assert found is not None
    assert (found.n_pairs, found.n_left_out) == (3, 2)
    assert agreement(table.iloc[1:]) is None
    assert agreement(pd.DataFrame()) is None


def test_units_of_a_batch_do_not_matter() -> None:
    table = pairs([10.0, 90.0, 1000.0], [12.0, 50.0, 3000.0])
    one, other = agreement(table), agreement(1024 * table)
    assert one is not None
    assert other is not None
    assert other.r_squared == pytest.approx(one.r_squared)
    assert other.ratio == pytest.approx(one.ratio)


def test_constant_noise_has_no_correlation() -> None:
    found = agreement(pairs([10.0, 10.0, 10.0], [10.0, 20.0, 40.0]))
    assert found is not None
    assert (found.r_squared, found.slope) == (None, None)
    assert found.largest_factor == pytest.approx(4.0)


def test_unusable_arguments_say_what_is_wrong() -> None:
    with pytest.raises(DataError, match=r"\['b_crit'\] are missing"):
        agreement(pd.DataFrame({"noise_scale": [1.0]}))
    with pytest.raises(ValueError, match="above 1, got 1"):
        agreement(pairs([1.0], [1.0]), factor=1.0)
