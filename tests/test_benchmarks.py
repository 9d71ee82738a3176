"""The table of figures and its page, on a few replicates; the figures are `make backtest`'s."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import peers, samplers, simulated, verb
from benchmarks.backtest import WORDS, conclusion, parts
from benchmarks.page import headline, write_page
from benchmarks.pictures import plates
from benchmarks.rows import DATA, Row, gadre_sets
from benchmarks.table import print_rows, write_csv

ROWS = [
    Row(part="a", figure="x", target="≤ 1", reached="0.5", met=True, note="said once"),
    Row(part="a", figure="y", target="≤ 1", reached="1.5", met=False, note="said once"),
    Row(part="b", figure="z", reached="3"),
]


@pytest.fixture(scope="module")
def found() -> dict[str, pd.DataFrame]:
    first = {}
    for number, (kind, *_) in enumerate(simulated.settings()):
        first.setdefault(kind, number)
    rows = [row for number in first.values() for row in simulated.simulate((number, 1))]
    return {"simulated": pd.DataFrame(rows), "verb": verb.judge_sweeps(Path("nowhere"))}


def test_terminal_says_met_and_missed_in_words(capsys):
    print_rows(ROWS)
    said = capsys.readouterr().out
    assert "MISSED [1]" in said
    assert "no target" in said
    assert said.count("said once") == 1


def test_csv_has_a_line_a_row(tmp_path):
    write_csv(ROWS, tmp_path / "rows.csv")
    assert list(pd.read_csv(tmp_path / "rows.csv")["met"]) == ["met", "MISSED", "no target"]


def test_conclusion_counts_targets():
    assert headline(ROWS) == "1 of 2 targets met, 1 missed."
    assert "Missed: a: y" in conclusion(ROWS, {"part": 1.0})


def test_page_without_published_tables_is_whole(found, tmp_path):
    path = tmp_path / "page.html"
    write_page(ROWS, plates(found), {"part": 1.0}, ["steplaw.csv"], words=WORDS, path=path)
    html = path.read_text(encoding="utf-8")
    assert "1 of 2 targets met" in html
    assert "steplaw.csv" in html
    assert html.count("<svg") == 2
    assert "http" not in html.replace("http-equiv", "")


def test_every_published_table_is_asked_for_by_name():
    asked = {table for part in parts(DATA, 1).values() for table in part.tables}
    assert asked >= {"steplaw.csv", "gadre_mlfoundations.csv", "chinchilla_epoch.csv"}
    if DATA.is_dir():
        assert all((DATA / table).is_file() for table in asked)


def test_peers_were_measured_on_all_curves_and_sets():
    table = peers.read_peers()
    curves = table[table["part"] == "92 curves"]
    assert curves["set"].nunique() == 92
    assert curves.groupby("domain").size().to_dict() == {"BB": 10, "IC": 72, "LM": 5, "NMT": 5}
    sets = table[table["part"].str.startswith("Gadre")].groupby(["part", "peer", "setting"])
    assert set(sets.size()) == {3}
    assert set(sets["n"].sum()) == {32, 26}


def test_warm_up_rule_leaves_out_two_targets_a_set():
    if not (DATA / "gadre_mlfoundations.csv").is_file():
        pytest.skip("the published tables are not there")
    for runs in gadre_sets(DATA).values():
        large = runs[runs["params"] > 154e6]
        assert large["long_warmup"].sum() == 2
        assert not large.loc[large["params"] > 1e9, "long_warmup"].any()


def test_every_sampler_is_measured_on_every_bed():
    beds = list(samplers.beds(Path("nowhere")))
    table = pd.DataFrame(
        [row for name in beds for row in samplers.replicate((name, Path("nowhere"), 0))]
        + samplers.replicate_optuna((beds[0], "tpe", 0))
    )
    budgets = table.groupby(["bed", "sampler"]).size().unstack()
    assert (budgets[["grid", "law", "random"]] == [3, 4, 2]).all(axis=None)
    assert (table["runs"] <= table["share"] + 1e-9).all()
    with_target = [row.part for row in samplers.rows(table) if row.target]
    assert with_target == [f"samplers: {name}" for name in beds]


def test_share_needed_is_read_off_between_two_budgets():
    table = pd.DataFrame(
        {
            "bed": "b",
            "sampler": ["grid", "law", "law", "slow", "slow"],
            "share": [1, 0.25, 1, 0.5, 1],
            "runs": [1, 0.25, 1, 0.5, 1],
            "error": [0.02, 0.04, 0.01, 0.05, 0.04],
        }
    )
    assert samplers.share_needed(table, "b", "law") == pytest.approx(0.5)
    assert samplers.share_needed(table, "b", "grid") == 1
    assert math.isnan(samplers.share_needed(table, "b", "slow"))
