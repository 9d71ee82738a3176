"""A sweep against its baseline: honest words in every case, a picture, tables behind it."""

import re
from dataclasses import replace

import pytest

from extrap.comparing import compare_losses, compare_slopes
from extrap.forecasting import forecast
from extrap.reporting.baselines import (
    baseline_blocks,
    baseline_text,
    loss_sentence,
    slope_sentences,
)
from extrap.reporting.blocks import Details, Figure
from extrap.reporting.forecast_answer import answer_rows
from extrap.reporting.forecast_charts import pair_chart
from extrap.reporting.forecast_page import report
from extrap.reporting.sizes import size_axis

from .conftest import RATES, as_runs, figures, plain, sweep_frame, tables_of

NAMES = ("muP", "standard")
REACH = 1024.0


def named(frame, name):
    return forecast(replace(as_runs(frame), source=name))


@pytest.fixture(scope="module")
def standard():
    """The sweep of all pages here: its best rate falls as width^-0.4."""
    return named(sweep_frame(), "standard")


@pytest.fixture(scope="module")
def still():
    """The same with its rates multiplied by width^0.4: the best rate stays put."""
    frame = sweep_frame()
    return named(frame.assign(lr=frame["lr"] * (frame["width"] / 16) ** 0.4), "muP")


@pytest.fixture(scope="module")
def edge():
    """Every optimum lies beyond the grid."""
    return named(sweep_frame(rates=RATES[:3]), "standard")


def with_slope(made, value, se):
    fit = made.tuned_laws["lr"]
    known = replace(
        fit, values=(fit.values[0], value), covariance=((0.0, 0.0), (0.0, se**2)), dof=1000
    )
    return replace(made, tuned_laws={"lr": known})


def said(ours, theirs):
    (contrast,) = compare_slopes(ours, theirs)
    return tuple(map(plain, slope_sentences(contrast, ours, theirs, names=NAMES, reach=REACH)))


def powers(text):
    return re.findall(r"width\^(\S+) ± ([\d.]+)", text)


def test_words_state_both_exponents_their_difference_and_the_movement(standard):
    ours, theirs = with_slope(standard, -0.02, 0.025), with_slope(standard, -0.41, 0.03)
    headline, apart = said(ours, theirs)
    # t(.975, 1000) = 1.96234 times each standard error; 64^(.02 + 1.96234 × .025) = 1.33
    assert powers(headline) == [("-0.020", "0.049"), ("-0.410", "0.059")]
    assert figures(headline)[-3:] == [16, 1024, 1.3]
    assert "serves all" in headline
    assert figures(apart) == [0.390, 0.077, 95]  # 1.96234 √(.025² + .03²)
    assert "more than chance" in apart


def test_lower_loss_is_claimed_only_beyond_chance(standard, still, edge):
    frame = sweep_frame()
    better = named(frame.assign(loss=0.9 * frame["loss"]), "muP")
    near, far, unknown = (
        compare_losses(*pair, target={"width": 512.0})[-1]
        for pair in ((standard, standard), (better, standard), (still, edge))
    )
    assert "equal to" in loss_sentence(near, names=NAMES)
    words = plain(loss_sentence(far, names=NAMES))
    assert "10 % below" in words
    low, high = figures(words)[-2:]
    assert low < -10 < high < 0
    assert figures(loss_sentence(unknown, names=NAMES)) == [512]


def blocks(still, standard):
    rows = answer_rows(still, ())
    return baseline_blocks(still, standard, size_axis(still), rows, title="muP")


def test_tables_and_chart_hold_exponents_losses_and_laws_of_both(still, standard, edge):
    slopes, losses = tables_of(blocks(still, standard))
    assert slopes.columns == ("exponent of", "muP", "standard", "difference")
    low, high = figures(slopes.rows[0][3].split("\n")[1])
    assert low < 0.4 < high
    assert [row[0] for row in losses.rows] == ["16", "32", "64", "128", "256", "2048"]
    assert [row[1] for row in losses.rows] == ["sweep"] * 5 + ["forecast"]
    chart = pair_chart(still, standard, size_axis(still), "lr", names=NAMES)
    law, optima, their_law, their_optima = chart.series
    assert (law.label, their_law.label) == NAMES
    assert optima.x == their_optima.x
    assert their_law.y[-1] == pytest.approx(standard.at(width=2048.0).tuned["lr"].value)
    at_edge = pair_chart(still, edge, size_axis(still), "lr", names=NAMES).series[-1]
    assert at_edge.lower[0] > 0
    assert all(y != y for y in at_edge.y)


def test_page_and_terminal_have_the_comparison_only_with_a_baseline(
    tmp_path, still, standard, judge
):
    evil = "<script>alert(1)</script>"
    other = replace(standard, runs=replace(standard.runs, source=evil))
    alone, html = (
        report(still, path=tmp_path / "a.html", title="muP", **options).read_text("utf-8")
        for options in ({}, {"baseline": other})
    )
    assert "Comparison with" not in alone
    assert "Comparison with &lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert html.count("<script") == 3
    details = blocks(still, standard)[-1]
    assert isinstance(details, Details)
    assert any(isinstance(b, Figure) for c in details.blocks[1:2] for b in c.blocks)
    text = baseline_text(still, standard, judge(), title="muP")
    headline, rest = text.splitlines()
    assert figures(headline)[-3:] == [16, 1024, 1.2]
    point = still.at(width=1024)  # the largest judged size
    assert figures(rest)[3:7] == pytest.approx([1024, point.loss, *point.loss_ci], abs=1e-3)
    assert "\u00a0" not in text


def test_baseline_of_other_columns_or_level_is_refused(tmp_path, still, standard):
    best = sweep_frame().groupby(["width", "seed"], as_index=False)["loss"].min()
    untuned = forecast(as_runs(best, tuned=()))
    with pytest.raises(ValueError, match="tuned columns"):
        report(still, path=tmp_path / "p.html", baseline=untuned)
    with pytest.raises(ValueError, match="level"):
        report(still, path=tmp_path / "p.html", baseline=replace(standard, level=0.9))
