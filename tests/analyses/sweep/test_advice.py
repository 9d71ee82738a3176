"""What a finding says; `tests/checking/test_causes.py` tests which one is made."""

import ast
import math
from pathlib import Path
from string import Formatter

import pytest

import extrap.checking
from extrap.analyses.sweep import advice as templates
from extrap.analyses.sweep.advice import advise
from extrap.checking.spikes import Spike
from extrap.records import Interval
from extrap.records.settings import Setting
from tests.checking.byhand import by_hand, judged, loss_at

SPIKE = Spike(step=700.0, height=math.log(3), before=1.0, fraction=0.7)
UNDECIDED = {"has_loss_alarm": False, "chance": 0.5}
ON_LAW = {"has_loss_alarm": False, "off": 0.0}
OUTSIDE = {**ON_LAW, "predicted_pi": Interval(2.2, 2.25), "is_inside": False}
"""The law expects 2.274."""
WORDS = {
    "failed": ({"unjudged": "failed"}, "The run failed"),
    "pruned": ({"unjudged": "pruned"}, "was pruned"),
    "below-sweep": ({"unjudged": "below-sweep", "size": {"width": 8.0}}, "width 8 lies below"),
    "other-horizon": (
        {
            "unjudged": "other-horizon",
            "row": {"tokens": 3e11},
            "made": by_hand(settings=(Setting(role="tokens", column="tokens", amount=2e9),)),
        },
        "has tokens 300B, the sweep 2B, at this size",
    ),
    "on-law": ({**ON_LAW, "predicted_pi": Interval(2.2, 2.3)}, "nothing to do"),
    "within-tolerance": ({**ON_LAW, "predicted_pi": Interval(2.2, 2.25)}, "no alarm"),
    "undecided-wide": (ON_LAW, "too wide to tell"),
    "undecided-tuning": (OUTSIDE, "mistuned lr explains losses up to any value"),
    "undecided-among-many": ({**OUTSIDE, "tuned_cost": None}, "among so many"),
    "other-recipe": ({**UNDECIDED, "differing": {"wd": ("1", "2")}}, "wd 1 instead of 2"),
    "recovered": ({**UNDECIDED, "spike": SPIKE}, "rose by 200 % at step 700"),
    "elsewhere": (
        {"has_loss_alarm": False, "u": 1.0, "beside": 0.01, "off": 0.0},
        "a factor of 2",
    ),
    "far": ({**UNDECIDED, "u": -3.0}, "below the optimum by a factor of 8"),
    "diverged": ({"row": {"status": "diverged"}, "u": 2.0}, "above the optimum by a factor of 4"),
    "spiked": ({"spike": SPIKE}, "rose by 200 % at step 700"),
    "mistuned": ({"u": 2.0}, "lr 0.01 is too high by a factor of 4 "),
    "recipe": ({"differing": {"wd": ("1", "2")}}, "wd 1 instead of 2"),
    "data": ({"row": {"epochs": 5.0}}, "5 passes over its data, the sweep at most 1"),
    "batch": ({"row": {"batch_size": 200.0, "noise_scale": 100.0}}, "2 times the noise scale"),
    "in-bits": ({"off": -math.log(math.log(2)), "chance": 0.5}, "in bits"),
    "unknown": ({}, "nothing recorded explains it"),
}


def advice(**given):
    return advise(judged(**given))[0]


@pytest.mark.parametrize("code", WORDS)
def test_advice_names_what_was_found(code):
    given, words = WORDS[code]
    configuration = judged(**given)
    assert configuration.finding.code == code
    told, experiment = advise(configuration)
    assert words in told
    is_alarm = not configuration.unjudged and given.get("has_loss_alarm", True)
    assert bool(experiment) == is_alarm


def test_mistuned_value_is_told_with_its_share_of_the_excess():
    high = advice(u=2.0, off=0.1)
    assert " 80 % " in high
    assert f"Use lr 0.0025 and expect a loss of {loss_at(1024):.4g}." in high
    assert " all of the excess" in advice(u=2.0, off=0.081)
    without_bound = advice(u=12.0, off=14.0, excess=5.0, beside=0.01)
    assert " all of the excess" in without_bound
    assert "something else" not in without_bound
    low = advice(u=-2.0, off=0.02, has_loss_alarm=False)
    assert "too low by a factor of 4 " in low
    assert " costs about 8.3 % " in low


@pytest.mark.parametrize(
    ("beside", "off", "is_said"), [(0.05, 0.12, True), (0.051, 0.12, False), (0.02, 0.07, False)]
)
def test_a_loss_above_what_the_values_make_expected_is_said(beside, off, is_said):
    assert ("something else" in advice(u=2.0, beside=beside, off=off)) == is_said


@pytest.mark.parametrize("given", [{"differing": {"wd": ("1", "2")}}, {"u": 2.0}, {}])
def test_a_run_far_from_its_replicates_says_so_whatever_the_cause(given):
    assert "11 % worse" in advice(**given, distance_from_replicates=0.1)


def test_every_finding_has_advice_and_every_field_of_a_template_is_filled():
    checking = Path(extrap.checking.__file__).parent
    codes = {
        keyword.value.value
        for path in checking.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding"
        for keyword in node.keywords
        if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
    }
    assert len(codes) > 8
    assert codes | set(templates.EXPERIMENTS) <= set(templates.ADVICE)
    assert {*templates.STANDINGS, *templates.MIXED_UNITS} <= set(templates.ADVICE)
    texts = (*templates.ADVICE.values(), *templates.EXPERIMENTS.values())
    named = {name for text in texts for _, name, *_ in Formatter().parse(text) if name}
    assert named == set(templates.FIELDS)
