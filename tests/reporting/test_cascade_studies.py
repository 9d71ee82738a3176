"""A cascade study in words, in pictures and on its page."""

from dataclasses import replace

import pandas as pd

from extrap.cascading import CascadeFinding, CascadeReport
from extrap.reporting import cascades_text, read_report
from extrap.reporting.cascade_studies import cascade_headline, cascade_page, cascade_table
from extrap.reporting.numbers import NBSP

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


def test_headline_states_cost_quality_rule_and_the_loss():
    assert figures(cascade_headline(REPORT)) == [
        *(8, 64, 60, 50, 70, 64, 0.5, 0.05, -0.15, 0.25, 2),
        *(45, 40, 50, 11, 55, 51, 59, 0.05, -0.05, 0.15, 8, 80, 55, 105),
    ]
    for value, half, side in (
        (0.02, 0.001, "above the large"),
        (-0.02, 0.001, "below the large"),
        (-0.0045, 0.01, "not told to be within"),
    ):
        found = replace(PLAIN, surely_difference=measured(value, half))
        assert side in cascade_headline(replace(REPORT, findings=(found, LOSS)))


def test_small_models_that_miss_the_quality_are_flagged_in_text_and_on_the_page(tmp_path):
    assert REPORT.flags == (
        "judged-quality-missed: width 4 by correct",
        "judged-quality-missed: width 8 by loss",
    )
    assert replace(REPORT, findings=(PLAIN, RULED)).flags == ()
    told = "judged-quality-missed (width 4 by correct, width 8 by loss)"
    assert told in cascades_text(REPORT)
    page = cascade_page(
        REPORT,
        path=tmp_path / "page.html",
        title="toy",
        question="?",
        rule="",
        created="2026-01-01T00:00:00+00:00",
        provenance={},
    )
    html = page.read_text(encoding="utf-8")
    assert "<code>judged-quality-missed</code> (width 4 by correct, width 8 by loss)" in html
    assert read_report(page)["numbers"]["flags"] == list(REPORT.flags)


def test_table_and_text_have_every_finding():
    table = cascade_table(REPORT)
    assert [row[0] for row in table.rows] == ["width 4", "width 8", "width 8", "width 8"]
    assert table.rows[1][2:5] == ("60.0\n55.0 to 65.0", "58, 60, 62", "45.0\n40.0 to 50.0")
    assert "55.00 (54.00 to 56.00)" in table.note
    text = cascades_text(REPORT)
    assert NBSP not in text
    lines = [line for line in text.splitlines() if line.startswith("- width 8")]
    assert [figures(line)[1:2] for line in lines] == [[60], [55], [80]]
