"""The summary says what the page says, and nothing in it acts."""

from dataclasses import replace

import pytest

from extrap.analyses.sweep.page import forecast_page
from extrap.forecasting import forecast
from extrap.reporting.markdown import escaped, report_markdown
from tests.analyses.conftest import as_runs, figures, sweep_frame
from tests.reporting.hostile import EVIL, PAYLOADS


def test_a_summary_of_runs_on_law(made, judge):
    on_law = [verdict for verdict in judge() if verdict.on_law]
    page = forecast_page(made, on_law, title="My study")
    assert (page.status, page.ok) == ("on law", True)
    text = report_markdown(page, link="reports/my.html")
    lines = text.splitlines()
    assert lines[0] == "### 🟢 My study"
    assert lines[4].startswith("**Use lr")
    (row,) = [line for line in lines if line.startswith("|") and "width 1024" in line]
    point = made.at(width=1024)
    loss, _, *sides = figures(row.partition("(2 runs)")[2])[:4]
    assert loss == pytest.approx(point.loss, rel=1e-3)
    off = [100 * (side / point.loss - 1) for side in on_law[-1].predicted_pi]
    assert sides == pytest.approx(off, abs=0.06)
    assert "(reports/my.html)" in text


def test_a_summary_is_green_only_where_no_run_is_off(made, judge):
    verdicts = judge()
    off = [v for v in verdicts if not v.on_law]
    for runs, status, ok, sign in (
        (verdicts, f"on law; {len(off)} runs off law", False, "🟡"),
        (off[:1], "off law", False, "🔴"),
        ((), "forecast", None, "🔵"),
    ):
        page = forecast_page(made, runs)
        assert (page.status, page.ok) == (status, ok)
        assert report_markdown(page).startswith(f"### {sign}")


def test_what_is_not_seen_is_spelled_out_and_nothing_is_replaced():
    assert escaped("a\u200bb\u00adc") == "a\\u200bb\\xadc".replace("\\", "&#92;")
    assert ":smile:" not in escaped("so :smile: it")
    commit = "0123456789abcdef0123456789abcdef01234567"
    assert commit not in escaped(f"see {commit}")
    assert "7" * 40 not in escaped("7" * 40)
    assert escaped("at 1048576: 2.5") == "at 1048576: 2.5"


@pytest.mark.parametrize("kind", ["svg", "mathtext", "comment"])
def test_names_act_on_nothing(kind):
    evil = f"{PAYLOADS[kind]} |a|`b` @team #12 GH-3 **x** [l](http://e.example) www.e.example"
    column = evil[:100]
    made = forecast(as_runs(sweep_frame().rename(columns={"lr": column}), tuned=(column,)))
    made = replace(made, flags=(f"pinned: {evil}", EVIL))
    page = forecast_page(made, title=evil)
    text = report_markdown(page, link='x" onclick="alert(1)')
    for ours in ("<details><summary>", "</summary>", "</details>"):
        text = text.replace(ours, "")
    for active in ("<", "](http", "@team", " #12", "GH-3", "**x**", "://", "www.", "](x"):
        assert active not in text, active
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in rows}) == 1


LINKS = ("https://example.org/a/b.html?x=1", "http://127.0.0.1:8000/r.html")
LINKS += ("../reports/a.html", "/a/b.html")
NONE = ("javascript:alert(1)", "a) [b](https://e.example", "data:text/html,x", "javascript:1")
NONE += ("JavaScript:1", "mailto:a", "//e.example/a", "https:a.html", "https://[x", r"\\e.example")


@pytest.mark.parametrize("link", LINKS + NONE)
def test_only_addresses_become_links(made, link):
    text = report_markdown(forecast_page(made), link=link)
    assert (f"]({link})" in text) is (link in LINKS)


def test_a_long_text_ends_at_a_word():
    text = escaped("word " * 1000)
    assert text.endswith("word…")
    assert 100 < len(escaped("a " + "x" * 10_000)) < 1000
