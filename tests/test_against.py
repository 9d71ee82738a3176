"""Other methods on the same splits: who is better, what is looked up, and what is shipped."""

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import against, backtest, peers, target_search
from benchmarks.rows import DATA
from benchmarks.scores import Table
from extrap.reporting.tables import color_of

ROOT = Path(__file__).parents[1]
ERRORS = {
    "extrap": [0.01, 0.02, 0.03, 0.02],
    "worse": [0.03, 0.05, 0.04, 0.05],
    "better": [0.005, 0.01, 0.01, 0.015],
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
    return against._named(scores, **columns)


def test_paired_differences_decide_who_is_better():
    scores = made_up()
    verdicts = {m: against.compare(scores, m, "error").verdict for m in ERRORS if m != "extrap"}
    assert verdicts == {
        "worse": against.OURS_BETTER,
        "better": against.PEER_BETTER,
        "mixed": against.TIE,
    }
    difference = against.compare(scores, "worse", "error").difference
    assert difference[0] == pytest.approx(0.0225)  # (.02 + .03 + .01 + .03) / 4
    assert 0.0099 < difference[1] < difference[0] < difference[2] < 0.0301


def test_two_clusters_decide_nothing():
    few = {method: errors[:2] for method, errors in ERRORS.items()}
    assert against.compare(made_up(few), "worse", "error").verdict == against.TIE


def test_missing_forecasts_of_a_peer_are_left_out_of_both_sides():
    """On the two splits that it lacks extrap is very wrong, which counts for neither."""
    scores = made_up({"extrap": [0.01, 0.02, 0.01, 0.9, 0.9], "peer": [0.02, 0.03, 0.02]})
    found = against.compare(scores, "peer", "error")
    assert found.verdict == against.OURS_BETTER
    assert found.difference[0] == pytest.approx(0.01)
    assert against.compare(scores, "another", "error") is None


def test_coverage_is_compared_by_its_distance_to_the_level():
    held = {"extrap": [1.0, 0.9, 1.0, 0.9], "narrow": [0.5, 0.6, 0.5, 0.5], "right": [0.9] * 4}
    scores = made_up(held).rename(columns={"error": "held", "held": "error"})
    assert against.compare(scores, "narrow", "held").verdict == against.OURS_BETTER
    difference = against.compare(scores, "right", "held").difference
    assert difference[0] == pytest.approx(-0.05)


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
    sets = [against.SplitSet("made up", "", made_up())]
    text = against.answer(sets).text
    assert text.startswith("extrap is better in 1 of 3 comparisons, a peer in 1, 1 are ties")
    assert "made up: better" in against.worse(sets)[0].text
    assert "made up: worse" not in against.worse(sets)[0].text
    assert against.page_of(sets).blocks[0].text == text


def test_nothing_measured_writes_no_page(tmp_path, capsys):
    against.write(against.sets({}), tmp_path / "against.html")
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


@pytest.mark.parametrize("n_columns", [1, 2])
def test_variable_projection_finds_an_exact_law(n_columns):
    rng = np.random.default_rng(0)
    sizes = 10 ** rng.uniform([7, 9], [9, 11], (30, 2))[:, :n_columns]
    exponents, amplitudes = np.array([0.34, 0.28])[:n_columns], np.array([406.4, 410.7])

    def loss(at):
        return 1.69 + (amplitudes[:n_columns] * at**-exponents).sum(axis=1)

    law = peers.vpnls(sizes, loss(sizes))
    assert law.exponents == pytest.approx(exponents, rel=0.02)
    assert law.coefficients[0] == pytest.approx(1.69, rel=0.01)
    far = 10 * sizes.max(axis=0)[None]
    assert law.losses(far) == pytest.approx(loss(far), rel=1e-3)


def test_trivial_methods_forecast_what_they_say():
    fitted = pd.DataFrame(
        {"params": [1.0, 4.0, 4.0], "tokens": [1.0, 1.0, 64.0], "loss": [4.0, 3.0, 2.0]}
    )
    truth = pd.DataFrame({"params": [16.0, 16.0], "tokens": [2.0, 100.0], "loss": [2.5, 1.5]})
    table = Table("t", "g", ("params", "tokens"), fitted, truth)
    assert peers.last_value(table).log == pytest.approx(np.log([3.0, 2.0]))
    sizes = np.array([1.0, 2.0, 4.0, 8.0])
    fitted = pd.DataFrame({"params": sizes, "loss": 5 * sizes**-0.5})
    table = Table("t", "g", ("params",), fitted, pd.DataFrame({"params": [32.0], "loss": [1.0]}))
    assert peers.straight_line(table).log == pytest.approx(np.log([5 * 32**-0.5]))


def test_summary_of_a_peer_is_that_of_its_larger_runs():
    truth = pd.DataFrame({"params": [2.0, 4.0], "loss": [np.e, np.e]})
    split = peers.Split(peers.COMPUTE, "l", Table("t", "g", ("params",), truth, truth))
    made = peers.Forecasts(np.array([1.1, 0.7]), np.array([0.9, 0.6]), np.array([1.2, 0.8]))
    row = peers.summary(split, "m", made, 0.5)
    assert row["error"] == pytest.approx(0.2)
    assert row["bias"] == pytest.approx(-0.1)
    assert row["held"] == 0.5
    assert row["score"] == pytest.approx((0.3 + 0.2 + 20 * 0.2) / 2)  # Gneiting, Raftery Eq. 43
    assert np.isnan(peers.summary(split, "m", peers.Forecasts(made.log), 0.5)["score"])


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


def test_shipped_forecasts_of_peers_cover_the_splits_that_are_made_now():
    if not (DATA / "steplaw.csv").is_file():
        pytest.skip("the published tables are not there")
    shipped = pd.read_csv(peers.PEERS, comment="#")
    splits = list(peers.loss_splits())
    assert {s.set for s in splits} == set(shipped["set"])
    names = {(s.set, s.name) for s in splits}
    own = shipped[shipped["method"] == "simple-scaling-laws"]
    assert set(zip(own["set"], own["split"], strict=True)) == names
    two = {(s.set, s.name) for s in splits if s.table.sizes == ("params", "tokens")}
    own = shipped[shipped["method"] == "chinchilla"]
    assert set(zip(own["set"], own["split"], strict=True)) == two
    assert peers.PEERS.stat().st_size < 300_000


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
