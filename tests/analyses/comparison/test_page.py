"""Comparisons of recipes: verdicts, what the answer states, numbers of charts, tables and page."""

import math
from dataclasses import replace

import pytest

from extrap.analyses.comparison import Comparison
from extrap.analyses.comparison.charts import size_charts, targets_chart
from extrap.analyses.comparison.effective_speed import EffectiveSpeed
from extrap.analyses.comparison.next_runs import NextRuns
from extrap.analyses.comparison.page import (
    comparison_answer,
    comparison_blocks,
    comparison_page,
    verdicts_table,
)
from extrap.analyses.comparison.treatments import (
    Treatment,
    agrees,
    checks_document,
    study_document,
    treatments,
)
from extrap.records.numbers import NBSP
from extrap.reporting.study_page import About
from extrap.reporting.tables import Table
from extrap.reporting.text import blocks_text
from tests.analyses.comparison import recipes
from tests.analyses.comparison.recipes import (
    BROKEN,
    COMPARISON,
    FOUND,
    GROUP,
    SAME,
    SHIFT,
    STEEPER,
    STUDY,
    UNKNOWN,
)
from tests.analyses.conftest import NOTHING, figures, measured, tables_of, text_of

FINDINGS = (FOUND, BROKEN)
SEEN = recipes.difference("shifted", recipes.TARGET)
CHECK = replace(
    SHIFT,
    by_size=(replace(SEEN, difference=measured(-0.05, 0.01)),),
    at_target=None,
    mean=measured(-0.05, 0.01),
)
OFF = replace(CHECK, by_size=(replace(SEEN, difference=measured(-0.15, 0.01)),))


def checked(check, **changes):
    made = Comparison(
        plain="plain", contrasts=(check,), columns=("width",), target={"width": 512}, level=0.95
    )
    return replace(FOUND, check=made, **changes)


def treated(contrast, check=None):
    return Treatment(contrast=contrast, comparison=COMPARISON, check=check)


def answer(*shown):
    return comparison_answer(shown)


def falling(contrast, at, half=0.01):
    """The same with another difference at the target."""
    return replace(contrast, at_target=replace(contrast.at_target, difference=measured(at, half)))


def test_runs_at_the_target_decide_over_the_forecast():
    worse = falling(replace(SHIFT, verdict="hurts"), 0.05)
    assert treated(worse, CHECK).verdict == "survives"
    nothing = replace(CHECK, by_size=(replace(SEEN, difference=NOTHING),), verdict="undecided")
    assert treated(SHIFT, nothing).verdict == "survives"  # no loss there
    assert treated(SHIFT, CHECK).decisive == CHECK.by_size[0]
    assert (treated(SHIFT, CHECK).holds, treated(SHIFT, OFF).holds) == (True, False)
    assert agrees(NOTHING, SHIFT.mean) is None


def test_where_it_counts_is_the_target_measured_if_it_was():
    at_64 = replace(SHIFT, at_target=replace(SHIFT.at_target, size={"width": 64}))
    assert at_64.decisive == SHIFT.by_size[2]
    alone = tuple(replace(place, is_by_law=True) for place in SHIFT.by_size)
    assert replace(at_64, by_size=alone).decisive == at_64.at_target
    assert SHIFT.decisive == SHIFT.at_target
    assert UNKNOWN.decisive.size == {}


def test_answer_has_the_difference_its_interval_and_how_it_depends_on_size():
    assert figures(answer(treated(SHIFT)).text) == [512, -3.39, 95, -5.39, -1.39]
    ahead = EffectiveSpeed(
        size={"width": 512}, speed=NOTHING, factor=measured(1.3, 0.2), is_forecast=True
    )
    runs = NextRuns(
        recipes=("plain", "lost"), size={"width": 256}, n_seeds=2, cost=0.25, chance=0.6, why="?"
    )
    told = answer(treated(replace(UNKNOWN, next_runs=runs, speeds=(ahead,))))
    assert figures(told.text) == [1.3, 1.1, 1.5, 2, 256, 25, 60]
    told = answer(treated(STEEPER))
    assert figures(told.text.partition("it was")[2])[:2] == [7.4, 16]
    many = answer(*map(treated, (SHIFT, SHIFT, SAME, UNKNOWN)))
    assert figures(many.text)[:4] == [4, 2, 1, 1]
    assert "2 survive, 1 makes no difference, 1 is undecided" in many.text
    assert figures(many.text.partition("Best")[2])[:3] == [-3.39, -5.39, -1.39]
    assert answer(treated(SHIFT)).color == answer(treated(SHIFT, CHECK)).color == "good"
    assert (answer().color, answer(treated(UNKNOWN)).color) == ("bad", "warn")


@pytest.mark.parametrize(
    ("each", "level"),
    [
        (treated(replace(SHIFT, flags=()), CHECK), "high"),
        (treated(falling(replace(SHIFT, flags=()), -0.041)), "high"),  # 4 times the largest size
        (treated(falling(replace(SHIFT, flags=()), -0.038)), "medium"),  # 2 % wide, for 3.8 %
        (treated(falling(replace(SHIFT, flags=(), by_size=SHIFT.by_size[:-1]), -0.04)), "medium"),
        (treated(SHIFT), "medium"),
        (treated(replace(SHIFT, flags=(), p_value=None)), "medium"),  # one seed
        (treated(SHIFT, OFF), "low"),
        (treated(UNKNOWN), "low"),
    ],
)
def test_confidence_is_that_of_the_least_certain_recipe(each, level):
    assert answer(each).confidence.startswith(f"Confidence: {level}; ")
    both = answer(each, treated(UNKNOWN))
    assert both.confidence.startswith("Confidence: low; ")


def test_advice_follows_the_verdict_and_the_price_of_compute():
    def advice(contrast, check=None):
        return verdicts_table([treated(contrast, check)]).rows[0][-1]

    slow, fast = (
        EffectiveSpeed(
            size={"width": 512}, speed=NOTHING, factor=measured(factor, 0.1), is_forecast=True
        )
        for factor in (0.7, 1.5)
    )
    dear, worse = replace(SHIFT, speeds=(slow,)), replace(SHIFT, verdict="hurts")
    sooner = replace(worse, speeds=(fast,))
    assert len({advice(c) for c in (SHIFT, dear, worse, sooner, SAME, STEEPER)}) == 6
    assert advice(replace(SHIFT, speeds=(fast,))) == advice(SHIFT)
    assert advice(UNKNOWN).startswith("With one seed")
    assert "did not hold" in advice(SHIFT, OFF)


def test_text_has_every_number_of_the_comparison():
    told = replace(COMPARISON, contrasts=(replace(SHIFT, share=measured(0.4, 0.1)), STEEPER))
    told = replace(told, contrasts=(*told.contrasts, UNKNOWN))
    text = blocks_text(comparison_blocks(told), details=True)
    assert NBSP not in text
    found = figures(text)
    for numbers in (
        [-4, -4.3, -3.7],  # mean difference
        [40, 30, 50],  # share of the gap
        [-0.4, -0.45, -0.35],  # exponent of the rate
        [3e15, 1.5, 3],  # costs
    ):
        assert any(found[i : i + len(numbers)] == numbers for i in range(len(found))), numbers
    assert text.count("add a second seed") == 2
    assert text.startswith(answer(*map(treated, told.contrasts)).text.replace(NBSP, " "))


@pytest.mark.parametrize("columns", [("width",), ("width", "depth")])
def test_marks_of_the_charts_are_the_numbers_of_the_comparison(columns):
    def deep(place, **size):
        return replace(place, size={**place.size, "depth": 2.0, **size})

    told, contrast, loss = COMPARISON, SHIFT, recipes.true_loss
    if len(columns) == 2:  # and a size off the path
        places = (*map(deep, SHIFT.by_size), deep(SHIFT.by_size[0], width=24, depth=1.0))
        contrast = replace(SHIFT, by_size=places, at_target=deep(SHIFT.at_target))
        told = replace(told, target={"width": 512, "depth": 2.0}, columns=columns)
    found = checked(CHECK, comparison=replace(told, contrasts=(contrast,)))
    arms = found.comparison.arms

    def drawn(chart):
        return [
            mark
            for each in chart.series
            for mark in zip(each.x, each.y, each.upper or [math.nan] * len(each.x), strict=True)
        ]

    def holds(where, x, y, half=None):
        return any(
            math.isclose(x, a) and math.isclose(y, b, rel_tol=1e-9, abs_tol=1e-12)
            for a, b, upper in where
            if half is None or math.isclose(upper, y + half, rel_tol=1e-9, abs_tol=1e-12)
        )

    losses, changes = map(drawn, size_charts(found.comparison, found.check))
    for arm in arms:
        assert all(holds(losses, w, loss(arm, w), 0.01 * loss(arm, w)) for w in (16, 128, 512))
    assert holds(losses, 512, SEEN.plain.value)
    assert holds(losses, 512, SEEN.treated.value)
    for w, half in ((16, 0.006), (128, 0.006), (512, 0.02)):
        assert holds(changes, w, loss("shifted", w) / loss("plain", w) - 1, half)
    assert holds(changes, 512, -0.05, 0.01)
    assert 24 not in {x for x, *_ in [*losses, *changes]}
    assert {each.label for each in size_charts(found.comparison)[0].series} == {"", *arms}


def test_rows_of_all_groups_share_an_axis():
    shown = treatments((FOUND, replace(FOUND, group=replace(GROUP, name="again"))))
    assert [each.label for each in shown[::3]] == ["shifted (treatments)", "shifted (again)"]
    first, rest = targets_chart(shown[:2], shown), targets_chart(shown[2:], shown)
    assert first.axis == rest.axis
    assert first.axis.limits[0] == pytest.approx(SHIFT.at_target.difference.value)


def page_of(*findings):
    about = About(STUDY.name, STUDY.question, {"commit": "abc", "no value": ""})
    return comparison_page(findings, about)


def test_page_has_every_group():
    page = page_of(checked(CHECK), BROKEN)
    assert "two sizes are too few." in text_of(page)
    shown = [block for block in page.blocks if isinstance(block, Table)]
    verdicts, checks = shown
    assert [row[1].split("\n")[0] for row in verdicts.rows] == ["shifted", "steeper", "lost"]
    assert figures(*checks.rows[0])[:7] == [-5, -6, -4, -3.39, -5.39, -1.39, 3]
    origin = dict(tables_of(page.blocks)["Provenance"].rows)
    assert (origin["commit"], "no value" in origin) == ("abc", False)


def test_document_is_that_of_the_forecast_whatever_was_checked():
    assert study_document(STUDY, FINDINGS) == study_document(STUDY, (checked(CHECK), BROKEN))
    group, broken = study_document(STUDY, FINDINGS)["groups"]
    verdicts = [contrast["verdict"] for contrast in group["comparison"]["contrasts"]]
    assert verdicts == ["survives", "fades", "undecided"]
    assert (broken["problem"], broken["comparison"]) == ("two sizes are too few.", None)
    assert checks_document(FINDINGS) == []


@pytest.mark.parametrize(
    ("began", "words"), [("2025-12-31", "is not a blind check"), ("2026-01-02", "before any run")]
)
def test_runs_that_began_before_the_seal_are_no_blind_check(began, words):
    assert words in text_of(page_of(checked(CHECK, began=f"{began}T00:00:00+00:00")))
