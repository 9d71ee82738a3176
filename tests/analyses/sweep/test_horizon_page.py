"""What pages say of the horizon of a sweep, of known rules and of AdamW's timescale."""

import re

import pandas as pd
import pytest

import extrap
from extrap.analyses.sweep.answer import answer_rows
from extrap.analyses.sweep.horizon_page import RULE_NAMES, timescale_sentences
from extrap.analyses.sweep.judged_groups import group_verdicts
from extrap.analyses.sweep.page import forecast_blocks, report
from extrap.fitting.transfer_rules import FITTED, RULES
from extrap.forecasting.timescale import Timescale
from extrap.records import Interval, Measure
from extrap.reporting.text import blocks_text
from tests.forecasting.horizons import grid, sweep

OTHER = {"params": 3e8, "tokens": 3e11}


@pytest.fixture(scope="module")
def one_horizon():
    return extrap.forecast(sweep(grid(tokens=[2e9])))


def text_of(forecast, *sizes, details=False):
    blocks = forecast_blocks(forecast, [forecast.at(**size) for size in sizes])
    return re.sub("[\u00a0 ]+", " ", blocks_text(blocks, details=details))


def test_every_rule_has_a_name_on_pages():
    assert set(RULE_NAMES) == {FITTED, *(rule.key for rule in RULES)}


def test_the_answer_names_the_horizon_of_the_sweep(one_horizon):
    text = text_of(one_horizon, {"params": 3e8})
    assert re.match(r"Use lr \S+ at params 300M, tokens 2B; expect", text)


def test_another_horizon_has_rules_in_the_place_of_a_forecast(one_horizon):
    text = text_of(one_horizon, OTHER)
    assert text.startswith("No forecast of the loss or the best lr at params 300M, tokens 300B")
    assert "a factor of 57 apart" in text  # of −1/2 and .307, over 150 times the tokens
    assert "Use lr" not in text
    assert "transfer" not in text.split("\n")[0]
    assert "300M 300B – unknown unknown" in text
    assert "Known rules at params 300M, tokens 300B" in text
    assert "predicted extra loss" not in text


def test_a_page_takes_both_horizons_side_by_side(one_horizon, tmp_path):
    path = report(one_horizon, path=tmp_path / "page.html", at=[{"params": 3e8}, OTHER])
    page = path.read_text(encoding="utf-8")
    assert "No forecast of the loss or the best lr" in page
    assert "never varied" in page
    assert "All at the tokens of the sweep." in page


def test_rules_stand_beside_the_fitted_law_with_what_they_cost():
    forecast = extrap.forecast(sweep(grid()))
    text = text_of(forecast, {"params": 1e8, "tokens": 5.12e10}, details=True)
    table = text.partition("Known rules at params 100M, tokens 51.2B")[2]
    rows = [line for line in table.splitlines() if " lr 0." in line]
    assert rows[0].startswith("the law of this sweep lr 0.0007")
    assert any(re.match(r"constant lr \S+ \+2\.\d\d \d", row) for row in rows)


def timescale(*, low, high, costs=None):
    return Timescale(
        formula="1 / (steps * lr * wd)",
        size={"steps": 1e4},
        level=0.95,
        value=Measure(value=0.05, ci=Interval(0.04, 0.06)),
        exponents={"steps": Measure(value=(low + high) / 2, ci=Interval(low, high))},
        octave_costs=costs or {},
        kept_costs={name: 0.03 for name in costs or {}},
    )


@pytest.mark.parametrize(
    ("low", "high", "course"),
    [
        (-0.05, 0.05, "it stays"),
        (0.01, 0.05, "it stays"),
        (0.05, 0.3, "it rises"),
        (-0.6, -0.2, "it falls"),
        (-0.3, 0.2, "whether it stays cannot be told"),
    ],
)
def test_whether_a_timescale_stays_is_read_off_its_interval(low, high, course):
    (text,) = timescale_sentences(timescale(low=low, high=high))
    assert text.endswith(f"{course}.")
    assert timescale_sentences(None) == []


def test_moves_along_a_timescale_are_told_by_their_cost():
    costs = {"lr": 0.02, "wd": 0.01, "lr and wd": 0.0001}
    (text,) = timescale_sentences(timescale(low=0, high=0, costs=costs))
    text = text.replace("\u00a0", " ")
    assert "lr alone costs 2.0 %, wd alone 1.0 %" in text
    assert text.count("3.0 %") == 3


def test_an_answer_without_rules_ends_without_a_blank():
    made = extrap.forecast(sweep(grid(tokens=[2e9])).groupby("params", as_index=False).first())
    answer, *_ = forecast_blocks(made, [made.at(**OTHER)])
    assert answer.text.endswith("horizons.")


@pytest.mark.parametrize(("decays", "is_noted"), [((0.0,), False), ((-1.0, 0.0, 1.0), True)])
def test_rules_of_several_columns_are_for_one_at_a_time(decays, is_noted):
    made = extrap.forecast(sweep(grid(tokens=[2e9]), decays=decays))
    assert ("moves one value alone" in text_of(made, OTHER)) is is_noted


def test_a_timescale_shows_itself():
    shown = timescale(low=0, high=0.05)
    assert "AdamW" in repr(shown)
    assert "AdamW" in shown._repr_html_()


def test_the_document_has_the_timescale_of_the_last_point_with_a_forecast():
    table = sweep(grid(tokens=[2e9])).assign(weight_decay=0.1, batch_size_tokens=2**18)
    forecast = extrap.forecast(table)
    document = forecast.to_dict([{"params": 3e8}, OTHER])
    assert document["timescale"]["size"] == {"params": 3e8}
    assert "timescale" not in forecast.to_dict([OTHER])


def test_every_horizon_that_was_never_varied_has_a_table_of_rules(one_horizon):
    sizes = [{**OTHER, "tokens": tokens} for tokens in (3e10, 3e11)]
    text = text_of(one_horizon, *sizes)
    assert "Known rules at params 300M, tokens 300B" in text
    assert "Known rules at params 300M, tokens 30B" in text


def test_a_run_at_another_horizon_is_not_held_against_the_forecast(one_horizon):
    table = pd.DataFrame([{"params": 3e8, "lr": 0.0008, "loss": 2.5, "tokens": 3e11}])
    verdicts = extrap.check(
        one_horizon, extrap.read_runs(table, size="params", tune="lr", stage="check")
    )
    (row,) = answer_rows(one_horizon, group_verdicts(verdicts))
    assert (row.observed, row.error) == (2.5, None)
