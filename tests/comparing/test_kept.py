from __future__ import annotations

import math
from pathlib import Path

import pytest

import extrap

EXAMPLES = Path(__file__).parents[2] / "examples"
OBSERVED = {512.0: 0.103, 1024.0: 0.129}
"""Of the runs at the rate of width 16, over those at the forecast's."""


def read(name: str) -> extrap.Runs:
    return extrap.read_runs(EXAMPLES / name, size="width", tune="lr")


@pytest.fixture(scope="module")
def sweep() -> extrap.Runs:
    return read("sweep.csv")


@pytest.mark.parametrize("width", OBSERVED)
def test_what_a_kept_value_costs_is_one_number_everywhere(sweep, width):
    made, at = extrap.forecast(sweep), {"width": width}
    first, last = made.optima[0].tuned["lr"].value, made.optima[-1].tuned["lr"].value
    priced = extrap.cost(made, at=at, tuned={"lr": first})
    relative = priced.chosen.relative
    (rule,) = (row for row in made.rules(**at) if row.rule == "constant")
    (row,) = made.frame_at_values([at], tuned={"lr": first}).to_dict("records")
    of_rule, of_page = math.expm1(rule.expected_regret), math.expm1(row["log_excess"])
    of_loss = row["loss"] / made.at(**at).loss - 1
    numbers = [of_rule, of_page, of_loss, priced.kept[0].penalty.relative.value]
    assert numbers == pytest.approx([relative.value] * 4)
    assert OBSERVED[width] in relative.ci
    (carried,) = made.transfer(**at)
    kept = extrap.cost(made, at=at, tuned={"lr": last}).chosen.relative
    assert math.expm1(carried.penalty) == pytest.approx(kept.value)


def test_a_recipe_that_is_the_sweep_at_one_rate_costs_what_that_rate_costs(sweep):
    kept, at = read("kept_rate.csv"), {"width": 1024.0}
    found = extrap.compare({"tuned": sweep, "kept": kept}, at=at)
    rate = float(kept.to_frame()["lr"].iloc[0])
    made = extrap.forecast(sweep)
    relative = extrap.cost(made, at=at, tuned={"lr": rate}).chosen.relative
    (contrast,) = found.contrasts
    assert contrast.at_target.difference == relative
    assert contrast.at_target.plain.value == made.at(**at).loss
    assert contrast.at_target.treated.value == pytest.approx(
        made.at(**at).loss * (1 + relative.value)
    )
    assert any("cost of keeping" in note for note in found.notes)


def test_another_recipe_at_one_rate_is_compared_by_its_law(sweep):
    """One loss that differs makes it another recipe's."""
    table = read("kept_rate.csv").to_frame()
    table.loc[0, "loss"] *= 1.001
    other = extrap.Runs.from_frame(table, sizes=["width"], tuned=["lr"])
    found = extrap.compare({"tuned": sweep, "kept": other}, at={"width": 1024.0})
    assert found.contrasts[0].at_target.difference.value == pytest.approx(0.1, abs=0.01)
    assert not any("keeping that" in note for note in found.notes)
    swapped = extrap.compare({"kept": other, "tuned": sweep}, at={"width": 1024.0})
    assert swapped.contrasts[0].at_target.difference.value < 0
