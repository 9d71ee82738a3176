from dataclasses import replace

import pytest

from extrap.records import Ablation, AblationStudy, Recipe

from ..test_ablations import LARGE
from ..test_ablations import SMALL as PLAIN

KEPT = Ablation(name="kept", group="rates", question="?", plain=PLAIN, treated=LARGE, rate=1.0)
TIMES = replace(KEPT, name="times 8", rate=8.0)
TUNED = replace(KEPT, name="tuned", rate=None)
STUDY = AblationStudy(name="ablations", question="?", ablations=(KEPT, TIMES), judge_seeds=(7, 8))


def test_arms_may_differ_by_one_percent_of_their_examples():
    """2,560 examples of the plain arm: 80 batches of 32; 81 are 1.25 % more."""
    at_bound = replace(LARGE, recipe=Recipe(steps=101, batch_size=4))
    base = replace(PLAIN, recipe=Recipe(steps=100, batch_size=4))
    assert replace(KEPT, plain=base, treated=at_bound).treated is at_bound
    with pytest.raises(ValueError, match="2560, 2592"):
        replace(KEPT, treated=replace(LARGE, recipe=Recipe(steps=81, batch_size=32)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"treated": replace(LARGE, sizes={"width": (4,), "tokens": (9,)})}, "'tokens'"),
        ({"treated": replace(LARGE, sizes={"tokens": (9,)})}, "'tokens'"),
        ({"treated": replace(LARGE, tune={})}, "got nothing"),
        ({"treated": replace(LARGE, name="small")}, "got small, small"),
    ],
)
def test_ablation_that_compares_nothing_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        replace(KEPT, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ablations": ()}, r"got \[\]"),
        ({"ablations": (KEPT, KEPT)}, r"\['kept', 'kept'\]"),
        ({"ablations": (replace(KEPT, beside="kept"),)}, "got 'kept'"),
        ({"judge_seeds": (7, 7)}, r"got \(7, 7\)"),
        ({"judge_seeds": (7,)}, r"got \(7,\)"),
        ({"judge_seeds": (1, 7)}, "got 1 in both"),
        ({"level": 95.0}, "got 95"),
        ({"level": 1.0}, "got 1;"),
        ({"level": 0.0}, "got 0;"),
        ({"ablations": (KEPT, replace(TIMES, plain=replace(PLAIN, growth=1)))}, "called 'small'"),
    ],
)
def test_study_that_cannot_be_judged_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        replace(STUDY, **changes)
