"""The numbers of a page come back as they went in, and nothing breaks out of them."""

import re
import subprocess
import sys
from base64 import b64decode
from dataclasses import replace
from functools import partial

import pytest

from extrap.documents import forecast_document, verdicts_document
from extrap.errors import DataError
from extrap.files import read_csv, write_text
from extrap.forecasting import forecast
from extrap.records.numbers import NBSP
from extrap.reporting.blocks import Paragraph
from extrap.reporting.embedded import read_blocks, read_report
from extrap.reporting.forecast_page import forecast_page, report
from extrap.reporting.html import page_document, page_html, write_page
from extrap.reporting.tables import Table, table_csv

from .conftest import as_runs, sweep_frame, tables_of
from .hostile import EVIL, PAYLOADS

BLOCK = '<script type="application/json" id="extrap-data">{}</script>'


def test_a_report_carries_what_the_commands_print(tmp_path, made, judge):
    verdicts = judge()
    path = report(made, verdicts, path=tmp_path / "page.html", metrics={"other": made})
    found = read_report(path)
    assert (found["kind"], found["schema_version"]) == ("report", 1)
    n_off = sum(verdict.on_law is False for verdict in verdicts)
    assert (found["status"], found["ok"]) == (f"on law; {n_off} runs off", False)
    assert found["numbers"]["verdicts"]["ok"] is False
    numbers = found["numbers"]
    points = [made.at(width=w) for w in (512, 1024)]
    assert numbers["forecast"] == forecast_document(made, points)
    assert numbers["verdicts"] == verdicts_document(verdicts, level=made.level, forecast=made)
    assert numbers["metrics"]["other"]["forecast"]["data_hash"] == made.runs.data_hash()
    curve = numbers["curve"]
    assert curve["width"][0] == 16
    assert curve["width"][-1] == pytest.approx(1024)
    assert curve["loss"][-1] == pytest.approx(points[1].loss, rel=1e-6)
    found["numbers"]["metrics"] = {}
    assert found == page_document(forecast_page(made, verdicts))


@pytest.mark.parametrize("kind", ["script", "entity"])
def test_names_do_not_break_out(tmp_path, kind):
    evil = f"{PAYLOADS[kind]}<!--</script>"
    made = forecast(as_runs(sweep_frame().rename(columns={"lr": evil}), tuned=(evil,)))
    path = report(made, path=tmp_path / "page.html", title=EVIL + "</script><script>alert(1)")
    html = path.read_text(encoding="utf-8")
    block = re.search(r'id="extrap-data">(.*?)</script>', html, re.DOTALL)[1]
    assert not set("<>&") & set(block)
    found = read_report(path)
    assert found["numbers"]["tuned"] == [evil]
    assert found["title"].startswith(EVIL.partition(" \x1b")[0])
    assert evil in read_blocks(path)[0].text


def test_a_title_cannot_pretend_to_be_the_numbers(tmp_path, made):
    fake = BLOCK.format('{"schema_version":1}')
    path = report(made, path=tmp_path / "page.html", title=fake)
    assert read_report(path)["title"] == fake


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<p>nothing</p>", "has none"),
        (BLOCK.format("{"), "not JSON"),
        (BLOCK.format("[1]"), "schema version None"),
        (BLOCK.format('{"schema_version": 9}'), "schema version 9"),
        (BLOCK.format('{"schema_version": 1}'), "not whole"),
    ],
)
def test_what_is_no_report_is_refused(tmp_path, text, words):
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=words):
        read_report(path)
    with pytest.raises(DataError, match="no file"):
        read_report(tmp_path / "gone.html")


def test_tables_to_download_hold_the_numbers_of_the_forecast(tmp_path, made, judge):
    verdicts = judge()
    page = forecast_page(made, verdicts)
    links = re.findall(r'href="data:text/csv[^,]*,([^"]+)"', page_html(page))
    files = {b64decode(link) for link in links}

    def saved(caption):
        content = table_csv(tables_of(page.blocks)[caption])
        assert content.encode() in files
        write_text(tmp_path / "table.csv", content)
        return read_csv(tmp_path / "table.csv")

    near = partial(pytest.approx, rel=2e-3)
    judged = saved("Judged runs")
    assert judged["loss"].tolist() == near([v.loss for v in verdicts])
    off = [v.deviation for v in verdicts]
    assert judged["against forecast"].tolist() == pytest.approx(off, abs=0.006)  # whole percents
    assert (judged["verdict"] == "on law").tolist() == [v.on_law for v in verdicts]
    optima = saved("The optimum of each size of the sweep")
    assert optima["loss"].tolist() == near([o.loss for o in made.optima])
    assert optima["lr interval to"].tolist() == near([o.tuned["lr"].pi[1] for o in made.optima])
    points = saved(f"Forecasts with both 95{NBSP}% intervals")
    predicted = [made.at(width=w) for w in points["width"]]
    assert points["loss"].tolist() == near([p.loss for p in predicted])
    assert points["loss, one new run from"].tolist() == near([p.loss_pi[0] for p in predicted])


def test_visible_blocks_come_back_as_they_went_in(tmp_path, made, judge):
    page = forecast_page(made, judge())
    page = replace(page, blocks=(*page.blocks, Paragraph("No comparison.")))
    found = read_blocks(write_page(page, tmp_path / "page.html"))
    assert found[0].text == page.answer.text
    for kind in (Table, Paragraph):
        shown = [block for block in page.blocks if isinstance(block, kind)]
        assert [block for block in found if isinstance(block, kind)] == shown
    text, start = (tmp_path / "page.html").read_text(encoding="utf-8"), 'id="extrap-blocks">'
    for content, words in (("", "no blocks"), (f"{start}[{{}}]</script>", "not whole")):
        forged = re.sub(rf"{start}.*?</script>", content, text)
        (tmp_path / "page.html").write_text(forged, encoding="utf-8")
        with pytest.raises(DataError, match=words):
            read_blocks(tmp_path / "page.html")


HEAVY = {"matplotlib", "numpy", "pandas", "scipy", "sklearn"}


@pytest.mark.parametrize("module", ["index", "embedded", "markdown"])
def test_who_reads_pages_loads_no_tables_and_no_figures(module):
    code = f"import sys, extrap.reporting.{module}; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert not HEAVY & set(loaded.split())
