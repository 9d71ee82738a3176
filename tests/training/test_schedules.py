from __future__ import annotations

import math

import pytest

from extrap.records import Recipe
from extrap.training.schedules import multiplier


def values(**recipe: object) -> list[float]:
    made = Recipe(steps=100, **recipe)
    return [multiplier(made, step) for step in range(100)]


def test_wsd_climbs_stays_and_falls() -> None:
    found = values(schedule="wsd", warmup=0.1, decay=0.5)
    assert found[:3] == pytest.approx([0.1, 0.2, 0.3])
    assert found[9:51] == [1.0] * 42
    assert found[75] == pytest.approx(0.5)
    assert found[99] == pytest.approx(1 / 50)


def test_linear_falls_from_the_end_of_the_warm_up() -> None:
    found = values(schedule="linear", warmup=0.2)
    assert found[19] == 1.0
    assert found[20] == 1.0
    assert found[60] == pytest.approx(0.5)
    assert found[99] == pytest.approx(1 / 80)


def test_cosine_is_half_way_down_in_the_middle() -> None:
    found = values(schedule="cosine", warmup=0.2)
    assert found[9] == pytest.approx(0.5)
    assert found[20] == 1.0
    assert found[60] == pytest.approx(0.5)
    assert found[40] == pytest.approx(0.5 * (1 + math.cos(math.pi / 4)))


def test_constant_stays_after_its_warm_up() -> None:
    assert values(schedule="constant", warmup=0.1)[10:] == [1.0] * 90
    assert set(values(schedule="constant", warmup=0.0)) == {1.0}


def test_steps_drop_at_fractions_of_the_examples() -> None:
    found = values(schedule="steps", warmup=0.1, drops=(0.4, 0.8), drop_factor=5)
    assert found[:2] == pytest.approx([0.1, 0.2])
    assert found[10:40] == [1.0] * 30
    assert found[40:80] == pytest.approx([0.2] * 40)
    assert found[80:] == pytest.approx([0.04] * 20)


def test_rate_stays_where_the_batch_grows_and_the_warm_up_is_the_same() -> None:
    found = values(schedule="steps", warmup=0.1, drops=(0.4, 0.8), decay_by="batch")
    assert found[:10] == pytest.approx([0.1 * i for i in range(1, 11)])
    assert found[10:] == [1.0] * 90


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine", "wsd", "steps"])
@pytest.mark.parametrize("warmup", [0.0, 0.05, 0.5])
def test_no_update_is_wasted(schedule: str, warmup: float) -> None:
    found = values(schedule=schedule, warmup=warmup, decay=0.5)
    assert min(found) > 0
    assert max(found) <= 1
