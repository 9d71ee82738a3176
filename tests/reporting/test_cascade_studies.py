"""A cascade study: answer, numbers, warnings."""

from dataclasses import replace

import pandas as pd
import pytest

from extrap.cascading import CascadeFinding, CascadeReport
from extrap.reporting.cascades_page import (
    cascade_blocks,
    cascade_page,
    cascade_study_answer,
    cascade_table,
)
from extrap.reporting.embedded import read_report
from extrap.reporting.study_page import About

from .conftest import figures, measured

PLAIN = CascadeFinding(
    **{"small": "width 8", "outcome": "correct", "rule": False, "share": measured(0.45, 0.05)},
    **{"difference": measured(0.0005, 0.001), "cost": measured(0.6, 0.05)},
    **{"surely_difference": measured(0.0005, 0.002), "surely_cost": measured(0.6, 0.1)},
    **{"quality_small": measured(0.5, 0.01), "quality_large": measured(0.55, 0.01)},
    **{"cost_small": 0.05, "share_filtered": 0.0, "n_pairs": 3, "n_judged": 1000},
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


def test_answer_gives_cost_quality_and_the_loss():
    found = cascade_study_answer(REPORT)
    told = [8, 64, 60, 50, 70, 64, 0.05, -0.15, 0.25, 64, 8, 80, 55, 105]
    assert figures(found.text) == told
    assert (found.kind, figures(found.confidence)) == ("on", [3, 2])
    for quality, cost, kind, confidence in (
        (measured(0.02, 0.001), measured(0.6, 0.1), "on", "high"),
        (measured(0.02, 0.001), measured(0.9, 0.2), "on", "low"),
        (measured(-0.02, 0.001), measured(0.6, 0.1), "mixed", "low"),
        (measured(-0.0045, 0.01), measured(0.6, 0.1), "mixed", "low"),
    ):
        one = replace(PLAIN, surely_difference=quality, surely_cost=cost)
        found = cascade_study_answer(replace(REPORT, findings=(one, LOSS)))
        assert (found.kind, found.confidence.split(";")[0][12:]) == (kind, confidence)


def test_small_models_that_miss_the_quality_are_flagged(tmp_path):
    assert REPORT.flags == (
        "judged-quality-missed: width 4 by correct",
        "judged-quality-missed: width 8 by loss",
    )
    assert replace(REPORT, findings=(PLAIN, RULED)).flags == ()
    page = cascade_page(REPORT, About("toy", "?", {}), tmp_path / "page.html", rule="")
    found = read_report(page)
    assert (found["kind"], found["status"], found["ok"]) == ("cascade", "as good", None)
    assert found["numbers"]["flags"] == list(REPORT.flags)
    assert found["numbers"]["findings"][1]["surely_cost"] == {"value": 0.6, "ci": [0.5, 0.7]}


def test_table_and_charts_have_every_finding():
    table = cascade_table(REPORT)
    assert [row[0].split("\n")[0] for row in table.rows] == ["width 4", *["width 8"] * 3]
    assert [row[1] for row in table.rows] == ["not shown", "yes", "yes", "yes"]
    assert [figures(row[2]) for row in table.rows[1:3]] == [[60, 55, 65], [55, 51, 59]]
    assert [figures(row[4])[0] for row in table.rows] == [-2, 0.05, 0.05, 0.001]
    curves, costs = (figure.chart for figure in cascade_blocks(REPORT, rule="")[1].blocks)
    assert curves.series[0].x == (0.05, 0.58, 1.05)
    assert curves.series[0].upper == pytest.approx((-4.0, 0.1, 0.0))
    assert (curves.series[3].x, curves.series[3].y) == ((0.62,), (0.1,))
    assert [(row.value, row.marker) for row in costs.rows] == [(40, "X"), (60, "o")]
