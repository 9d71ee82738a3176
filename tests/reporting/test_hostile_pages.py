"""Every kind of page, with names an attacker chose: nothing runs, nothing loads, all is shown."""

import os
import re
from dataclasses import replace
from html import escape
from pathlib import Path
from urllib.parse import unquote

import pytest
from jinja2 import PackageLoader

from extrap.analyses.sweep.charts import backtest_chart
from extrap.analyses.sweep.page import forecast_page, report
from extrap.forecasting.backtesting import backtest
from extrap.reporting.blocks import Figure
from extrap.reporting.html import write_page
from extrap.reporting.index import write_index
from extrap.reporting.study_page import About
from tests.analyses.conftest import as_runs, sweep_frame
from tests.reporting.hostile import EVIL, PAYLOADS, inspected, poisoned
from tests.reporting.kinds import hostile_report, study_pages, write_figures

WHEN = '2026-01-01T00:00:00+00:00"><script>alert(7)</script>'
ABOUT = About(EVIL, EVIL, {EVIL: EVIL, "storage": EVIL}, created=WHEN)


def said(html):
    """The text of a page, as a reader sees it, and of its labels."""
    return " ".join(inspected(html).words)


def written(path):
    return path.read_text(encoding="utf-8")


def packed():
    """All payloads in names short enough for a column."""
    names = [""]
    for payload in PAYLOADS.values():
        if len(names[-1]) + len(payload) > 98:
            names.append("")
        names[-1] += payload
    return names


COLUMNS = packed()


@pytest.mark.slow
@pytest.mark.usefixtures("pictures")
@pytest.mark.parametrize("i", range(0, len(COLUMNS), 2))
def test_names_of_columns_on_the_page_of_a_forecast(tmp_path, i):
    size, tuned = COLUMNS[i], f"{COLUMNS[(i + 1) % len(COLUMNS)]}lr"
    path = hostile_report(tmp_path / "p.html", size, tuned)
    words = said(written(path)).replace("\u00a0", " ")
    assert size in words
    assert tuned in words
    assert "49" not in re.findall(r"\{\{[^}]*\}\}|49", words) or "{{ 7*7 }}" in words


def test_sources_notes_and_flags_on_the_page_of_a_forecast(tmp_path, made):
    evil = replace(
        made,
        runs=replace(made.runs, source=EVIL, notes=(EVIL,)),
        created=WHEN,
        flags=(f"lack-of-fit: {EVIL}", EVIL),
    )
    words = said(written(report(evil, path=tmp_path / "page.html")))
    assert PAYLOADS["script"] in words
    assert PAYLOADS["template"] in words


KINDS = {
    "sensitivity": "warmup,beta2,precision,eps,bf16,width,54 runs repeat others.",
    "comparison": "plain,shifted,steeper,lost,treatments",
    "batches": "bytes",
    "allocation": "",
}
"""Kind of study → the names in its results that are replaced."""


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.slow] * (k != "sensitivity")) for k in KINDS]
)
def test_names_in_the_results_of_a_study(tmp_path, one_task, kind):
    names, evil = KINDS[kind].split(","), list(PAYLOADS.values())
    moved = {name: f"{name} {' '.join(evil[i :: len(names)])}" for i, name in enumerate(names)}
    page = study_pages(tmp_path, one_task, ABOUT, lambda record: poisoned(record, moved))[kind]()
    words = said(written(write_page(page, tmp_path / "a.html")))
    assert all(payload in words for payload in PAYLOADS.values())


def test_names_on_a_page_of_figures(tmp_path):
    path = write_figures(tmp_path / "a.html", EVIL)
    assert PAYLOADS["script"] in said(written(path))


def test_names_of_a_chart(tmp_path, made):
    chart = replace(backtest_chart(backtest(made.runs)), title=EVIL)
    page = forecast_page(made)
    page = replace(page, blocks=(*page.blocks, Figure(chart, EVIL)))
    assert PAYLOADS["script"] in said(written(write_page(page, tmp_path / "a.html")))


def test_every_template_of_a_page_has_the_policy():
    loader = PackageLoader("extrap.reporting")
    sources = {name: loader.get_source(None, name)[0] for name in loader.list_templates()}
    heads = [text.partition("<head>")[2] for text in sources.values() if "<html" in text]
    assert heads
    assert all("{{ policy|safe }}" in head.strip().split("\n")[1] for head in heads)


META = '<meta name="extrap:{}" content="{}">'


def stranger(folder, name, **about):
    """A page somebody else put beside the reports."""
    given = {"title": "t", "question": "q", "answer": "a", "created": "2026-01-01", **about}
    text = "".join(META.format(key, escape(value)) for key, value in given.items())
    path = folder / name
    path.write_text(f"<head>{text}</head><script>alert(8)</script>", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "name",
    [
        "javascript:alert(1).html",
        '"><script>alert(1)<!--.html',
        "a b#c?d&e.html",
        "data:text%2fhtml,x.html",
        "\\\\evil.example\\x.html",
        "é中.html",
        "..html",
        "-.html",
        "{{7*7}}.html",
    ],
)
def test_index_links_a_file_of_any_name_and_nothing_else(tmp_path, name):
    stranger(tmp_path, name, title=EVIL, question=EVIL, answer=EVIL, created=WHEN)
    html = written(write_index(tmp_path))
    words = said(html)
    assert all(payload in words for payload in PAYLOADS.values())
    (link,) = re.findall(r'<a href="([^"]*)"', html)
    assert (tmp_path / unquote(link)).is_file()


def test_index_survives_what_is_no_page(tmp_path):
    stranger(tmp_path, "good.html", title="good")
    (tmp_path / "folder.html").mkdir()
    os.mkfifo(tmp_path / "pipe.html")
    (tmp_path / "loop.html").symlink_to(tmp_path / "loop.html")
    (tmp_path / "zero.html").symlink_to("/dev/zero")
    (tmp_path / "gone.html").symlink_to(tmp_path / "nowhere")
    (tmp_path / "odd.html").write_bytes(b"<![foo[" + bytes(range(256)) * 9 + b"<!DOCTYPE [")
    (tmp_path / "large.html").write_text("<meta " * 200_000)
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.html")).write_text(
        (tmp_path / "good.html").read_text().replace("good", "bytes")
    )
    html = written(write_index(tmp_path))
    inspected(html)
    assert sorted(re.findall(r'<a href="[^"]*">(\w+)<', html)) == ["bytes", "good"]


@pytest.mark.parametrize("name", ["\x00", "\x1b[31m", "\u202e", "a\nb", "x" * 101, ""])
def test_columns_that_cannot_be_seen_are_refused(name):
    with pytest.raises(ValueError, match="visible"):
        as_runs(sweep_frame().rename(columns={"width": name}), (name,))
