"""The recommended value, known rules, and values that are kept, in words and tables."""

import math
from dataclasses import replace

from extrap.reporting.choices import differs, recommendation_sentence
from extrap.reporting.forecast_answer import answer_rows
from extrap.reporting.forecast_tables import answer_table
from extrap.reporting.text import blocks_text

from .conftest import figures, plain

SIZE = {"width": 1024.0}


def test_recommendation_states_values_distances_and_both_costs(made, diverging):
    found = made.recommend(**SIZE)
    assert not differs(None)
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
    assert figures(text) == [0.0025, 10, 0.20, 0.34]
    assert "10 % below the optimum" in text
    two = replace(
        known,
        tuned={"lr": 0.0025, "batch": 64.0},
        octaves={"lr": math.log2(0.9), "batch": math.log2(1.2)},
    )
    assert figures(recommendation_sentence(made, two))[:4] == [0.0025, 64, 10, 20]
    moved = diverging.recommend(**SIZE)
    assert differs(moved)
    assert "may diverge" in recommendation_sentence(diverging, moved)
    assert "may diverge" not in text


def test_a_recommended_value_is_shown_where_it_is_printed_differently(diverging):
    row, *_ = answer_rows(diverging, (), [SIZE])
    printed = answer_table(diverging, [row]).rows[0][-1]
    assert printed.split("\n")[2].startswith("recommended ")
    text = blocks_text([answer_table(diverging, [row])])
    assert f"forecast {diverging.runs.tuned[0]}" in text.splitlines()[1]
    assert len(text.splitlines()) == 3
    moved = replace(row.recommended, tuned={"lr": row.point.tuned["lr"].value * 1.0001})
    assert (
        "recommended" not in answer_table(diverging, [replace(row, recommended=moved)]).rows[0][-1]
    )
