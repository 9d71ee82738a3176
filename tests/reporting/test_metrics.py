"""Several metrics of the same runs on one page."""

import re

import pytest

from extrap.checking import check
from extrap.forecasting import forecast
from extrap.reporting import report
from extrap.reporting.metrics import metric_sections

from .conftest import as_runs, figures, large_frame, sweep_frame
from .hostile import inspected


def errors(frame):
    """The same runs, judged by an error rate."""
    return frame.assign(loss=0.2 * frame["loss"] ** 1.5)


@pytest.fixture(scope="module")
def by_error():
    return forecast(as_runs(errors(sweep_frame())))


def test_section_has_headline_table_picture_and_backtest(by_error):
    (section,) = metric_sections({"error_rate": by_error})
    point = by_error.at(width=512)
    told = figures(section.headline)
    assert told[0] == 512
    assert any(number == pytest.approx(point.loss, rel=2e-3) for number in told)
    assert "forecast error_rate" in section.table.columns
    assert "held" in section.backtest
    assert (section.kind, 'id="metric0"' in section.plate.svg) == ("forecast", True)
    verdicts = check(by_error, as_runs(errors(large_frame(factor=1.5))))
    (section,) = metric_sections({"error_rate": (by_error, verdicts)})
    assert (section.kind, "observed" in section.table.columns) == ("off", True)


def test_page_gets_a_section_a_metric_and_none_without(tmp_path, made, by_error):
    metrics = {"error<rate>": by_error, "second": (by_error, ())}
    html = report(made, path=tmp_path / "b.html", metrics=metrics).read_text(encoding="utf-8")
    section = html.split('id="metrics"')[1].split("</section>")[0]
    assert re.findall(r"<h3>(.*?)</h3>", section) == ["error&lt;rate&gt;", "second"]
    inspected(html)
    assert 'id="metrics"' not in report(made, path=tmp_path / "a.html").read_text("utf-8")
