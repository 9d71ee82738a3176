"""The confidence in a point, by the limits of its numbers and by its flags."""

import pytest

from extrap.records.confidence import LOW_FLAGS, grade

SURE = {
    "refusals": {},
    "half_width": 0.02,
    "cost": 0.003,
    "chance": 0.02,
    "flags": (),
    "extrapolation_ratio": 4.0,
}


@pytest.mark.parametrize(
    ("changes", "level", "reason"),
    [
        ({}, "high", "4 times"),
        ({"cost": None, "chance": None}, "high", "4 times"),
        ({"half_width": 0.0201}, "medium", "± 2 %"),
        ({"half_width": 0.05}, "medium", "± 5 %"),
        ({"half_width": 0.0512}, "low", "± 5.1 %"),
        ({"half_width": None}, "low", "does not bound"),
        ({"half_width": float("inf")}, "low", "does not bound"),
        ({"cost": 0.0042}, "medium", "0.42 %"),
        ({"cost": 0.013}, "low", "1.3 %"),
        ({"chance": 0.04}, "medium", "4 %"),
        ({"chance": 0.062}, "low", "6.2 %"),
        (
            {"refusals": {"lr": "it costs 8 %; more seeds"}},
            "low",
            "no lr is given, as it costs 8 %",
        ),
        ({"flags": ("flat-wd: 3 values", "published-prior: 9 sources")}, "high", "4 times"),
        ({"flags": ("bound-hit",)}, "medium", "bound-hit"),
        ({"flags": ("bound-hit", "far-extrapolation: 9 times")}, "low", "far-extrapolation: 9"),
        *(({"flags": (flag,)}, "low", flag) for flag in LOW_FLAGS),
    ],
)
def test_limits_and_flags(changes, level, reason):
    found = grade(**{**SURE, **changes})
    assert found.level == level
    assert reason in found.reason.replace("\u00a0", " ")


def test_the_gravest_reason_is_given():
    """A size without a finished run before a refusal, that before a number, that before a flag."""
    changes = {
        "flags": (
            "far-extrapolation: 9 times",
            "no-finished-runs: all 3 runs of width 8 diverged",
        ),
        "refusals": {"loss": "it is unknown"},
        "half_width": 0.06,
    }
    reasons = []
    for name in ("flags", "refusals", "half_width"):
        reasons.append(grade(**{**SURE, **changes}).reason)
        changes[name] = ("far-extrapolation: 9 times",) if name == "flags" else SURE[name]
    reasons.append(grade(**{**SURE, **changes}).reason)
    starts = ("no-finished-runs", "no loss is given", "the 90 % interval", "far-extrapolation")
    assert [reason.startswith(start) for reason, start in zip(reasons, starts, strict=True)] == [
        True
    ] * 4
