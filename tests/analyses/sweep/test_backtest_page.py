"""The backtest in words, tables and its picture."""

from dataclasses import replace

import pytest

from extrap.analyses.sweep.backtest_page import backtest_answer, summary_table, tuned_sentences
from extrap.analyses.sweep.charts import backtest_chart
from extrap.analyses.sweep.page import forecast_page
from extrap.analyses.sweep.statements import pins_of
from extrap.forecasting import forecast
from extrap.forecasting.backtesting import backtest
from extrap.records import Interval
from tests.analyses.conftest import WIDTHS, as_runs, figures, plain, sweep_frame, text_of


@pytest.fixture(scope="module")
def found():
    return backtest(as_runs(sweep_frame((*WIDTHS, 512.0))))


def with_deviations(found, deviation, last):
    """The same backtest with every error set by hand; intervals reach 2 % either way."""
    holdouts = [
        replace(
            h,
            observed=h.predicted * (1 + deviation),
            deviation=deviation,
            last_deviation=last,
            tuned_octaves={"lr": -1.0},
            predicted_pi=Interval(0.98 * h.predicted, 1.02 * h.predicted),
        )
        for h in found.holdouts
    ]
    return replace(found, holdouts=tuple(holdouts))


def test_sentences_state_sizes_reach_errors_and_intervals_held(found):
    off = with_deviations(found, -0.03, -0.05)
    # fitted 4 to 5 of 6, reach 4; errors of exp(|log(1 - x)|) - 1; 0 of 3 inside 90 %
    assert figures(backtest_answer(off).text) == [4, 5, 6, 4, 3.0, 5.1, 90, 0, 3]
    unknown = with_deviations(found, 0.01, None)
    assert figures(backtest_answer(unknown).text) == [4, 5, 6, 4, 1.0, 90, 3, 3]
    assert "–" in summary_table(unknown).rows[0]
    assert figures(*tuned_sentences(off)) == [1.0, 2.0, 3]  # octaves, their factor, predictions
    nowhere = [replace(h, tuned_octaves={"lr": None}) for h in found.holdouts]
    assert tuned_sentences(replace(found, holdouts=tuple(nowhere))) == []


def test_chart_has_deviations_and_cuts_bars_that_dwarf_them(found):
    few = with_deviations(found, 0.03, -0.05)
    intervals, last, outside = backtest_chart(few).series
    assert outside.y == pytest.approx([0.03] * 3)
    assert last.y == pytest.approx([-0.05] * 3)
    assert intervals.lower == pytest.approx([-0.02] * 3)
    assert intervals.upper == pytest.approx([0.02] * 3)
    wide = replace(few.holdouts[0], predicted_pi=Interval(0.01, None))
    first, *_ = backtest_chart(replace(few, holdouts=(wide, *few.holdouts[1:]))).series
    assert first.upper[0] == pytest.approx(-first.lower[0])
    assert first.upper[0] < 0.1


def test_report_backtests_with_the_pins_and_the_band_of_its_forecast():
    runs, options = as_runs(sweep_frame()), {"band": "family", "fix": {"E": 1.6, "lr.b": -0.4}}
    made = forecast(runs, **options)
    assert pins_of(made) == options["fix"]
    unasked = tuple(flag for flag in made.flags if not flag.startswith("pinned"))
    assert pins_of(replace(made, flags=unasked)) == {"lr.b": -0.4}
    answer = backtest_answer(backtest(runs, **options)).text
    assert plain(answer) in text_of(forecast_page(made))
