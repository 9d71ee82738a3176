from __future__ import annotations

from dataclasses import replace

import pytest

from extrap.records import Interval, Verdict
from extrap.reporting.cards import verdict_card
from extrap.reporting.groups import RunGroup
from extrap.reporting.numbers import NBSP

OFF = Verdict(
    size={"width": 512.0},
    tuned={"lr": 0.01},
    seed=0,
    loss=2.1,
    status="complete",
    predicted=2.0,
    predicted_pi=Interval(1.95, 2.05),
    expected=2.1,
    on_law=False,
    deviation=0.05,
    p_value=1e-5,
    cause="mistuned",
    advice="Use another rate.",
    evidence={"equivalent_size": 0.5, "equivalent_compute": 0.25, "wall_s": 7200.0},
    experiment="Branch at half the rate.",
    seal="sealed-first",
)


def facts(made, *verdicts: Verdict, **more) -> dict[str, str]:
    group = RunGroup(size=verdicts[0].size, tuned=verdicts[0].tuned, verdicts=verdicts)
    return dict(verdict_card(made, group, **more).facts)


def test_card_says_what_the_loss_is_worth_and_that_the_forecast_came_first(made):
    found = facts(made, OFF)
    assert found["worth"] == (
        f"a tuned run of 0.5{NBSP}times the size, 0.25{NBSP}times the compute"
    )
    assert found["seal"] == "older than the run"
    assert "in money" not in found


def test_card_says_what_was_wasted_at_a_price(made):
    assert facts(made, OFF, price=30)["in money"] == "45 of 60 wasted, at 30 an hour"
    better = replace(OFF, evidence={**OFF.evidence, "equivalent_compute": 1.5})
    assert facts(made, better, price=30)["in money"] == "30 of 60 gained, at 30 an hour"


@pytest.mark.parametrize("lost", ["equivalent_compute", "wall_s"])
def test_card_is_silent_about_money_where_it_is_not_known(made, lost):
    evidence = {name: value for name, value in OFF.evidence.items() if name != lost}
    assert "in money" not in facts(made, replace(OFF, evidence=evidence), price=30)


def test_card_says_once_what_would_decide(made):
    group = RunGroup(size=OFF.size, tuned=OFF.tuned, verdicts=(OFF, replace(OFF, seed=1)))
    assert verdict_card(made, group).experiment == ("Branch at half the rate.",)
