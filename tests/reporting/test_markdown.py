"""The summary says what the page says, and nothing in it acts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extrap.forecasting import forecast
from extrap.reporting import report_document, report_markdown
from extrap.reporting.markdown import escaped

from .conftest import as_runs, sweep_frame
from .hostile import EVIL, PAYLOADS


def test_a_summary_of_runs_on_law(made, judge):
    document = report_document(made, judge(), title="My study")
    text = report_markdown(document, link="reports/my.html")
    lines = text.splitlines()
    assert lines[0] == "### 🟢 My study"
    assert lines[2].startswith("**On course: loss at width 1024 is ")
    assert "| width | times fitted | loss (95 %) | lr (95 %) | recommended lr |" in lines
    (row,) = [line for line in lines if line.startswith("| 1024 |")]
    assert f"{made.at(width=1024).loss:.3f}" in row
    assert "[The whole page](reports/my.html)." in text


def test_a_summary_of_runs_off_law_names_cause_and_remedy(made, judge):
    document = report_document(made, judge(1.2))
    text = report_markdown(document)
    assert text.startswith("### 🔴")
    assert "| **off law** |" in text
    assert "Likely cause at width 512: **" in text
    worst = next(v for v in document["numbers"]["verdicts"]["verdicts"] if v["on_law"] is False)
    assert worst["advice"][:40].replace("_", "&#95;") in text


def test_every_warning_has_its_three_parts(made):
    document = report_document(replace(made, flags=("lack-of-fit: x",)))
    text = report_markdown(document)
    (flag,) = document["numbers"]["flags"]
    assert "`lack-of-fit` (x)" in text
    for part in ("meaning", "why", "action"):
        assert escaped(flag[part]) in text


@pytest.mark.parametrize("kind", ["svg", "mathtext", "comment"])
def test_names_act_on_nothing(kind):
    evil = f"{PAYLOADS[kind]} |a|`b` @team #12 GH-3 **x** [l](http://e.example) www.e.example"
    column = evil[:100]
    made = forecast(as_runs(sweep_frame().rename(columns={"lr": column}), tuned=(column,)))
    made = replace(made, flags=(f"pinned: {evil}", EVIL))
    text = report_markdown(report_document(made, title=evil), link='x" onclick="alert(1)')
    for ours in ("<details><summary>", "</summary>", "</details>"):
        text = text.replace(ours, "")
    for active in ("<", "](http", "@team", " #12", "GH-3", "**x**", "://", "www.", "](x"):
        assert active not in text, active
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in rows}) == 1


@pytest.mark.parametrize(
    ("link", "is_link"),
    [
        ("https://example.org/a/b.html?x=1", True),
        ("http://127.0.0.1:8000/r.html", True),
        ("../reports/a.html", True),
        ("javascript:alert(1)", False),
        ("a) [b](https://e.example", False),
        ("data:text/html,x", False),
    ],
)
def test_only_addresses_become_links(made, link, is_link):
    text = report_markdown(report_document(made), link=link)
    assert (f"]({link})" in text) is is_link


def test_pages_of_other_kinds_have_a_summary_too():
    about = {
        "title": "t",
        "question": "q?",
        "answer": "a_b",
        "created": "2026-01-01",
        "status": "",
    }
    text = report_markdown({"kind": "knobs", "numbers": {}, **about})
    assert text == "### t\n\nq?\n\n**a&#95;b**\n\nMade 2026-01-01.\n"
