from dataclasses import replace

from extrap.records import Interval, Verdict
from extrap.reporting.cards import verdict_card
from extrap.reporting.groups import RunGroup

from .conftest import figures

RUN = {"size": {"width": 512.0}, "tuned": {"lr": 0.01}, "seed": 0, "loss": 2.1}
LAW = {"predicted": 2.0, "predicted_pi": Interval(1.95, 2.05), "expected": 2.1}
OFF = Verdict(
    **{**RUN, **LAW, "on_law": False, "deviation": 0.05, "p_value": 1e-5, "status": "complete"},
    **{"cause": "mistuned", "advice": "Use another rate.", "seal": "sealed-first"},
    evidence={"equivalent_size": 0.5, "equivalent_compute": 0.25, "wall_s": 7200.0},
    experiment="Branch at half the rate.",
)


def facts(made, *verdicts, **more):
    group = RunGroup(size=verdicts[0].size, tuned=verdicts[0].tuned, verdicts=verdicts)
    return dict(verdict_card(made, group, **more).facts)


def test_card_states_worth_seal_and_money(made):
    found = facts(made, OFF)
    assert figures(found["worth"]) == [0.5, 0.25]
    assert found["seal"] == "older than the run"
    assert "in money" not in found
    # two hours at 30, of which a run of a quarter of the compute would have cost 15
    assert figures(facts(made, OFF, price=30)["in money"]) == [45, 60, 30]
    better = replace(OFF, evidence={**OFF.evidence, "equivalent_compute": 1.5})
    gained = facts(made, better, price=30)["in money"]
    assert (figures(gained), "gained" in gained) == ([30, 60, 30], True)
    for lost in ("equivalent_compute", "wall_s"):
        evidence = {name: value for name, value in OFF.evidence.items() if name != lost}
        assert "in money" not in facts(made, replace(OFF, evidence=evidence), price=30)
    group = RunGroup(size=OFF.size, tuned=OFF.tuned, verdicts=(OFF, replace(OFF, seed=1)))
    assert verdict_card(made, group).experiment == (OFF.experiment,)
