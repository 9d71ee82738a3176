"""The recommended value, known rules, and values that are kept, in words and tables."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from extrap.forecasting import forecast
from extrap.reporting import report
from extrap.reporting.answer import answer_rows
from extrap.reporting.choice_tables import rules_table, transfer_table
from extrap.reporting.choices import differs, recommendation_sentence, transfer_sentence
from extrap.reporting.glossary import RULE_NAMES
from extrap.reporting.tables import answer_table

from .conftest import RATES, as_runs, sweep_frame

SIZE = {"width": 1024.0}


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_only_a_value_more_than_a_percent_off_is_worth_telling(made) -> None:
    found = made.recommend(**SIZE)
    assert not differs(None)
    assert not differs(replace(found, octaves={"lr": -0.014}))
    assert differs(replace(found, octaves={"lr": -0.016}))


def test_recommendation_states_value_reason_and_both_costs(made) -> None:
    found = replace(
        made.recommend(**SIZE),
        tuned={"lr": 0.0025},
        octaves={"lr": math.log2(0.9)},
        expected_excess=math.log(1.002),
        at_optimum=math.log(1.0034),
    )
    assert plain(recommendation_sentence(made, found)) == (
        "Recommended is lr = 0.0025, 10 % below the optimum, because a value too high costs more "
        "than one too low. The true optimum is known only within its interval, so either is "
        "expected to cost loss: 0.20 % at the recommended value, 0.34 % at the optimum."
    )


def test_recommendation_of_two_values_names_each(made) -> None:
    found = replace(
        made.recommend(**SIZE),
        tuned={"lr": 0.0025, "batch": 64.0},
        octaves={"lr": math.log2(0.9), "batch": math.log2(1.2)},
    )
    text = plain(recommendation_sentence(made, found))
    assert "lr = 0.0025, batch = 64, lr 10 % below, batch 20 % above the optimum" in text
    assert "faster on one side" in text


def test_divergence_is_the_reason_where_it_moves_the_value(diverging) -> None:
    found = diverging.recommend(**SIZE)
    assert differs(found)
    assert "because runs may diverge beyond it" in recommendation_sentence(diverging, found)


def test_answer_shows_the_recommended_value_only_where_it_differs(made, diverging) -> None:
    rows = answer_rows(diverging, ())
    cells = [row[-1] for row in answer_table(diverging, rows).rows]
    assert [
        f"recommended {row.recommended.tuned['lr']:.3g}" in cell
        for row, cell in zip(rows, cells, strict=True)
    ] == [True] * 3
    plain_cells = answer_table(made, answer_rows(made, ())).rows
    assert not any("recommended" in cell for row in plain_cells for cell in row)


@pytest.mark.usefixtures("without_ink")
def test_page_recommends_beside_the_forecast(tmp_path, made, diverging) -> None:
    page = report(diverging, path=tmp_path / "d.html").read_text(encoding="utf-8")
    assert "Recommended is lr" in page
    assert "Recommended is lr" not in report(made, path=tmp_path / "m.html").read_text("utf-8")


def test_rules_are_listed_with_value_distance_regret_and_source(made) -> None:
    table = rules_table(made, SIZE)
    found = {row.rule: row for row in made.rules(**SIZE)}
    assert [row[0] for row in table.rows] == [RULE_NAMES[key] for key in found]
    assert {row[0] for row in table.rows} == {"constant (muP)", "1/width", "1/√width"}
    kept = next(row for row in table.rows if row[0].startswith("constant"))
    rule = found["constant"]
    assert plain(kept[1]) == f"lr = {rule.value:.3g}"
    assert kept[2] == f"+{rule.octaves:.2f}"
    assert plain(kept[3]) == f"{100 * math.expm1(rule.expected_regret):.0f} %"
    assert "Yang et al. 2022" in kept[4]


def test_transfer_table_holds_penalty_robustness_and_fit_error(made) -> None:
    (row,) = transfer_table(made, SIZE).rows
    (quality,) = made.transfer(**SIZE)
    assert plain(row[1]) == "width 256"
    penalty = f"{100 * math.expm1(quality.penalty):.1f} %"
    assert plain(row[3]).startswith(penalty)
    assert plain(row[3]).count("%") == 3
    assert row[4].startswith(f"{quality.robustness:.1f}")
    assert row[5].startswith(f"{quality.fit_error:.3f}")
    sentence = plain(transfer_sentence(made, SIZE))
    assert f"is expected to cost {penalty} of loss" in sentence
    assert "with every doubling of size." in sentence


def test_steepening_is_said_as_dearer_and_its_opposite_as_cheaper(
    made, monkeypatch: pytest.MonkeyPatch
) -> None:
    (quality,) = made.transfer(**SIZE)
    for steepening, words in ((1.0, "gets 100 % dearer"), (-1.0, "gets 50 % cheaper")):
        changed = (replace(quality, steepening=steepening),)
        monkeypatch.setattr(type(made), "transfer", lambda *_, c=changed, **__: c)
        assert words in plain(transfer_sentence(made, SIZE))


def test_without_an_optimum_nothing_is_recommended_and_no_table_shown() -> None:
    made = forecast(as_runs(sweep_frame(rates=RATES[:3])))
    assert rules_table(made, SIZE) is None
    assert transfer_table(made, SIZE) is None
    assert transfer_sentence(made, SIZE) == ""
    assert answer_rows(made, ())[0].recommended is None
