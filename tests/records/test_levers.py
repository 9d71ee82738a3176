from __future__ import annotations

from dataclasses import replace

import pytest

from extrap.records import Lever, LeverStudy, Recipe, StudySpec, TunedRange, Workload
from extrap.records.levers import lever_rate

PLAIN = StudySpec(
    name="small",
    question="?",
    workload=Workload(name="teacher"),
    recipe=Recipe(steps=640, batch_size=4),
    sizes={"width": (4,)},
    tune={"lr": TunedRange(low=0.01, high=0.1, n=2)},
    seeds=(0, 1),
)
LARGE = replace(PLAIN, name="large", recipe=Recipe(steps=80, batch_size=32))
KEPT = Lever(name="kept", group="rates", question="?", plain=PLAIN, treated=LARGE, rate=1.0)
TIMES = replace(KEPT, name="times 8", rate=8.0)
TUNED = replace(KEPT, name="tuned", rate=None)
STUDY = LeverStudy(name="levers", question="?", levers=(KEPT, TIMES), judge_seeds=(7, 8))


def test_arms_that_levers_share_are_one_arm() -> None:
    assert [spec.name for spec in STUDY.arms()] == ["small", "large"]
    assert [spec.name for spec in STUDY.tuned_arms()] == ["small"]
    assert STUDY.rates({"small": 0.02}) == {"small": (0.02,), "large": (0.02, 0.16)}
    more = replace(STUDY, levers=(*STUDY.levers, TUNED))
    assert [spec.name for spec in more.tuned_arms()] == ["small", "large"]
    assert more.rates({"small": 0.02, "large": 0.3})["large"] == (0.02, 0.16, 0.3)
    assert lever_rate(TUNED, LARGE, {"small": 0.02, "large": 0.3}) == 0.3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"treated": replace(LARGE, recipe=Recipe(steps=640, batch_size=32))}, "as many examples"),
        ({"treated": replace(LARGE, sizes={"width": (4, 8)})}, "an arm has one size"),
        ({"treated": replace(LARGE, sizes={"width": (4,), "tokens": (9,)})}, "an arm has one"),
        ({"treated": replace(LARGE, tune={})}, "an arm tunes lr alone, got nothing"),
        ({"treated": replace(LARGE, name="small")}, "the arms of 'kept' are different studies"),
        ({"rate": 0.0}, "rate is a multiple of the plain arm's best, got 0"),
    ],
)
def test_lever_that_compares_nothing_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(KEPT, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"levers": ()}, "levers of different names"),
        ({"levers": (KEPT, KEPT)}, "levers of different names"),
        ({"levers": (replace(KEPT, beside="kept"),)}, "compared with another lever"),
        ({"judge_seeds": (7, 7)}, "distinct and at least 2"),
        ({"judge_seeds": (1, 7)}, "chosen on other seeds than they are judged on, got 1"),
        ({"level": 95.0}, r"level must lie in \(0, 1\)"),
        (
            {"levers": (KEPT, replace(TIMES, plain=replace(PLAIN, growth=1)))},
            "two different arms are called 'small'",
        ),
    ],
)
def test_study_that_cannot_be_judged_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(STUDY, **changes)
