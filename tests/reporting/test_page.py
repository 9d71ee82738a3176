"""The page is whole, self-contained and reproducible, and says what its records say."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from extrap.checking import check
from extrap.forecasting import forecast
from extrap.records import Interval
from extrap.reporting import report, write_index
from extrap.reporting.answer import answer_rows
from extrap.reporting.groups import group_verdicts
from extrap.reporting.tables import answer_table

from .conftest import RATES, as_runs, figures, plain, true_optimum
from .hostile import inspected


def write(tmp_path, made, verdicts=(), **options):
    path = report(made, verdicts, path=tmp_path / "deep" / "page.html", **options)
    html = path.read_text(encoding="utf-8")
    ids = inspected(html).ids
    assert len(set(ids)) == len(ids)
    assert not re.search(r"\bnan\b", html)
    return plain(html)


def headline(html):
    return re.search(r'name="extrap:answer" content="([^"]*)"', html)[1]


def test_page_states_forecast_mean_and_deviation_of_the_largest_size(tmp_path, made, judge):
    verdicts = judge()
    html = write(tmp_path, made, verdicts, provenance={"commit": "abc123"})
    assert "abc123" in html
    assert made.runs.data_hash() in html
    assert len(html) < 3_000_000
    for section in ("story-section", "verdicts", "laws", "backtest-section"):
        assert f'id="{section}"' in html
    point = made.at(width=1024)
    best = true_optimum(1024)
    seen = [v.loss for v in verdicts if v.size["width"] == 1024 and v.tuned["lr"] == best]
    mean = np.mean(seen)  # of two: its error is the larger of the sweep's noise and theirs
    se = max(mean * made.noise.log_sd, np.std(seen, ddof=1)) / 2**0.5
    off = round(100 * (mean / point.loss - 1), 1)
    low, loss, high = (round(x, 4) for x in (point.loss_pi[0], point.loss, point.loss_pi[1]))
    told = [1024, round(mean, 4), round(se, 4), off, loss, 95, low, high]
    assert figures(headline(html)) == told
    rows = answer_rows(made, group_verdicts(verdicts))
    row = answer_table(made, rows).rows[1]
    lr = point.tuned["lr"]
    assert figures(*row[:4]) == pytest.approx(
        [1024, 4, point.loss, *point.loss_pi, lr.value, *lr.pi], rel=1e-3
    )
    assert figures(row[4])[:3] == pytest.approx([mean, se, 2], rel=0.05)
    largest = min(made.optima, key=lambda o: o.loss).loss  # the last value
    deviations = [100 * (mean / x - 1) for x in (point.loss, largest)]
    assert figures(*row[5:7]) == pytest.approx(deviations, abs=0.051)


def test_same_input_gives_the_same_bytes(tmp_path, made, judge):
    pages = []
    for name, created in (("a", "2026-01-01T00:00:00+00:00"), ("b", "2027-02-02T00:00:00+00:00")):
        path = report(replace(made, created=created), judge(), path=tmp_path / f"{name}.html")
        html = path.read_text(encoding="utf-8")
        pages.append(html.replace(created, "CREATED").replace(created[:10], "CREATED"))
    assert pages[0] == pages[1]


def test_runs_that_were_lost_or_are_not_known_are_told(tmp_path, made, judge):
    html = write(tmp_path, made)
    assert 'id="verdicts"' not in html
    assert figures(headline(html))[0] == 512  # twice as far as the sweep
    gone = [
        replace(v, loss=None, status="diverged", deviation=None, p_value=None, on_law=False)
        for v in judge()
    ]
    html = write(tmp_path, made, gone)
    assert headline(html).startswith("Off course: no run")
    assert "▲ no loss" in html
    unknown = [replace(v, tuned={"lr": None}, expected=None) for v in judge()]
    assert "not known" in write(tmp_path, made, unknown)
    worst = [
        replace(v, on_law=False, cause="law", loss=v.loss * 1.2) if v.size["width"] == 512 else v
        for v in judge()
    ]
    html = write(tmp_path, made, worst)
    assert (headline(html)[:10], figures(headline(html))[0]) == ("Off course", 512)
    at = made.at(width=1024)
    loss, interval = at.loss_pi.upper * 1.001, Interval(*at.loss_pi)
    given = {"loss": loss, "deviation": loss / at.loss - 1, "predicted": at.loss}
    told = {"predicted_pi": interval, "expected": at.loss, "on_law": True, "p_value": 0.04}
    (one, *_) = (v for v in judge() if v.size["width"] == 1024 and v.on_law)
    outside = replace(one, cause=None, **given, **told)
    assert "just outside the interval of one new run" in write(tmp_path, made, [outside])


def grid_frame(**columns):
    """A full factorial of columns; loss falls with sizes and has a valley in each tuned column."""
    index = pd.MultiIndex.from_product(columns.values(), names=list(columns))
    frame = index.to_frame(index=False)
    wiggle = 0.002 * np.sin(np.arange(len(frame)) ** 2)
    log_loss = wiggle
    for name in frame:
        u = np.log2(frame[name] / frame[name].median())
        falls = name in ("n_params", "n_tokens", "width")
        log_loss = log_loss + (-0.05 * u if falls else 0.02 * u**2)
    return frame.assign(loss=2 * np.exp(log_loss), seed=0)


def test_several_sizes_and_several_tuned_columns_render(tmp_path):
    rates = RATES[1::2]
    frame = grid_frame(n_params=(1e6, 2e6, 4e6), n_tokens=(1e8, 4e8, 16e8), lr=rates)
    made = forecast(as_runs(frame, ("n_params", "n_tokens")))
    judged = frame.iloc[-3:].assign(n_params=1.6e7, stage="check", loss=1.5)
    verdicts = check(made, as_runs(judged, ("n_params", "n_tokens")))
    html = write(tmp_path, made, verdicts)
    assert "with n_tokens = 1.6B" in html

    frame = grid_frame(width=(16, 32, 64, 128), lr=rates, batch=(16, 64, 256))
    html = write(tmp_path, forecast(as_runs(frame, tuned=("lr", "batch"))))
    assert html.index("(d1) Best lr") < html.index("(d2) Best batch")

    frame = grid_frame(n_params=(1e6, 2e6, 3e6, 4e6, 8e6), lr=rates)
    tokens = {1e6: 4e8, 2e6: 1e8, 3e6: 8e8, 4e6: 2e8, 8e6: 16e8}
    frame["n_tokens"] = frame["n_params"].map(tokens)
    frame["loss"] *= frame["n_tokens"] ** -0.05
    html = write(tmp_path, forecast(as_runs(frame, ("n_params", "n_tokens"))))
    assert "lie off the path" in html


def test_index_lists_reports_newest_first_and_nothing_else(tmp_path, made):
    for day, title in ((1, "Older & <b>"), (2, "Newer")):
        dated = replace(made, created=f"2026-01-0{day}T00:00:00+00:00")
        report(dated, path=tmp_path / f"{title[0]} {day}.html", title=title, question="Why?")
    (tmp_path / "other.html").write_text("<html><head><title>no</title></head></html>")
    path = write_index(tmp_path)
    html = path.read_text(encoding="utf-8")
    assert path.name == "index.html"
    assert html.index("Newer") < html.index("Older &amp; &lt;b&gt;")
    assert 'href="./N%202.html"' in html
    assert "other.html" not in html
    assert write_index(tmp_path).read_text(encoding="utf-8") == html
