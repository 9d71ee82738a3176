from dataclasses import replace

import pytest

from extrap.records import Cell, SizedModel, TextRule, Workload
from extrap.records.cascades import CascadeStudy

SMALL, LARGE = (SizedModel(size={"width": width}, lr=0.01) for width in (8, 32))
STUDY = CascadeStudy(
    name="c", question="?", workload=Workload(name="digits"), smalls=(SMALL,), large=LARGE
)


def test_every_model_is_trained_once_a_pair():
    study = replace(STUDY, pairs=((1, 2), (3, 4)))
    assert study.trainings() == ((SMALL, (1, 3)), (LARGE, (2, 4)))
    assert SMALL.label == "width 8"
    assert SMALL.cell(3) == Cell.of({"width": 8}, {"lr": 0.01}, 3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"smalls": ()}, r"got \['width 32'\]"),
        ({"smalls": (LARGE,)}, "'width 32', 'width 32'"),
        ({"pairs": ((1, 2),)}, r"got \(\(1, 2\),\)"),
        ({"pairs": ((1, 2), (2, 3))}, r"\(1, 2\), \(2, 3\)"),
        ({"validation": 1.0}, r"validation .* got 1\."),
        ({"validation": 0.0}, r"validation .* got 0\."),
        ({"level": 95.0}, r"level .* got 95\."),
    ],
)
def test_impossible_study_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        replace(STUDY, **changes)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SizedModel(size={"width": 8}, lr=0.0), "lr .* got 0;"),
        (lambda: SizedModel(size={}, lr=0.1), "sizes, got {}"),
        (lambda: SizedModel(size={"width": 0}, lr=0.1), "got {'width': 0}"),
        (lambda: SizedModel(size={"tokens": 8}, lr=0.1), "'tokens'"),
        (lambda: TextRule(name="r", pattern="x", answer="ab"), "got 'ab'"),
        (lambda: TextRule(name="r", pattern="(", answer="a"), r"got '\('"),
    ],
)
def test_impossible_model_or_rule_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()
