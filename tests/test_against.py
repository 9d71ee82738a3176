"""Other methods on the same splits: who is better, what is looked up, and what is stated."""

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import against, against_sets, backtest, calibrate, target_search
from benchmarks.rows import DATA
from benchmarks.sweeps import SimulatedSweep
from extrap.reporting.tables import color_of

ROOT = Path(__file__).parents[1]
ERRORS = {
    "extrap": [0.01, 0.02, 0.03, 0.02],
    "worse": [0.03, 0.05, 0.04, 0.05],
    "better": [0.005, 0.01, 0.015, 0.01],
    "mixed": [0.005, 0.03, 0.02, 0.035],
}


def made_up(errors=ERRORS, **columns):
    """A set of one split per cluster."""
    frames = [
        pd.DataFrame({"error": own, "cluster": range(len(own)), "method": method})
        for method, own in errors.items()
    ]
    scores = pd.concat(frames, ignore_index=True)
    scores = scores.assign(ladder=scores["cluster"], split=scores["cluster"].astype(str))
    return against_sets._named(scores, **columns)


def test_columns_of_objects_are_numbers_too():
    """As of frames that are put together from some with and some without a figure."""
    scores = made_up().astype({"error": object})
    assert against.compare(scores, "worse", "error").verdict == against.OURS_BETTER
    assert len(against.table_of(against.SplitSet("made up", "", scores)).rows) == 4


def test_paired_differences_decide_who_is_better():
    scores = made_up()
    verdicts = {m: against.compare(scores, m, "error").verdict for m in ERRORS if m != "extrap"}
    assert verdicts == {
        "worse": against.OURS_BETTER,
        "better": against.PEER_BETTER,
        "mixed": against.TIE,
    }
    # differences .02, .03, .01, .03: sd .0095743, and t of 3 degrees of freedom is 3.18245
    difference = against.compare(scores, "worse", "error").difference
    assert difference == pytest.approx((0.0225, 0.0225 - 0.015235, 0.0225 + 0.015235), abs=1e-6)


def test_two_clusters_are_not_compared():
    few = {method: errors[:2] for method, errors in ERRORS.items()}
    scores = made_up(few)
    assert against.compare(scores, "worse", "error") is None
    set_ = against.SplitSet("made up", "", scores)
    assert against.count_verdicts([set_], "error").n == 0
    assert against.table_of(set_).rows[1][1] == "4 %"
    assert against.answer([set_]).text == "No comparison that counts was measured."


def test_an_infinite_figure_is_worse_than_any_finite_one():
    infinite = [0.01, np.inf, 0.01, 0.01]
    finite = [0.9] * 4
    ours_is_finite = made_up({"extrap": finite, "open": infinite, "closed": finite})
    assert against.compare(ours_is_finite, "open", "error").verdict == against.OURS_BETTER
    ours_is_infinite = made_up({"extrap": infinite, "open": infinite[::-1], "closed": finite})
    assert against.compare(ours_is_infinite, "open", "error").verdict == against.TIE
    assert against.compare(ours_is_infinite, "closed", "error").verdict == against.PEER_BETTER
    rows = against.table_of(against.SplitSet("made up", "", ours_is_infinite)).rows
    assert [row[1].partition("\n")[0] for row in rows] == ["∞", "∞", "90 %"]


def test_missing_forecasts_of_a_peer_are_left_out_of_both_sides():
    """On the two splits that it lacks extrap is very wrong, which counts for neither."""
    scores = made_up({"extrap": [0.01, 0.02, 0.01, 0.9, 0.9], "peer": [0.02, 0.03, 0.02]})
    found = against.compare(scores, "peer", "error")
    assert found.verdict == against.OURS_BETTER
    assert found.difference[0] == pytest.approx(0.01)
    assert against.compare(scores, "another", "error") is None


def test_a_cell_shows_what_both_reach_on_the_splits_that_both_have():
    nan = np.nan
    errors = {"extrap": [0.01, 0.02, 0.01, 0.9, nan], "peer": [0.02, 0.03, 0.02, nan, 0.7]}
    scores = made_up(errors)
    ours, theirs = against.table_of(against.SplitSet("made up", "", scores)).rows
    assert ours[1] == "23.5 %"
    assert [*theirs] == ["peer\n4 of 5 splits", "2.33 %\nextrap there 1.33 %\n▼ extrap better"]


def test_coverage_is_compared_by_its_distance_to_the_level():
    held = {"extrap": [1.0, 0.9, 1.0, 0.9], "narrow": [0.5, 0.6, 0.5, 0.5], "right": [0.9] * 4}
    scores = made_up(held).rename(columns={"error": "held", "held": "error"})
    assert against.compare(scores, "narrow", "held").verdict == against.OURS_BETTER
    # without a cluster of 1 |mean - .9| is .033, without one of .9 .067: pseudo-values 0 and -.1
    difference = against.compare(scores, "right", "held").difference
    assert difference == pytest.approx((-0.05, -0.05 - 0.091869, -0.05 + 0.091869), abs=1e-6)


def test_ladders_of_a_cluster_weigh_alike():
    scores = pd.DataFrame(
        {
            "cluster": ["a", "a", "a", "b"],
            "ladder": ["one", "one", "two", "three"],
            "error": [1.0, 3.0, 6.0, 5.0],
        }
    )
    assert against.cluster_means(scores, "error").to_dict() == {"a": 4.0, "b": 5.0}


def test_cells_where_a_peer_is_better_are_marked_in_words_and_color_as_those_of_extrap():
    table = against.table_of(against.SplitSet("made up", "", made_up(bias=0.0)))
    cells = {row[0]: row[1] for row in table.rows}
    assert "▲ peer better" in cells["better"]
    assert color_of(cells["better"]) == "bad"
    assert "▼ extrap better" in cells["worse"]
    assert color_of(cells["worse"]) == "good"
    assert "= tie" in cells["mixed"]
    assert color_of(cells["mixed"]) == color_of(cells["extrap"]) == ""
    assert cells["extrap"] == "2 %"


def test_answer_counts_both_directions_and_names_where_a_peer_is_better():
    sets = [
        against.SplitSet("made up", "", made_up(), ("one", "two")),
        against.SplitSet("not counted", "", made_up(), ("three",), is_counted=False),
    ]
    text = against.answer(sets).text
    assert text == (
        "extrap is better in 1 of 3 comparisons, a peer in 1, 1 is a tie (1 of 3 errors, a peer "
        "in 1). 2 data sets stand behind them."
    )
    wins = against.peer_wins(sets)[0].text
    assert "made up: better; not counted: better" in wins
    assert "made up: worse" not in wins
    assert against.page_of(sets).blocks[0].text == text


def test_times_of_sets_that_are_not_counted_are_not_counted():
    scores = made_up(seconds=[2.0] * 4 + [1.0] * 12)
    sets = [against.SplitSet("made up", "", scores, is_counted=c) for c in (True, False)]
    last = against.peer_wins(sets)[-1].text
    assert last == "A peer is faster in 3 of 3 comparisons of times."


def test_nothing_measured_writes_no_page(tmp_path, capsys):
    against.write(against_sets.all_sets({}), tmp_path / "against.html")
    assert not list(tmp_path.iterdir())
    assert "left out" in capsys.readouterr().out


def test_parts_without_tables_are_left_out_in_a_line_each(tmp_path, capsys, monkeypatch):
    only = ["curves", "gadre", "ladders", "batch"]
    arguments = ["backtest", str(tmp_path), "--only", *only, "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", arguments)
    backtest.main()
    lines = capsys.readouterr().out.splitlines()
    left_out = [line.partition(":")[0] for line in lines if ": left out, " in line]
    assert left_out[:4] == only


def grid(best=-8.0):
    """Rates an octave apart with two seeds; the highest diverges."""
    octaves = np.arange(-11.0, -4.0).repeat(2)
    loss = np.exp(0.03 * (octaves - best) ** 2 + np.tile([0.001, -0.001], 7))
    loss[-2:] = np.inf
    return pd.DataFrame({"lr": 2.0**octaves, "loss": loss})


def test_a_run_is_looked_up_at_the_nearest_values_of_the_grid():
    looked_up = target_search.grid_of(grid(), ["lr"])
    assert looked_up.extra(np.array([-8.4])) == 0
    assert looked_up.extra(np.array([-9.6])) == pytest.approx(0.03 * 4)
    assert looked_up.extra(np.array([-3.0])) == pytest.approx(0.999)
    seen = {looked_up.seen(np.array([-8.2]), np.random.default_rng(i)) for i in range(20)}
    assert sorted(seen) == pytest.approx([-0.001, 0.001])


def target(compute):
    looked_up = target_search.grid_of(grid(), ["lr"])
    values = {"extrap": np.array([-8.0]), "smallest size's values": np.array([-6.0])}
    ends = np.array([-11.0]), np.array([-5.0])
    return target_search.Target(
        "set", "c", "s", values, *ends, compute, looked_up.extra, looked_up.seen
    )


def test_a_refused_forecast_has_no_figure_and_is_counted():
    refused = target(3.0)._replace(values={"extrap": None, "other": np.array([-8.0])})
    rows = pd.DataFrame(target_search.judge(refused, 1))
    assert rows.set_index("method")["extra"].isna().to_dict() == {
        "extrap": True,
        "other": False,
        target_search.TPE: False,
    }
    (set_,) = against_sets.searches(rows)
    assert "a median of 3 runs" in set_.note
    assert "extrap refuses 1 of 1 targets" in set_.note
    assert against.table_of(set_).rows[0][0] == "extrap\n0 of 1 splits"


def test_medians_of_runs_that_simulated_sweeps_buy_are_those_stated():
    bought = {ratio: [] for ratio in target_search.RATIOS}
    for number in range(target_search.N_SWEEPS):
        rng = np.random.default_rng([target_search.DRAWS, number])
        sizes = SimulatedSweep(calibrate.draw(rng), rng).table["x"]
        for ratio, runs in bought.items():
            runs.append(int(sizes.sum() / (sizes.max() * ratio)))
    medians = [int(np.median(runs)) for runs in bought.values()]
    assert medians == [13, 6, 3, 1]
    assert "buys a median of 13, 6, 3 and 1 runs" in " ".join(target_search.__doc__.split())


def test_search_at_the_target_has_as_many_runs_as_the_small_sweep_buys():
    methods = {
        compute: {r["method"]: r["extra"] for r in target_search.judge(target(compute), 20)}
        for compute in (0.8, 1.9, 30.0)
    }
    assert np.isnan(methods[0.8][target_search.TPE])
    # one random rate of a range of six octaves: on average farther off than two octaves' cost
    assert 0.03 < methods[1.9][target_search.TPE] < 0.27
    assert methods[30.0][target_search.TPE] < 0.01
    assert methods[0.8]["extrap"] == 0
    assert methods[0.8]["smallest size's values"] == pytest.approx(0.12)


PUBLISHED = re.compile(
    r"Gadre|Step Law|Chinchilla's law|- Chinchilla|Porian|Alabdulmohsin|published|Misfitting|Zhang"
    r"|nine sources|eight sources|public ladders|inner runs of these"
)
SECTIONS = ("## Where a run ends",)
OF_THE_PAGE = "## Against the others"
ELSEWHERE = (
    "default study |",  # its own study
    "Figure |",
    "4,000 refits",  # times
    "over before",  # needs the scores of an earlier version
    "`extrap",
)
"""Beginnings of rows that name published runs and do not rest on their tables alone."""


def rows_on_published_tables():
    """First words of the rows of docs/measured.md that rest on published tables."""
    section, rows = "", []
    for line in (ROOT / "docs" / "measured.md").read_text(encoding="utf-8").splitlines():
        section = line if line.startswith("## ") else section
        is_row = line.startswith(("| ", "- ")) and section != OF_THE_PAGE
        if is_row and (PUBLISHED.search(line) or section in SECTIONS):
            rows.append(line.removeprefix("| "))
    return [row for row in rows if not row.startswith(ELSEWHERE)]


def test_every_row_that_rests_on_published_tables_is_printed_by_a_part_of_make_backtest():
    stated = [begin for part in backtest.parts(DATA).values() for begin in part.stated]
    rows = rows_on_published_tables()
    assert len(rows) > 25
    assert [row for row in rows if not row.startswith(tuple(stated))] == []


def test_every_row_that_a_part_states_is_there():
    text = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    lines = [line.removeprefix("| ") for line in text.splitlines()]
    for name, part in backtest.parts(DATA).items():
        for begin in part.stated:
            assert any(line.startswith(begin) for line in lines), f"{name}: {begin}"
