"""A sweep against its baseline: honest words in every case, a picture, tables behind it."""

from __future__ import annotations

import re
from dataclasses import replace

import pandas as pd
import pytest

from extrap.comparing import compare_losses, compare_slopes
from extrap.forecasting import forecast
from extrap.reporting import baseline_text, report
from extrap.reporting.answer import answer_rows
from extrap.reporting.baselines import baseline_section, loss_sentence, slope_sentences
from extrap.reporting.figures import optimum_pair_info
from extrap.reporting.sizes import size_axis

from .conftest import RATES, as_runs, sweep_frame

NAMES = ("muP", "standard")
REACH = 1024.0


def named(frame: pd.DataFrame, name: str):
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


def with_slope(made, value: float, se: float):
    fit = made.tuned_laws["lr"]
    known = replace(
        fit, values=(fit.values[0], value), covariance=((0.0, 0.0), (0.0, se**2)), dof=1000
    )
    return replace(made, tuned_laws={"lr": known})


def said(ours, theirs) -> tuple[str, str]:
    (contrast,) = compare_slopes(ours, theirs)
    found = slope_sentences(contrast, ours, theirs, names=NAMES, reach=REACH)
    return tuple(text.replace("\u00a0", " ") for text in found)


def test_rate_that_stays_put_serves_all_and_one_that_falls_is_tuned_again(standard) -> None:
    ours, theirs = with_slope(standard, -0.02, 0.025), with_slope(standard, -0.41, 0.03)
    headline, apart = said(ours, theirs)
    assert headline == (
        "The best lr moves as width^−0.020 ± 0.049 under muP, as width^−0.410 ± 0.059 under "
        "standard: under muP one lr, tuned at any width, serves all from width 16 to 1024 (the "
        "optimum moves by a factor of 1.3 at most); under standard it has to be tuned again, or "
        "forecast, at another width."
    )
    assert apart == (
        "The exponents differ by 0.390 ± 0.077, which is more than chance allows. ± is half of "
        "the 95 % interval."
    )


def test_wide_interval_around_zero_is_not_called_still(standard) -> None:
    headline, apart = said(with_slope(standard, 0.0, 0.2), with_slope(standard, -0.41, 0.2))
    assert "under muP no movement and one by a factor of 5.1 from width 16 to 1024" in headline
    assert "add sizes or seeds" in headline
    assert "serves all" not in headline
    assert "0.41 ± 0.55, which may be chance" in apart


def test_slow_movement_is_said_with_its_factor(standard) -> None:
    headline, _ = said(with_slope(standard, 0.1, 0.01), with_slope(standard, 2.0, 0.1))
    assert "under muP it does move, but by a factor of 1.6 at most from width 16 to 1024" in (
        headline
    )
    assert "under standard it has to be tuned again" in headline


def test_hopeless_factor_is_not_given_digits(standard) -> None:
    headline, _ = said(with_slope(standard, 0.0, 3.0), with_slope(standard, 0.0, 3.0))
    assert headline.count("a factor of 100 or more") == 2


def test_bracketing_that_fails_in_one_sweep_is_said(still, edge) -> None:
    headline, apart = said(still, edge)
    assert headline.startswith("The best lr moves as width^−0.006 ± 0.037 under muP: ")
    assert "under standard 0 of 5 sizes have a bracketed optimum, too few for a law" in headline
    assert "widen its range of lr" in headline
    assert "With one of the exponents unknown" in apart
    assert said(edge, still)[0].count(" moves as ") == 1


def test_nothing_is_claimed_where_neither_is_bracketed(edge) -> None:
    headline, apart = said(edge, edge)
    assert headline.startswith("How the best lr moves is not known: under muP 0 of 5 sizes")
    assert apart == ""


def test_pinned_exponent_shows_nothing(still) -> None:
    pinned = forecast(as_runs(sweep_frame()), fix={"lr.b": 0.0})
    headline, _ = said(pinned, still)
    assert "under muP the exponent was pinned, so this shows nothing" in headline
    assert "under standard one lr" in headline


def test_law_that_bends_has_no_one_exponent(still) -> None:
    frame = sweep_frame(widths=(16, 32, 64, 128, 256, 512))
    octaves = (frame["width"].map({16: 0, 32: 1, 64: 2, 128: 3, 256: 4, 512: 5}) - 2.5) ** 2
    bent = named(frame.assign(lr=frame["lr"] * 2 ** (0.3 * octaves)), "muP")
    headline, _ = said(bent, still)
    assert "under muP the law bends, so one exponent does not hold at all sizes" in headline
    assert "the sweep's optima lie within a factor of" in headline


def test_lower_loss_is_claimed_only_beyond_chance(standard) -> None:
    frame = sweep_frame()
    better = named(frame.assign(loss=0.9 * frame["loss"]), "muP")
    near, far = (
        compare_losses(ours, standard, target={"width": 512.0})[-1] for ours in (standard, better)
    )
    assert "equal to that of standard; a difference of" in loss_sentence(near, names=NAMES)
    words = loss_sentence(far, names=NAMES).replace("\u00a0", " ")
    assert re.search(r"10 % below that of standard \(−\d.* to −\d.* %\)\.$", words)


def test_unknown_loss_is_not_compared(still, edge) -> None:
    row = compare_losses(still, edge, target={"width": 512.0})[-1]
    assert loss_sentence(row, names=NAMES).startswith("Which of them reaches the lower loss")


def section(still, standard, **options):
    rows = answer_rows(still, ())
    return baseline_section(still, standard, size_axis(still), rows, title="muP", **options)


@pytest.mark.usefixtures("without_ink")
def test_tables_hold_exponents_and_losses_of_both(still, standard) -> None:
    slopes, losses = section(still, standard).tables
    assert slopes.columns == ("exponent of", "muP", "standard", "difference")
    assert slopes.rows[0][0] == "lr over width"
    interval = slopes.rows[0][3].split("\n")[1].replace("−", "-").split(" to ")
    low, high = map(float, interval)
    assert low < 0.4 < high
    assert [row[0] for row in losses.rows] == ["16", "32", "64", "128", "256", "2048"]
    assert [row[1] for row in losses.rows] == ["sweep"] * 5 + ["forecast"]
    assert "independent" in losses.note


def test_picture_has_both_laws_and_both_rows_of_optima(still, standard) -> None:
    info = optimum_pair_info(still, standard, size_axis(still), "lr")
    assert list(info.baseline.optima["x"]) == list(info.sweep.optima["x"])
    at_end = standard.at(width=2048.0).tuned["lr"].value
    assert info.baseline.curve["value"].iloc[-1] == pytest.approx(at_end)
    (plate,) = section(still, standard).plates
    for words in ("muP: the law", "standard: the law", "muP: optima", "standard: optima"):
        assert words in plate.svg
        assert words in plate.narrow_svg
    assert [t.caption for t in plate.tables] == [
        "Best lr of each size (95\u00a0% intervals)",
        "muP: the law of the best lr",
        "standard: the law of the best lr",
    ]


def test_law_of_a_baseline_begins_at_its_own_smallest_size(still) -> None:
    later = named(sweep_frame(widths=(64, 128, 256, 512)), "standard")
    info = optimum_pair_info(still, later, size_axis(still), "lr")
    assert 64 <= info.baseline.curve["x"].iloc[0] < 70
    assert info.sweep.curve["x"].iloc[0] == 16
    losses = section(still, later).tables[1]
    assert [row[0] for row in losses.rows] == ["64", "128", "256", "2048"]


def test_picture_of_an_unbracketed_baseline_points_to_its_optima(still, edge) -> None:
    (plate,) = section(still, edge).plates
    assert "standard has no law of the best lr to draw" in plate.text
    assert "Triangles" in plate.text
    assert plate.tables[0].rows[0][2].startswith("at least")


def test_page_has_the_section_only_with_a_baseline(tmp_path, still, standard) -> None:
    alone = report(still, path=tmp_path / "a.html", title="muP").read_text(encoding="utf-8")
    html = report(still, path=tmp_path / "b.html", title="muP", baseline=standard).read_text(
        encoding="utf-8"
    )
    assert 'id="baseline"' not in alone
    body = html.split('<section id="baseline">')[1].split("</section>")[0]
    assert "<h2>Against standard</h2>" in body
    assert '<p class="headline">The best lr moves as' in body
    assert body.count("<figure>") == 1
    assert "<summary>The numbers behind it</summary>" in body
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(set(ids)) == len(ids)
    assert not re.search(r"\bnan\b", body)
    after = 'id="backtest-section"'
    rest = [page.split(after)[1].split("<script")[0] for page in (html, alone)]
    assert rest[0] == rest[1]


def test_same_comparison_gives_the_same_section(still, standard) -> None:
    assert section(still, standard) == section(still, standard)


@pytest.mark.usefixtures("without_ink")
def test_names_of_both_sweeps_are_escaped_and_never_alike(tmp_path, still) -> None:
    evil = "<script>alert(1)</script>"
    other = replace(still, runs=replace(still.runs, source=evil))
    html = report(still, path=tmp_path / "p.html", title=evil, baseline=other).read_text(
        encoding="utf-8"
    )
    assert html.count("<script") == 2
    assert "Against &lt;script&gt;alert(1)&lt;/script&gt; (baseline)" in html


def test_terminal_says_what_the_page_says(tmp_path, still, standard, judge) -> None:
    text = baseline_text(still, standard, judge(), title="muP")
    headline, rest = text.splitlines()
    assert "from width 16 to 1024" in headline
    assert "Tuned at width 1024, muP is forecast" in rest
    assert "\u00a0" not in text


@pytest.mark.usefixtures("without_ink")
def test_difference_of_recorded_conditions_is_told(still, standard) -> None:
    ours, theirs = (
        forecast(
            replace(
                as_runs(made.runs.to_frame().assign(rule=rule, steps=100)),
                conditions=("rule", "steps"),
                source=rule,
            )
        )
        for made, rule in ((still, "mup"), (standard, "plain"))
    )
    text = section(ours, theirs).text
    assert text.endswith("The recipe of plain differs in rule (plain instead of mup).")


@pytest.mark.usefixtures("without_ink")
def test_losses_alone_are_compared_where_nothing_is_tuned(tmp_path) -> None:
    best = sweep_frame().groupby(["width", "seed"], as_index=False)["loss"].min()
    made, worse = (
        forecast(as_runs(best.assign(loss=factor * best["loss"]), tuned=()))
        for factor in (1.0, 1.1)
    )
    html = report(made, path=tmp_path / "p.html", baseline=worse).read_text(encoding="utf-8")
    body = html.split('<section id="baseline">')[1].split("</section>")[0]
    assert "headline" not in body
    assert "<figure>" not in body
    assert "9.1\u00a0% below" in body


@pytest.mark.usefixtures("without_ink")
def test_several_tuned_and_size_columns_are_each_compared(tmp_path) -> None:
    from .test_page import grid_frame

    frame = grid_frame(n_params=(1e6, 2e6, 4e6), n_tokens=(1e8, 4e8, 16e8), lr=RATES)
    made = forecast(as_runs(frame, ("n_params", "n_tokens")))
    html = report(made, path=tmp_path / "p.html", baseline=made).read_text(encoding="utf-8")
    body = html.split('<section id="baseline">')[1].split("</section>")[0]
    assert body.count('class="headline"') == 2
    assert "lr over n_params" in body
    assert "lr over n_tokens" in body


def test_baseline_of_other_columns_or_level_is_refused(tmp_path, still, standard) -> None:
    best = sweep_frame().groupby(["width", "seed"], as_index=False)["loss"].min()
    untuned = forecast(as_runs(best, tuned=()))
    with pytest.raises(ValueError, match="tuned columns"):
        report(still, path=tmp_path / "p.html", baseline=untuned)
    with pytest.raises(ValueError, match="level"):
        report(still, path=tmp_path / "p.html", baseline=replace(standard, level=0.9))
