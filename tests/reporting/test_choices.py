"""The recommended value in words and tables."""

import math
from dataclasses import replace

import pytest

from extrap.reporting.forecast_answer import answer_rows
from extrap.reporting.forecast_tables import answer_table
from extrap.reporting.statements import differs, recommendation_sentence

from .conftest import figures, plain

SIZE = {"width": 1024.0}


def test_recommendation_states_values_distances_and_both_costs(made, diverging):
    found = made.at(**SIZE).recommendation
    assert not differs(replace(found, octaves={"lr": -0.014}))  # less than a percent off
    assert differs(replace(found, octaves={"lr": -0.016}))
    known = replace(
        found,
        tuned={"lr": 0.0025},
        octaves={"lr": math.log2(0.9)},
        expected_excess=math.log(1.002),
        at_optimum=math.log(1.0034),
    )
    text = plain(recommendation_sentence(made, known))
    assert not recommendation_sentence(made, None)
    assert figures(text) == [0.0025, 10, 0.20, 0.34]
    assert "10 % below the optimum" in text
    two = replace(
        known,
        tuned={"lr": 0.0025, "batch": 64.0},
        octaves={"lr": math.log2(0.9), "batch": math.log2(1.2)},
    )
    assert figures(recommendation_sentence(made, two))[:4] == [0.0025, 64, 10, 20]
    moved = diverging.at(**SIZE).recommendation
    assert differs(moved)
    assert "may diverge" in recommendation_sentence(diverging, moved)
    assert "may diverge" not in text


def test_tables_state_the_recommended_value_above_the_interval_of_the_optimum(diverging):
    row, *_ = answer_rows(diverging, (), [SIZE])
    table, point = answer_table(diverging, [row]), diverging.at(**SIZE)
    assert table.columns[-1] == "recommended lr"
    shown = figures(table.rows[0][-1])
    assert shown == pytest.approx([point.recommended["lr"], *point.tuned["lr"].pi], rel=5e-3)
    assert shown[0] < 0.98 * point.tuned["lr"].value  # it is not the optimum
    silent = replace(row, point=replace(point, recommended={"lr": None}))
    assert figures(answer_table(diverging, [silent]).rows[0][-1]) == shown[1:]
