"""A group of recipes whose findings are made by hand, for tests of words and pictures."""

import itertools
import math
from dataclasses import replace

import pandas as pd

from extrap import Runs, StudySpec, TunedRange, Workload
from extrap.analyses.comparison import (
    ArmCost,
    Comparison,
    ComparisonStudy,
    Contrast,
    GroupFindings,
    RecipeGroup,
    SizeDifference,
)
from tests.analyses.conftest import NOTHING, measured

WIDTHS, TARGET = (16, 32, 64, 128), 512
RATES = TunedRange(low=0.01, high=0.04, n=3)
DENSE = {"name": "dense", "question": "?", "workload": Workload(name="bytes-mlp")}
PLAIN = StudySpec(**DENSE, sizes={"width": WIDTHS}, tune={"lr": RATES})
EXPONENTS = {"plain": 0.5, "shifted": 0.5, "steeper": 0.6, "lost": 0.5}
FACTORS = {"plain": 1.0, "shifted": 0.96, "steeper": 1.08, "lost": 1.3}


def true_loss(arm, width, seed=0):
    wiggle = 0.004 * math.sin(5 * seed + math.log(width) + len(arm))
    return FACTORS[arm] * (0.4 + (width / 16) ** -EXPONENTS[arm]) * math.exp(wiggle)


def sweep(arm):
    cells = itertools.product(WIDTHS, (0.01, 0.02, 0.04), (0, 1, 2))
    rows = [(w, lr, s, true_loss(arm, w, s) * (1.0 if lr == 0.02 else 1.1)) for w, lr, s in cells]
    frame = pd.DataFrame(rows, columns=["width", "lr", "seed", "loss"])
    return Runs.from_frame(frame, sizes=("width",), tuned=("lr",), source="made")


def difference(arm, width, *, is_forecast=False):
    plain, treated = true_loss("plain", width), true_loss(arm, width)
    half = 0.02 if is_forecast else 0.006
    return SizeDifference(
        size={"width": width},
        n_pairs=0 if is_forecast else 3,
        plain=measured(plain, 0.01 * plain),
        treated=measured(treated, 0.01 * treated),
        difference=measured(treated / plain - 1, half),
        is_forecast=is_forecast,
    )


def places(arm):
    """What is known of a recipe at the widths and at the target."""
    return {
        "treated": arm,
        "by_size": tuple(difference(arm, width) for width in WIDTHS),
        "at_target": difference(arm, TARGET, is_forecast=True),
    }


SHIFT = Contrast(
    **places("shifted"),
    verdict="survives",
    mean=measured(-0.04, 0.003),
    p_value=0.0002,
    flags=("One size was left out of the law.",),
)
STEEPER = replace(SHIFT, **places("steeper"), verdict="fades", flags=())
UNKNOWN = replace(
    SHIFT,
    treated="lost",
    verdict="undecided",
    mean=NOTHING,
    p_value=None,
    by_size=tuple(
        replace(difference("lost", width), n_pairs=1, difference=NOTHING) for width in WIDTHS[:2]
    ),
    at_target=None,
    flags=("Two sizes have an optimum inside their grid.",),
    refusals={"mean": "with one seed nothing is known; add a second seed at every size."},
)
STILL = replace(SHIFT.at_target, difference=measured(0.001, 0.02))
SAME = replace(SHIFT, verdict="no difference", at_target=STILL, mean=STILL.difference)
GROUP = RecipeGroup(
    name="treatments",
    question="Which moves the law?",
    arms={name: replace(PLAIN, name=f"my-{name}") for name in EXPONENTS},
    target={"width": TARGET},
    expected="A shift.",
)
COMPARISON = Comparison(
    plain="plain",
    contrasts=(SHIFT, STEEPER, UNKNOWN),
    columns=("width",),
    target={"width": TARGET},
    level=0.95,
    tuned_exponents={"lr": {"plain": measured(-0.4, 0.05)}},
    costs=tuple(
        ArmCost(arm=name, flops=3e15, gpu_hours=None if name == "lost" else 1.5, money=3.0)
        for name in EXPONENTS
    ),
    price=2.0,
    notes=("Nothing was left out.",),
)
FOUND = GroupFindings(
    group=GROUP,
    runs={name: sweep(name) for name in EXPONENTS},
    comparison=COMPARISON,
    sealed="2026-01-01T00:00:00+00:00",
)
BROKEN = GroupFindings(
    group=replace(GROUP, name="broken", expected=""),
    runs={name: sweep(name) for name in EXPONENTS},
    comparison=None,
    problem="two sizes are too few.",
)
STUDY = ComparisonStudy(name="toy", question="Which?", groups=(GROUP, BROKEN.group), price=2.0)
