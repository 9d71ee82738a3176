"""The numbers of a page come back as they went in, and nothing breaks out of them."""

from __future__ import annotations

import json
import re

import pytest

from extrap.documents import forecast_document, verdicts_document
from extrap.errors import DataError
from extrap.forecasting import forecast
from extrap.reporting import knob_page, read_report, report, report_document, save_figures

from .conftest import as_runs, sweep_frame
from .hostile import EVIL, PAYLOADS
from .test_knobs import REPORT as KNOBS


@pytest.mark.usefixtures("without_ink")
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
    assert found == {**report_document(made, verdicts, metrics={"other": made})}


@pytest.mark.usefixtures("without_ink")
@pytest.mark.parametrize("kind", ["script", "comment", "style", "entity"])
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


@pytest.mark.usefixtures("without_ink")
def test_a_title_cannot_pretend_to_be_the_numbers(tmp_path, made):
    fake = '<script type="application/json" id="extrap-data">{"schema_version":1}</script>'
    path = report(made, path=tmp_path / "page.html", title=fake)
    assert read_report(path)["title"] == fake


def test_other_pages_carry_theirs(tmp_path):
    path = knob_page(
        KNOBS, path=tmp_path / "k.html", title="t", question="q", created="2026", provenance={}
    )
    found = read_report(path)
    assert found["kind"] == "knobs"
    assert [knob["name"] for knob in found["numbers"]["knobs"]] == [k.name for k in KNOBS.knobs]
    written = save_figures(path, tmp_path / "files")
    assert {p.suffix for p in written} == {".svg", ".png", ".csv"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<p>nothing</p>", "has none"),
        ('<script type="application/json" id="extrap-data">{</script>', "not JSON"),
        ('<script type="application/json" id="extrap-data">[1]</script>', "schema version None"),
        (
            '<script type="application/json" id="extrap-data">{"schema_version": 9}</script>',
            "schema version 9",
        ),
        (
            '<script type="application/json" id="extrap-data">{"schema_version": 1}</script>',
            "not whole",
        ),
    ],
)
def test_what_is_no_report_is_refused(tmp_path, text, words):
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=words):
        read_report(path)
    with pytest.raises(DataError, match="figures"):
        save_figures(path, tmp_path)
    with pytest.raises(DataError, match="no file"):
        read_report(tmp_path / "gone.html")


def test_saved_files_are_those_of_the_page(tmp_path, made, judge):
    page = report(made, judge(), path=tmp_path / "page.html")
    written = save_figures(page, tmp_path / "files")
    names = {path.name for path in written}
    assert len(names) == len(written)
    assert {
        "story.svg",
        "story.png",
        "a-loss-against-width.svg",
        "c-loss-over-lr-and-width.png",
        "fitted-parameters.csv",
    } <= names
    svg = (tmp_path / "files" / "story.svg").read_text(encoding="utf-8")
    assert "var(--" not in svg
    assert "#1264b8" in svg
    assert 'xmlns="http://www.w3.org/2000/svg"' in svg
    assert "hints" not in svg
    png = (tmp_path / "files" / "story.png").read_bytes()
    assert (int.from_bytes(png[16:20]), int.from_bytes(png[20:24])) == (1760, 1080)
    again = save_figures(page, tmp_path / "files")
    assert again == written


def test_files_of_a_strange_page_stay_in_their_folder(tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<a download="../evil.csv" href="data:text/csv;base64,YQ==">x</a>')
    with pytest.raises(DataError, match="has none"):
        save_figures(page, tmp_path / "files")
    page.write_text('<a download="a.csv" href="data:text/csv;base64,YQ=">x</a>')
    with pytest.raises(DataError, match="not whole"):
        save_figures(page, tmp_path / "files")


def test_the_numbers_are_strict_json(tmp_path, made, judge):
    page = report(made, judge(1.1), path=tmp_path / "page.html")
    document = read_report(page)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert (document["status"], document["ok"]) == ("deviates", False)
