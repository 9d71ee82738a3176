"""Cascade studies and their models and rules refuse what cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extrap.records import Cell, SizedModel, TextRule, Workload
from extrap.records.cascades import CascadeStudy

SMALL, LARGE = (SizedModel(size={"width": width}, lr=0.01) for width in (8, 32))
STUDY = CascadeStudy(
    name="c", question="?", workload=Workload(name="digits"), smalls=(SMALL,), large=LARGE
)


def test_every_model_is_trained_once_a_pair() -> None:
    study = replace(STUDY, pairs=((1, 2), (3, 4)))
    assert study.trainings() == ((SMALL, (1, 3)), (LARGE, (2, 4)))
    assert SMALL.label == "width 8"
    assert SMALL.cell(3) == Cell.of({"width": 8}, {"lr": 0.01}, 3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"smalls": ()}, "small models of different sizes and a large one"),
        ({"smalls": (LARGE,)}, "small models of different sizes"),
        ({"pairs": ((1, 2),)}, "two or more"),
        ({"pairs": ((1, 2), (2, 3))}, "all different"),
        ({"validation": 1.0}, r"validation must lie in \(0, 1\), got 1"),
        ({"level": 95.0}, r"level must lie in \(0, 1\), got 95"),
    ],
)
def test_impossible_study_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(STUDY, **changes)


def test_impossible_model_or_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="lr must be positive, got 0"):
        SizedModel(size={"width": 8}, lr=0.0)
    with pytest.raises(ValueError, match="positive sizes"):
        SizedModel(size={}, lr=0.1)
    with pytest.raises(ValueError, match="as long as the recipe says"):
        SizedModel(size={"tokens": 8}, lr=0.1)
    with pytest.raises(ValueError, match="a rule answers one byte, got 'ab'"):
        TextRule(name="r", pattern="x", answer="ab")
    with pytest.raises(ValueError, match=r"regular expression, got '\('"):
        TextRule(name="r", pattern="(", answer="a")


def test_rule_looks_at_the_end_of_the_text_where_its_pattern_says_so() -> None:
    rule = TextRule(name="indent", pattern=r"\n(?: {4})? {1,3}\Z", answer=" ")
    seen = [rule.matches(b"x\n" + b" " * n) for n in range(10)]
    assert seen == [False, True, True, True, False, True, True, True, False, False]
    assert not rule.matches(b"x\n  y")
