"""Comparisons of recipes: verdicts, what the answer states, numbers of charts, tables and page."""

import math
from dataclasses import replace

import pytest

from extrap.comparing import Crossover
from extrap.comparing.findings import (
    TargetCheck,
    Treatment,
    checks_document,
    comparison_study_document,
    treatments,
)
from extrap.records import Interval, Measure, Runs
from extrap.records.numbers import NBSP
from extrap.reporting.blocks import Details
from extrap.reporting.charts import marks
from extrap.reporting.comparison_charts import (
    compute_chart,
    size_charts,
    targets_chart,
)
from extrap.reporting.comparisons_page import (
    comparison_answer,
    comparison_blocks,
    comparison_page,
    verdicts_table,
)
from extrap.reporting.embedded import read_blocks, read_report
from extrap.reporting.html import page_html, write_page
from extrap.reporting.study_page import About
from extrap.reporting.tables import Table
from extrap.reporting.text import blocks_text

from . import recipes
from .conftest import NOTHING, figures, measured, tables_of
from .hostile import inspected
from .recipes import BROKEN, COMPARISON, FOUND, GROUP, SAME, SHIFT, STEEPER, STUDY, UNKNOWN

FINDINGS = (FOUND, BROKEN)
SEEN = {"treated": "shifted", "n_pairs": 3, "plain": 0.58, "loss": 0.55, "agrees": True}
CHECK = TargetCheck(**SEEN, difference=measured(-0.05, 0.01), forecast=measured(-0.034, 0.02))
MISFIT = "lack-of-fit: the laws miss the losses of plain or shifted by more than their noise."


def treated(contrast, check=None):
    return Treatment(contrast=contrast, comparison=COMPARISON, check=check)


def answer(*shown):
    return comparison_answer(shown)


def falling(contrast, at, half=0.01):
    """The same with another difference at the target."""
    return replace(contrast, at_target=replace(contrast.at_target, difference=measured(at, half)))


def turning(*differences, **changes):
    """A shift with these measured differences at the widths, significant at each."""
    places = tuple(
        replace(place, difference=measured(value, 0.01))
        for place, value in zip(SHIFT.by_size, differences, strict=True)
    )
    return replace(falling(SHIFT, -0.48, 0.02), by_size=places, **changes)


LAST = replace(STEEPER, by_size=STEEPER.by_size[-1:])
TURNS = turning(0.21, 0.24, -0.17, -0.388)


@pytest.mark.parametrize(
    ("contrast", "verdict"),
    [
        (SHIFT, "better"),
        (falling(SHIFT, 0.05), "worse"),
        (replace(falling(SHIFT, 0.0), by_size=()), "differs"),
        (STEEPER, "depends on size"),
        (falling(LAST, -0.05), "better"),
        (falling(LAST, 0.05), "worse"),
        (SAME, "not significant"),
        (UNKNOWN, "cannot tell"),
        *((replace(TURNS, verdict=v), "depends on size") for v in ("shift", "same", "unknown")),
        (turning(-0.2, -0.2, -0.2, 0.005), "better"),
        (turning(0.1, 0.2, 0.2, 0.3, flags=(MISFIT,)), "worse"),  # the forecast has no say
        (turning(0.1, 0.2, 0.2, 0.005, flags=(MISFIT,)), "differs"),
    ],
)
def test_verdict_speaks_of_the_loss_where_it_counts(contrast, verdict):
    each = treated(contrast)
    assert each.verdict == verdict
    assert verdicts_table([each]).rows[0][0].endswith(verdict)


def test_runs_at_the_target_decide_over_the_forecast():
    assert treated(falling(SHIFT, 0.05), CHECK).verdict == "better"
    assert treated(SHIFT, replace(CHECK, difference=measured(0.0, 0.01))).verdict == "differs"
    assert treated(SHIFT, replace(CHECK, difference=NOTHING)).verdict == "better"  # no loss there
    place = treated(SHIFT, CHECK).decisive
    assert (place.difference, place.n_pairs, place.is_forecast) == (CHECK.difference, 3, False)
    at_64 = replace(SHIFT, at_target=replace(SHIFT.at_target, size={"width": 64}))
    assert treated(at_64).decisive == SHIFT.by_size[2]
    assert treated(replace(SHIFT, flags=(MISFIT,))).decisive == SHIFT.by_size[-1]
    assert treated(replace(UNKNOWN, by_size=())).decisive is None


def test_answer_has_the_difference_its_interval_and_how_it_depends_on_size():
    assert figures(answer(treated(SHIFT)).text) == [-3.39, 95, -5.39, -1.39, 512]
    told = answer(treated(turning(0.21, 0.24, -0.17, -0.388)))
    assert figures(told.text)[-4:] == [24, 32, -17, 64]
    many = answer(*map(treated, (SHIFT, SHIFT, SAME, UNKNOWN)))
    assert figures(many.text)[:4] == [4, 2, 1, 1]
    assert figures(many.text.partition("Best")[2])[:3] == [-3.39, -5.39, -1.39]
    assert answer(treated(SHIFT)).kind == answer(treated(SHIFT, CHECK)).kind == "on"
    assert answer().kind == answer(treated(UNKNOWN)).kind == "none"


@pytest.mark.parametrize(
    ("each", "level"),
    [
        (treated(replace(SHIFT, flags=()), CHECK), "high"),
        (treated(replace(SHIFT, flags=())), "high"),  # four times the largest measured size
        (treated(replace(SHIFT, flags=(), by_size=SHIFT.by_size[:-1])), "medium"),
        (treated(SHIFT), "medium"),
        (treated(replace(SHIFT, flags=(MISFIT,))), "low"),
        (treated(SHIFT, replace(CHECK, agrees=False)), "low"),
        (treated(UNKNOWN), "low"),
    ],
)
def test_confidence_is_that_of_the_least_certain_recipe(each, level):
    assert answer(each).confidence.startswith(f"Confidence: {level}; ")
    both = answer(each, treated(UNKNOWN))
    assert both.confidence.startswith("Confidence: low; ")


def test_advice_follows_the_measured_trend_and_the_price_of_compute():
    def advice(contrast, check=None):
        return verdicts_table([treated(contrast, check)]).rows[0][-1]

    dearer = replace(SHIFT.effective_compute[1], factor=measured(0.6, 0.2))
    dear = replace(SHIFT, effective_compute=(dearer,))
    assert len({advice(c) for c in (SHIFT, dear, falling(SHIFT, 0.05), SAME)}) == 4
    losing = falling(turning(0.05, 0.06, 0.07, 0.08, verdict="exponent"), 0.2)
    gaining = falling(turning(0.2, 0.15, 0.1, 0.08, verdict="exponent"), 0.05)
    assert "larger size" in advice(gaining)
    assert advice(losing) == advice(falling(SHIFT, 0.05))
    assert figures(advice(TURNS)) == [64]
    assert figures(advice(replace(UNKNOWN, by_size=UNKNOWN.by_size))) == [64]
    assert "did not hold" in advice(SHIFT, replace(CHECK, agrees=False))


def test_text_has_every_number_of_the_comparison():
    side = Measure(value=400.0, ci=Interval(200.0, None))
    outside = Crossover(size=side, better_below="plain", is_inside=False)
    told = replace(COMPARISON, contrasts=(SHIFT, replace(STEEPER, crossover=outside), UNKNOWN))
    text = blocks_text(comparison_blocks(told))
    assert NBSP not in text
    found = figures(text)
    for numbers in (
        [0.51, 0.47, 0.55],  # exponents
        [0.1, 0.05, 0.15],
        [1.4, 1.2, 1.6],  # compute and size worth
        [1.6, 1.1],
        [400, 200],
        [3e15, 1.5, 3],  # costs
    ):
        assert any(found[i : i + len(numbers)] == numbers for i in range(len(found))), numbers
    assert text.count("one seed: no interval") == 2 + len(
        UNKNOWN.by_size
    )  # in the answer and the verdicts too
    assert text.startswith(answer(*map(treated, told.contrasts)).text.replace(NBSP, " "))


@pytest.mark.parametrize("columns", [("width",), ("width", "depth")])
def test_marks_of_the_charts_are_the_numbers_of_the_comparison(columns):
    def deep(place, **size):
        return replace(place, size={**place.size, "depth": 2.0, **size})

    runs = {arm: recipes.sweep(arm) for arm in ("plain", "shifted")}
    told, contrast, loss = COMPARISON, SHIFT, recipes.true_loss
    if len(columns) == 2:  # and a size off the path
        places = (*map(deep, SHIFT.by_size), deep(SHIFT.by_size[0], width=24, depth=1.0))
        contrast = replace(SHIFT, by_size=places, at_target=deep(SHIFT.at_target))
        told = replace(told, target={"width": 512, "depth": 2.0}, columns=columns)
        frames = {arm: own.to_frame().assign(depth=2.0) for arm, own in runs.items()}
        runs = {a: Runs.from_frame(f, sizes=columns, tuned=("lr",)) for a, f in frames.items()}
    told = {"comparison": replace(told, contrasts=(contrast,)), "runs": runs}
    found = replace(FOUND, checks=(CHECK,), **told)

    def drawn(chart):
        return [mark for each in chart.series for mark in marks(each)]

    def holds(where, x, y, half=None):
        return any(
            math.isclose(x, a) and math.isclose(y, b, rel_tol=1e-9, abs_tol=1e-12)
            for a, b, ends in where
            if half is None or math.isclose(ends.upper or 0, y + half, rel_tol=1e-9, abs_tol=1e-12)
        )

    losses, changes = map(drawn, size_charts(found))
    for arm in runs:
        (b, c), (x0,) = COMPARISON.laws[arm].values, COMPARISON.laws[arm].reference
        assert all(holds(losses, x, b * (x / x0) ** -c) for x in (16, 512))
        assert all(holds(losses, w, loss(arm, w, s)) for w in (16, 128) for s in (0, 1, 2))
        assert all(holds(losses, w, loss(arm, w), 0.01 * loss(arm, w)) for w in (16, 128, 512))
    assert holds(losses, 512, CHECK.plain)
    assert holds(losses, 512, CHECK.loss)
    for w, half in ((16, 0.006), (128, 0.006), (512, 0.02)):
        assert holds(changes, w, loss("shifted", w) / loss("plain", w) - 1, half)
    assert holds(changes, 512, -0.05, 0.01)
    assert 24 not in {x for x, *_ in [*losses, *changes]}
    lawless, _ = size_charts(replace(found, comparison=replace(found.comparison, laws={})))
    assert {each.label for each in lawless.series} == {"", *runs}


def test_rows_of_all_groups_share_an_axis():
    shown = treatments((FOUND, replace(FOUND, group=replace(GROUP, name="again"))))
    assert [each.label for each in shown[::3]] == ["shifted (treatments)", "shifted (again)"]
    first, rest = targets_chart(shown[:2], shown), targets_chart(shown[2:], shown)
    assert first.axis == rest.axis
    assert first.axis.limits[1] == pytest.approx(UNKNOWN.by_size[-1].difference.value)
    worth = compute_chart(shown[:1])
    assert [(row.value, *row.interval) for row in worth.rows] == [
        (1.4, pytest.approx(1.2), pytest.approx(1.6)),
        (1.6, 1.1, None),
    ]
    assert compute_chart(shown[1:2]) is None


def test_page_has_every_group_and_what_others_bring(tmp_path):
    table = Table(caption="Weights kept", columns=("density",), rows=(("0.5",),))
    checked = (replace(FOUND, checks=(CHECK,), began="2026-01-02T00:00:00+00:00"), BROKEN)
    page = comparison_page(
        STUDY,
        checked,
        About(STUDY.name, STUDY.question, {"commit": "abc", "nothing": ""}),
        sections=[Details("How sparse?", (table,))],
    )
    path = write_page(page, tmp_path / "deep" / "toy.html")
    said = " ".join(inspected(path.read_text(encoding="utf-8")).words)
    for told in ("How sparse?", "Weights kept", "abc", "two sizes are too few.", "before any run"):
        assert told in said
    assert "nothing" not in said
    blocks = read_blocks(path)
    verdicts, checks = tables_of(blocks)
    assert [row[1].split("\n")[0] for row in verdicts.rows] == ["shifted", "steeper", "lost"]
    assert figures(*checks.rows[0]) == [-5, -6, -4, -3.4, -5.4, -1.4, 3, 0.55, 0.58]
    document = read_report(path)
    assert document["numbers"]["checks"][0]["group"] == "treatments"
    assert document["answer"] == blocks[0].text.replace(NBSP, " ")


def test_document_is_that_of_the_forecast_whatever_was_checked():
    assert comparison_study_document(STUDY, FINDINGS) == comparison_study_document(
        STUDY, (replace(FOUND, checks=(CHECK,)), BROKEN)
    )
    group, broken = comparison_study_document(STUDY, FINDINGS)["groups"]
    verdicts = [contrast["verdict"] for contrast in group["comparison"]["contrasts"]]
    assert verdicts == ["shift", "exponent", "unknown"]
    worth = group["comparison"]["contrasts"][0]["effective_compute"]
    assert worth[1]["factor"]["ci"] == [1.1, None]
    assert (broken["problem"], broken["comparison"]) == ("two sizes are too few.", None)
    assert checks_document(FINDINGS) == []


def test_runs_that_began_before_the_seal_are_no_blind_check(tmp_path):
    began = {"before": "2025-12-31T00:00:00+00:00", "after": "2026-01-02T00:00:00+00:00"}
    found = {}
    for name, time in began.items():
        late = [replace(FOUND, checks=(CHECK,), began=time)]
        about = About(STUDY.name, STUDY.question, {})
        html = page_html(comparison_page(STUDY, late, about))
        found[name] = "not a blind check" in html
    assert found == {"before": True, "after": False}
