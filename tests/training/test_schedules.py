import math

import pytest

from extrap.records import Recipe
from extrap.training.schedules import multiplier


def values(**recipe):
    made = Recipe(steps=100, **recipe)
    return [multiplier(made, step) for step in range(100)]


DROPS = {"schedule": "steps", "warmup": 0.1, "drops": (0.4, 0.8)}


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        (
            {"schedule": "wsd", "warmup": 0.1, "decay": 0.5},
            {0: 0.1, 1: 0.2, 9: 1.0, 50: 1.0, 75: 0.5, 99: 1 / 50},
        ),
        ({"schedule": "linear", "warmup": 0.2}, {9: 0.5, 19: 1, 20: 1, 60: 0.5, 99: 1 / 80}),
        (
            {"schedule": "cosine", "warmup": 0.2},
            {9: 0.5, 20: 1.0, 40: 0.5 * (1 + math.cos(math.pi / 4)), 60: 0.5},
        ),
        ({"schedule": "constant", "warmup": 0.1}, {0: 0.1, **dict.fromkeys(range(10, 100), 1.0)}),
        ({"schedule": "constant", "warmup": 0.0}, dict.fromkeys(range(100), 1.0)),
        (
            {**DROPS, "drop_factor": 5},
            {0: 0.1, 1: 0.2, 10: 1.0, 39: 1.0, 40: 0.2, 79: 0.2, 80: 0.04, 99: 0.04},
        ),
        (
            {**DROPS, "decay_by": "batch"},
            {**{i: (i + 1) / 10 for i in range(10)}, **dict.fromkeys(range(10, 100), 1.0)},
        ),
    ],
)
def test_a_schedule_has_its_textbook_values(recipe, expected):
    found = values(**recipe)
    assert {step: found[step] for step in expected} == pytest.approx(expected, rel=1e-12)
