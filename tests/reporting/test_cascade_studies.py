"""A cascade study in words, in pictures and on its page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from extrap.cascading import CascadeFinding, CascadeReport
from extrap.records import Interval, Measure
from extrap.reporting import cascade_page, cascades_text
from extrap.reporting.cascade_studies import cascade_headline, cascade_table
from extrap.reporting.figures import (
    cascade_costs_info,
    cascade_curves_info,
    draw_cascade_costs,
    draw_svg,
)
from extrap.reporting.numbers import NBSP


def measured(value: float, half: float) -> Measure:
    return Measure(value=value, ci=Interval(value - half, value + half))


PLAIN = CascadeFinding(
    small="width 8",
    outcome="correct",
    rule=False,
    share=measured(0.45, 0.05),
    difference=measured(0.0005, 0.001),
    cost=measured(0.6, 0.05),
    surely_difference=measured(0.0005, 0.002),
    surely_cost=measured(0.6, 0.1),
    quality_small=measured(0.5, 0.01),
    quality_large=measured(0.55, 0.01),
    cost_small=0.05,
    share_filtered=0.0,
    n_pairs=3,
    n_judged=1000,
    pair_costs=(0.58, 0.6, 0.62),
)
WORSE = replace(
    PLAIN,
    small="width 4",
    difference=measured(-0.02, 0.001),
    surely_difference=measured(-0.02, 0.002),
    cost=measured(0.4, 0.1),
    surely_cost=measured(0.4, 0.1),
)
RULED = replace(PLAIN, rule=True, share_filtered=0.11, cost=measured(0.55, 0.04))
LOSS = replace(
    PLAIN,
    outcome="loss",
    difference=measured(0.001, 0.002),
    surely_difference=measured(0.001, 0.003),
    cost=measured(0.8, 0.2),
    surely_cost=measured(0.8, 0.25),
    quality_small=measured(2.0, 0.01),
    quality_large=measured(1.8, 0.01),
)
CURVE = pd.DataFrame(
    {
        "small": "width 8",
        "pair": [0, 0, 0, 1, 1, 1],
        "outcome": "correct",
        "rule": 0,
        "is_chosen": [1, 0, 0, 1, 0, 0],
        "cost": [0.58, 1.05, 0.05, 0.62, 1.05, 0.05],
        "difference": [0.0, 0.0, -0.05, 0.001, 0.0, -0.05],
        "difference_lower": [-0.001, 0.0, -0.06, 0.0, 0.0, -0.06],
        "difference_upper": [0.001, 0.0, -0.04, 0.002, 0.0, -0.04],
    }
)
REPORT = CascadeReport(
    findings=(WORSE, PLAIN, RULED, LOSS), table=CURVE, large="width 64", level=0.95
)


def test_headline_tells_cost_quality_rule_and_the_loss() -> None:
    assert cascade_headline(REPORT).replace(NBSP, " ") == (
        "Width 8 before width 64 costs 60.0 % (50.0 to 70.0 %) of width 64 alone, with a share of "
        "correct answers no more than 0.5 points below the large model's: 0.050 (−0.150 to 0.250) "
        "percentage points, intervals for the best of 2 small models. The small model answers "
        "45.0 % (40.0 to 50.0 %) of the inputs. Behind the rule, "
        "which answers 11 %, it costs 55.0 % (51.0 to 59.0 %) at 0.050 (−0.050 to 0.150) "
        "percentage points. Asked for the large model's mean loss instead, the surest saving is "
        "width 8: a cost of 80.0 % (55.0 to 105.0 %)."
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.02, "above the large model's"),
        (-0.02, "below the large model's"),
        (-0.0045, "not told to be within 0.5 points of the large model's"),
    ],
)
def test_headline_says_on_which_side_the_quality_is(value: float, words: str) -> None:
    found = replace(PLAIN, surely_difference=measured(value, 0.001 if abs(value) > 0.01 else 0.01))
    assert words in cascade_headline(replace(REPORT, findings=(found, LOSS)))


def test_table_and_text_have_every_finding() -> None:
    table = cascade_table(REPORT)
    assert [row[0] for row in table.rows] == ["width 4", "width 8", "width 8", "width 8"]
    assert table.rows[1][2:5] == ("60.0\n55.0 to 65.0", "58, 60, 62", "45.0\n40.0 to 50.0")
    assert "which has 55.00 (54.00 to 56.00)" in table.note
    text = cascades_text(REPORT)
    assert NBSP not in text
    assert "- width 8, mean loss: cost 80.0 % (60.0 to 100.0 %)" in text
    assert "- width 8, share correct, behind the rule: cost 55.0 %" in text


def test_pictures_show_points_of_the_best_and_hollow_marks_of_the_worse() -> None:
    curves = cascade_curves_info(REPORT).points
    assert list(curves["cost"]) == [0.05, 0.58, 1.05, 0.05, 0.62, 1.05]
    assert curves["difference"].min() == -5
    assert curves["is_chosen"].sum() == 2
    costs = cascade_costs_info(REPORT)
    assert costs.names == ("width 4", "width 8")
    assert list(costs.rows["is_as_good"]) == [False, True, True, True]
    svg = draw_svg(
        lambda ax: draw_cascade_costs(ax, costs), width=400, height=300, key="c", label="costs"
    )
    assert "behind the rule" in svg


def test_page_is_one_file_that_loads_nothing(tmp_path: Path) -> None:
    path = cascade_page(
        REPORT,
        path=tmp_path / "deep" / "c.html",
        title="cascade",
        question="Cheaper?",
        rule="after two spaces a space",
        created="2026-01-01T00:00:00+00:00",
        provenance={"commit": "abc", "nothing": ""},
    )
    html = path.read_text(encoding="utf-8")
    assert html.count("<svg") == 4
    assert "after two spaces a space" in html
    assert "abc" in html
    assert "nothing" not in html.partition("What this cannot")[0].partition("Provenance</h2>")[2]
    assert html.count("<script") == 2  # the numbers, and what sorts tables
