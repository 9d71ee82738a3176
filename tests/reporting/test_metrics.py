"""Several metrics of the same runs on one page."""

from __future__ import annotations

import re

import pytest

from extrap.checking import check
from extrap.forecasting import forecast
from extrap.reporting import report
from extrap.reporting.metrics import metric_sections

from .conftest import as_runs, large_frame, sweep_frame


def errors(frame):
    """The same runs, judged by an error rate."""
    return frame.assign(loss=0.2 * frame["loss"] ** 1.5)


@pytest.fixture(scope="module")
def by_error():
    return forecast(as_runs(errors(sweep_frame())))


def test_section_has_headline_table_picture_and_backtest(by_error) -> None:
    (section,) = metric_sections({"error_rate": by_error})
    assert section.headline.startswith("Forecast for width\u00a0512 with lr")
    assert ": error_rate of 0." in section.headline
    assert section.kind == "forecast"
    assert "forecast error_rate" in section.table.columns
    assert "held" in section.backtest
    assert 'id="metric0"' in section.plate.svg
    assert ">error_rate<" in section.plate.svg


def test_section_judges_the_larger_runs_it_is_given(by_error) -> None:
    verdicts = check(by_error, as_runs(errors(large_frame(factor=1.5))))
    (section,) = metric_sections({"error_rate": (by_error, verdicts)})
    assert section.kind == "off"
    assert section.headline.startswith("Off course: error_rate at width")
    assert "observed" in section.table.columns


@pytest.mark.usefixtures("without_ink")
def test_page_gets_a_section_a_metric_and_is_unchanged_without(tmp_path, made, by_error) -> None:
    alone = report(made, path=tmp_path / "a.html").read_text(encoding="utf-8")
    metrics = {"error<rate>": by_error, "second": (by_error, ())}
    html = report(made, path=tmp_path / "b.html", metrics=metrics).read_text(encoding="utf-8")
    assert 'id="metrics"' not in alone
    section = html.split('id="metrics"')[1].split("</section>")[0]
    assert re.findall(r"<h3>(.*?)</h3>", section) == ["error&lt;rate&gt;", "second"]
    assert section.count("<figure>") == 2
    main = '<main id="content"'
    before = alone.split(main)[1].split('<section id="tables">')[0]
    assert html.split(main)[1].split('<section id="metrics">')[0].strip() == before.strip()


def test_ids_stay_unique_with_metrics(tmp_path, made, by_error) -> None:
    metrics = {"a": by_error, "b": by_error}
    html = report(made, path=tmp_path / "p.html", metrics=metrics).read_text(encoding="utf-8")
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(set(ids)) == len(ids)
    assert len(html) < 3_000_000
