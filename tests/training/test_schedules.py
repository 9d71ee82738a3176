from __future__ import annotations

import pytest

from extrap.records import Recipe
from extrap.training.schedules import multiplier


def test_the_rate_climbs_stays_and_falls() -> None:
    recipe = Recipe(steps=100, warmup=0.1, decay=0.5)
    values = [multiplier(recipe, step) for step in range(100)]
    assert values[:3] == pytest.approx([0.1, 0.2, 0.3])
    assert values[9:51] == [1.0] * 42
    assert values[75] == pytest.approx(0.5)
    assert values[99] == pytest.approx(1 / 50)


def test_without_warmup_and_decay_the_rate_is_constant() -> None:
    recipe = Recipe(steps=10, warmup=0, decay=0)
    assert {multiplier(recipe, step) for step in range(10)} == {1.0}
