"""The page of a forecast: its answer, its charts, and that it is whole and reproducible."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchmarks.sweeps import with_curves
from extrap.analyses.sweep.answer import answer_rows, forecast_answer, transfer_answer
from extrap.analyses.sweep.charts import (
    curve_charts,
    loss_chart,
    optimum_chart,
    sweep_charts,
)
from extrap.analyses.sweep.judged_groups import group_verdicts
from extrap.analyses.sweep.page import forecast_page, report
from extrap.analyses.sweep.sizes import size_axis
from extrap.analyses.sweep.tables import optima_table
from extrap.analyses.sweep.verdicts import check
from extrap.cli import main
from extrap.forecasting import forecast
from extrap.reading import read_runs
from extrap.records import Interval
from extrap.reporting.blocks import Details, Figure
from extrap.reporting.html import page_html
from extrap.reporting.index import write_index
from extrap.reporting.tables import Table
from tests.analyses.conftest import (
    RATES,
    as_runs,
    figures,
    opened,
    plain,
    sweep_frame,
    tables_of,
    true_optimum,
)
from tests.checking.byhand import LARGE, by_hand, of_rate


def test_the_answer_states_value_loss_interval_outcome_and_cost_of_keeping(made, judge):
    verdicts = judge()
    groups = group_verdicts(verdicts)
    answer = forecast_answer(made, answer_rows(made, groups), groups)
    point = made.at(width=1024)
    lr = point.recommendation.tuned["lr"]
    seen = [
        v.loss for v in verdicts if v.size["width"] == 1024 and v.tuned["lr"] == true_optimum(1024)
    ]
    (kept,) = point.kept_smallest
    told = figures(answer.text)
    assert told[:3] == pytest.approx([lr, 1024, point.loss], rel=2e-3)
    assert told[4:6] == pytest.approx(list(point.loss_pi), rel=2e-3)
    assert told[6:8] == pytest.approx([2, np.mean(seen)], rel=2e-3)
    assert any(n == pytest.approx(100 * np.expm1(kept.penalty), rel=0.05) for n in told[9:])
    assert "does not transfer" in answer.text
    assert answer.confidence.startswith("Confidence: ")


def test_transfer_is_yes_no_or_cannot_tell_by_the_interval_of_its_cost(made):
    point = made.at(width=1024)
    (kept,) = point.kept_smallest
    assert np.log(kept.kept) == pytest.approx(np.log(true_optimum(16)), abs=0.1)
    for (low, high), words in (
        ((0.0, 0.005), "transfers:"),
        ((0.02, 0.1), "does not transfer"),
        ((0.0, 0.1), "cannot be told"),
    ):
        set_to = replace(kept, penalty=(low + high) / 2, penalty_pi=Interval(low, high))
        assert words in transfer_answer(made, replace(point, kept_smallest=(set_to,)))


def test_a_kept_value_that_is_expected_to_diverge_does_not_transfer(made):
    """The rate of width 16 is 3 octaves above the best one, where half of the runs diverge."""
    assert "diverges" not in transfer_answer(made, made.at(width=1024))
    known = by_hand(surface=of_rate(cliff=3.0))
    answer = plain(transfer_answer(known, known.at(**LARGE)))
    assert "does not transfer: a run at 0.02 diverges" in answer
    assert "diverges with a chance of 50 %" in answer


@pytest.mark.parametrize(
    ("on_law", "error", "words"),
    [
        (True, 0.01, "transfers:"),
        (False, 0.71, "does not transfer:"),
        (False, -0.05, "transfers:"),
        (False, None, "does not transfer:"),
        (None, 0.01, "cannot be told:"),
    ],
)
def test_runs_at_a_kept_value_say_whether_it_transfers(made, judge, on_law, error, words):
    """Against an interval of its cost that leaves it open."""
    point = made.at(width=1024)
    (kept,) = point.kept_smallest
    point = replace(point, kept_smallest=(replace(kept, penalty_pi=Interval(0.0, 0.1)),))
    loss = None if error is None else point.loss * (1 + error)
    run = {"size": {"width": 1024.0}, "tuned": {"lr": kept.kept}, "loss": loss}
    run |= {"on_law": on_law, "mean_loss": loss, "predicted": point.loss}
    answer = transfer_answer(made, point, group_verdicts([replace(judge()[0], **run)]))
    assert words in answer
    assert ("ended without a loss" in answer) == (error is None)
    refused = replace(judge()[0], **{**run, "predicted": None, "on_law": None})
    assert ("ended" in transfer_answer(made, point, group_verdicts([refused]))) == (error is None)
    assert f"1 run at lr = {kept.kept:.3g}"[:12] in plain(answer)


@pytest.mark.parametrize(
    ("on_law", "cause", "error", "outcome"),
    [
        (True, None, 0.01, "on law"),
        (None, None, 0.01, "undecided"),
        (None, None, None, "undecided"),
        (False, "mistuned", 0.01, "off law, mistuned"),
        (False, "unknown", 0.01, "off law"),
        (False, "unknown", -0.01, "better than forecast"),
        (False, "instability", None, "off law, diverged"),
    ],
)
def test_the_headline_is_the_verdict(made, judge, on_law, cause, error, outcome):
    point = made.at(width=1024)
    loss = None if error is None else point.loss * (1 + error)
    told = {"size": {"width": 1024.0}, "tuned": point.recommended, "loss": loss}
    told |= {"on_law": on_law, "cause": cause, "mean_loss": loss}
    groups = group_verdicts([replace(judge()[0], **told)])
    (row,) = answer_rows(made, groups, [{"width": 1024.0}])
    assert row.outcome == outcome
    assert forecast_answer(made, [row], groups).text.count(f": {outcome}.") == 1


def test_charts_show_the_forecast_the_optima_and_the_judged_runs(made, judge):
    verdicts = judge()
    groups = group_verdicts(verdicts)
    axis = size_axis(made, [{"width": 1024.0}])
    law, *_ = loss_chart(made, groups, axis).series
    for x, y, low, high in list(zip(law.x, law.y, law.lower, law.upper, strict=True))[::20]:
        point = made.at(width=x)
        assert (y, low, high) == pytest.approx((point.loss, *point.loss_pi))
    drawn = {
        (x, y)
        for s in loss_chart(made, groups, axis).series
        if s.label in ("on law", "off law, mistuned", "off law")
        for x, y in zip(s.x, s.y, strict=True)
    }
    assert drawn == {(v.size["width"], v.loss) for v in verdicts}
    law, optima, *_ = optimum_chart(made, groups, axis, "lr").series
    for x, y in list(zip(law.x, law.y, strict=True))[::20]:
        assert y == pytest.approx(made.at(width=x).tuned["lr"].value)
    assert optima.y == tuple(o.tuned["lr"].value for o in made.optima)


STEPS = np.arange(20.0, 1001.0, 20.0)


def big_runs(watched, draw_curve, n=2, width=512.0):
    """Tuned runs and as many three octaves too high."""
    rng = np.random.default_rng(0)
    best = watched.at(width=width).tuned["lr"].value
    octaves = [0.0] * n + [3.0] * n
    curves = [draw_curve(width, u, rng) for u in octaves]
    table = pd.DataFrame({"lr": [best * 2**u for u in octaves], "seed": range(2 * n)})
    return with_curves(table.assign(width=width, stage="check"), curves, STEPS)


def test_training_curves_stand_on_the_band_of_tuned_runs(watched, draw_curve):
    runs = big_runs(watched, draw_curve)
    (chart,) = curve_charts(watched, check(watched, runs), runs)
    band, *curves = chart.series
    assert band.y[-1] == pytest.approx(watched.at(width=512).loss, rel=0.01)
    ends = {s.ink: s.y[-1] for s in curves}
    assert len(curves) == 4
    assert ends["good"] < band.upper[-1] < ends["warn"]


def test_same_input_gives_the_same_bytes(tmp_path, made, judge):
    first, second = (
        report(made, judge(), path=tmp_path / f"{name}.html").read_bytes() for name in "ab"
    )
    assert first == second


def test_sizes_asked_for_lead_the_page(made):
    page = forecast_page(made, at=[{"width": 700.0}])
    assert "700" in page.answer.text
    (shown,) = [block for block in page.blocks if isinstance(block, Table)]
    assert [row[0] for row in shown.rows] == ["700"]


BY_CONFIGURATION = "Larger runs, by configuration"


def test_runs_that_were_lost_or_unknown_are_said(made, judge):
    lost = {"loss": None, "mean_loss": None, "status": "diverged", "p_value": None}
    gone = forecast_page(made, [replace(v, **lost, on_law=False) for v in judge()])
    assert "off law, diverged" in gone.answer.text
    rows = tables_of(gone.blocks)[BY_CONFIGURATION].rows
    assert {plain(row[0]) for row in rows} == {"▲ off law, diverged"}
    unknown = forecast_page(made, [replace(v, tuned={"lr": None}, expected=None) for v in judge()])
    rows = tables_of(unknown.blocks)[BY_CONFIGURATION].rows
    assert {plain(row[2]) for row in rows} == {"lr = not known"}
    assert BY_CONFIGURATION not in tables_of(forecast_page(made).blocks)


def test_given_provenance_hides_none_that_was_recorded(made):
    page = forecast_page(made, origin={"seeds": "mine", "extrap": "theirs"})
    rows = tables_of(page.blocks)["Provenance"].rows
    assert [sum(row[0] == name for row in rows) for name in ("seeds", "extrap")] == [2, 2]


def test_a_further_metric_has_an_answer_of_its_own(made):
    by_error = forecast(as_runs(sweep_frame().assign(loss=lambda f: 0.2 * f["loss"] ** 1.5)))
    page = forecast_page(made, metrics={"error": by_error})
    (details,) = [b for b in page.blocks if isinstance(b, Details) and b.title == "Metric error"]
    loss = by_error.at(width=2048).loss
    assert figures(details.blocks[0].text)[2] == pytest.approx(loss, rel=2e-3)


def grid_frame(**columns):
    """A full factorial of columns; loss falls with sizes and is least inside each tuned column."""
    index = pd.MultiIndex.from_product(columns.values(), names=list(columns))
    frame = index.to_frame(index=False)
    log_loss = 0.002 * np.sin(np.arange(len(frame)) ** 2)
    for name in frame:
        u = np.log2(frame[name] / frame[name].median())
        falls = name in ("n_params", "n_tokens", "width")
        log_loss = log_loss + (-0.05 * u if falls else 0.02 * u**2)
    return frame.assign(loss=2 * np.exp(log_loss), seed=0)


def charts_of(made, verdicts=()):
    """The charts of a page; that it can be written is part of the test."""
    page = forecast_page(made, verdicts)
    assert "nan" not in page_html(page).lower().split()
    return [block for block in opened(page.blocks) if isinstance(block, Figure)]


def test_several_sizes_and_several_tuned_columns_are_shown():
    rates = RATES[1::2]
    frame = grid_frame(n_params=(1e6, 2e6, 4e6), n_tokens=(1e8, 4e8, 16e8), lr=rates)
    made = forecast(as_runs(frame, ("n_params", "n_tokens")))
    judged = frame.iloc[-3:].assign(n_params=1.6e7, stage="check", loss=1.5)
    shown = charts_of(made, check(made, as_runs(judged, ("n_params", "n_tokens"))))
    assert "with n_tokens = 1.6B" in shown[1].caption

    frame = grid_frame(width=(16, 32, 64, 128), lr=RATES, batch=(16, 64, 256))
    titles = [f.chart.title for f in charts_of(forecast(as_runs(frame, tuned=("lr", "batch"))))]
    assert titles[0] == "Best lr against width"
    assert titles.count("Best batch against width") == 1

    frame = grid_frame(n_params=(1e6, 2e6, 3e6, 4e6, 8e6), lr=rates)
    tokens = {1e6: 4e8, 2e6: 1e8, 3e6: 8e8, 4e6: 2e8, 8e6: 16e8}
    frame["n_tokens"] = frame["n_params"].map(tokens)
    frame["loss"] *= frame["n_tokens"] ** -0.05
    shown = charts_of(forecast(as_runs(frame, ("n_params", "n_tokens"))))
    assert "n_tokens moves with it" in shown[1].caption


def test_an_optimum_beyond_the_values_tried_is_said_to_be_there():
    """At the smallest size only rates below the best one are tried; at the next all diverge."""
    frame = sweep_frame()
    is_low = (frame["width"] != 16) | (frame["lr"] < 0.6 * true_optimum(16))
    frame.loc[frame["width"] == 32, "loss"] = np.inf
    made = forecast(read_runs(frame[is_low], size="width", tune="lr"))
    first, second, *rest = optima_table(made).rows
    assert first[-1] == "above every lr tried"
    assert float(first[1].partition(" ")[0]) == pytest.approx(true_optimum(16), rel=0.3)
    assert (second[3], second[-1]) == ("–", "no finished run")
    assert {row[-1] for row in rest} == {"within the values tried"}


def test_index_lists_reports_newest_first_and_nothing_else(tmp_path, made):
    for day, title in ((1, "Older & <b>"), (2, "Newer")):
        dated = replace(made, created=f"2026-01-0{day}T00:00:00+00:00")
        report(dated, path=tmp_path / f"{title[0]} {day}.html", title=title, question="Why?")
    (tmp_path / "other.html").write_text("<html><head><title>no</title></head></html>")
    assert main(["index", str(tmp_path)]) == 0
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    listed = re.findall(r'<a href="(\./[^"]*)">([^<]*)<', text)
    assert listed == [("./N%202.html", "Newer"), ("./O%201.html", "Older &amp; &lt;b&gt;")]
    assert re.findall(r'data-label="(?:status|kind)"[^>]*>([^<]*)<', text) == ["forecast"] * 4
    assert write_index(tmp_path).read_text(encoding="utf-8") == text


def test_values_at_which_every_run_diverged_have_empty_cells_of_their_own():
    """Their crosses stand there, and not on the nearest value that has losses."""
    frame = sweep_frame()
    highest = frame["lr"].max()
    is_highest = frame["lr"] == highest
    frame["status"] = np.where(is_highest, "diverged", "complete")
    frame.loc[is_highest, "loss"] = math.nan
    made = forecast(as_runs(frame))
    _, heat = sweep_charts(made, size_axis(made))
    assert heat.ys[-1] == highest
    assert np.isnan(heat.values[-1]).all()
    assert not np.isnan(heat.values[:-1]).any()
    crosses = heat.series[-1]
    assert set(crosses.y) == {highest}
    assert set(crosses.x) == set(heat.xs)
