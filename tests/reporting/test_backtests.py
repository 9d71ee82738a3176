"""The backtest in words, tables and its picture."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from extrap.backtesting import Backtest, backtest
from extrap.forecasting import forecast
from extrap.records import Interval
from extrap.reporting import report
from extrap.reporting.backtests import (
    backtest_sentence,
    failure_sentences,
    holdouts_table,
    summary_table,
    tuned_sentences,
)
from extrap.reporting.figures import draw_held_out, draw_svg, held_out_info
from extrap.reporting.statements import pins_of

from .conftest import as_runs, sweep_frame


@pytest.fixture(scope="module")
def found() -> Backtest:
    return backtest(as_runs(sweep_frame()))


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def with_deviations(found: Backtest, deviation: float, last: float | None) -> Backtest:
    """The same backtest with every error set by hand; intervals reach 2 % either way."""
    holdouts = [
        replace(
            h,
            observed=h.predicted * (1 + deviation),
            deviation=deviation,
            last_deviation=last,
            predicted_pi=Interval(0.98 * h.predicted, 1.02 * h.predicted),
        )
        for h in found.holdouts
    ]
    return replace(found, holdouts=tuple(holdouts))


def test_sentence_says_how_far_off_and_how_many_intervals_held(found: Backtest) -> None:
    assert plain(backtest_sentence(with_deviations(found, -0.03, -0.05))) == (
        "Fitted on the smallest 3 to 4 of these 5 sizes and asked for the larger ones, up to 4 "
        "times as large, the forecast was off by 3.0 % (root mean square), the last value by "
        "5.1 %; its 90 % intervals held 0 of 3."
    )


def test_sentence_keeps_quiet_about_a_last_value_there_is_none_of(found: Backtest) -> None:
    sentence = backtest_sentence(with_deviations(found, 0.01, None))
    assert "last value" not in sentence
    assert plain(sentence).endswith("its 90 % intervals held 3 of 3.")
    assert "–" in summary_table(with_deviations(found, 0.01, None)).rows[0]


def test_sentence_of_leaving_one_out_names_the_scheme() -> None:
    sentence = backtest_sentence(backtest(as_runs(sweep_frame()), scheme="leave-one-out"))
    assert sentence.startswith("Leaving out one of these 5 sizes at a time")
    assert "the loss of the next smaller size by" in sentence


def test_missing_predictions_are_counted_with_their_reason(found: Backtest) -> None:
    assert failure_sentences(found) == []
    one = replace(found, failures=(("no optimum; extend its grid.", 1),))
    assert failure_sentences(one) == [
        "1 more prediction could not be made or judged.",
        "Reason: no optimum; extend its grid.",
    ]
    two = replace(found, failures=(("first.", 3), ("second.", 1)))
    assert failure_sentences(two)[0].startswith("4 more predictions")
    assert failure_sentences(two)[1:] == ["3: first.", "1: second."]


def test_distance_of_the_tuned_optimum_is_said_where_it_is_known(found: Backtest) -> None:
    holdouts = [replace(h, tuned_octaves={"lr": -1.0}) for h in found.holdouts]
    (sentence,) = tuned_sentences(replace(found, holdouts=tuple(holdouts)))
    assert "lay 1.00 octaves from its forecast, a factor of 2.00" in sentence
    unknown = [replace(h, tuned_octaves={"lr": None}) for h in found.holdouts]
    assert tuned_sentences(replace(found, holdouts=tuple(unknown))) == []


def test_tables_hold_every_prediction_and_every_bin(found: Backtest) -> None:
    assert len(holdouts_table(found).rows) == len(found.holdouts)
    assert [row[0] for row in summary_table(found).rows] == ["1 to 2", "2 to 4", "all"]
    for table in (holdouts_table(found), summary_table(found)):
        assert all(len(row) == len(table.columns) for row in table.rows)


def test_picture_holds_deviations_and_intervals_in_percent(found: Backtest) -> None:
    points = held_out_info(with_deviations(found, 0.03, -0.05)).points
    assert points["deviation"].tolist() == pytest.approx([3.0] * 3)
    assert points["last_deviation"].tolist() == pytest.approx([-5.0] * 3)
    assert points[["lower", "upper"]].to_numpy() == pytest.approx(np.array([[-2.0, 2.0]] * 3))
    assert not points["inside"].any()


def test_equal_distances_stand_side_by_side_and_the_others_where_they_are(found: Backtest) -> None:
    points = held_out_info(found).points
    twice = points[np.isclose(points["ratio"], 2)]
    assert len(twice) == 2
    assert twice["x"].nunique() == 2
    assert np.exp(np.log(twice["x"]).mean()) == pytest.approx(2)
    once = points[~np.isclose(points["ratio"], 2)]
    assert once["x"].tolist() == pytest.approx(once["ratio"].tolist())


def test_bar_that_dwarfs_the_deviations_is_cut_and_counted(found: Backtest) -> None:
    few = with_deviations(found, 0.03, -0.05)
    wide = replace(few.holdouts[0], predicted_pi=Interval(0.01, None))
    info = held_out_info(replace(few, holdouts=(wide, *few.holdouts[1:])))
    assert info.n_cut == 1
    ends = info.cut_ends()
    assert ends["side"].tolist() == [1, -1]
    assert ends["x"].tolist() == [info.points["x"][0]] * 2
    assert 5 < info.limit < 20
    svg = draw_svg(lambda ax: draw_held_out(ax, info), width=480, height=360, key="t", label="t")
    assert "held out, outside" in svg
    assert held_out_info(few).n_cut == 0
    assert held_out_info(few).cut_ends().empty


@pytest.mark.usefixtures("without_ink")
def test_report_shows_the_backtest_of_its_own_sweep(tmp_path, made, found: Backtest) -> None:
    html = report(made, path=tmp_path / "page.html").read_text(encoding="utf-8")
    section = html.split('id="backtest-section"')[1].split("</section>")[0]
    assert backtest_sentence(found) in section
    assert "<figure>" in section
    assert "Held-out sizes, one prediction a row" in section


@pytest.mark.usefixtures("without_ink")
def test_report_of_too_few_sizes_says_why_there_is_no_backtest(tmp_path) -> None:
    made = forecast(as_runs(sweep_frame(widths=(16, 32, 64))))
    html = report(made, path=tmp_path / "page.html").read_text(encoding="utf-8")
    assert "No backtest: a backtest needs at least 4 sizes" in html
    assert "add a size" in html


@pytest.mark.usefixtures("without_ink")
def test_report_backtests_with_the_pins_and_the_band_of_its_forecast(tmp_path) -> None:
    runs, options = as_runs(sweep_frame()), {"band": "family", "fix": {"E": 1.6, "lr.b": -0.4}}
    made = forecast(runs, **options)
    assert pins_of(made) == options["fix"]
    html = report(made, path=tmp_path / "page.html").read_text(encoding="utf-8")
    assert backtest_sentence(backtest(runs, **options)) in html
