"""Comparisons of recipes in words, tables, pictures and on their page."""

import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from extrap.comparing import Crossover
from extrap.records import Interval, Measure, Runs
from extrap.reporting import (
    Section,
    TargetCheck,
    checks_document,
    comparison_page,
    comparison_study_document,
    comparison_study_text,
)
from extrap.reporting import comparison_words as words
from extrap.reporting import figures as drawing
from extrap.reporting.comparison_tables import (
    checks_table,
    costs_table,
    verdicts_table,
    worth_table,
)
from extrap.reporting.numbers import NBSP
from extrap.reporting.tables import Table

from . import recipes
from .conftest import NOTHING, figures, measured, plain
from .hostile import inspected
from .recipes import BROKEN, COMPARISON, FOUND, GROUP, SAME, SHIFT, STEEPER, STUDY, UNKNOWN

FINDINGS = (FOUND, BROKEN)
LARGEST = replace(STEEPER, by_size=STEEPER.by_size[-1:])
FLATTER = replace(LARGEST, exponent_difference=measured(-0.1, 0.05))
SEEN = {"treated": "shifted", "n_pairs": 3, "plain": 0.58, "loss": 0.55, "agrees": True}
CHECK = TargetCheck(**SEEN, difference=measured(-0.05, 0.01), forecast=measured(-0.034, 0.02))


def card_of(contrast, check=None):
    return words.contrast_card(contrast, COMPARISON, check)


def facts_of(contrast, check=None):
    facts = card_of(contrast, check).facts
    return {plain(name).removeprefix("loss at "): plain(value) for name, value in facts}


def falling(contrast, at, half=0.01):
    """The same with another difference at the target."""
    return replace(contrast, at_target=replace(contrast.at_target, difference=measured(at, half)))


@pytest.mark.parametrize(
    ("contrast", "verdict", "kind", "advice"),
    [
        (SHIFT, "◆ shifts the law down", "on", "It pays"),
        (falling(SHIFT, 0.05), "◆ shifts the law up", "off", "Do not use it"),
        (replace(falling(SHIFT, 0.0), by_size=()), "◆ shifts the law", "mixed", ""),
        (replace(SHIFT, effective_compute=()), "◆ shifts the law down", "on", "proportion"),
        (STEEPER, "by size, falls faster", "mixed", "depends on size"),
        (LARGEST, "exponent, falls faster", "on", "width 128 and gains more"),
        (falling(LARGEST, -0.05), "exponent, falls faster", "on", "width 512 and gains more"),
        (falling(LARGEST, 0.05), "exponent, falls faster", "", "Run one larger size"),
        (falling(FLATTER, -0.05), "exponent, falls slower", "", "width 512, by less"),
        (falling(FLATTER, 0.05), "exponent, falls slower", "off", "Do not scale it up"),
        (replace(LARGEST, exponent_difference=NOTHING), "changes its exponent", "on", ""),
        (SAME, "● no difference told", "same", "from -1.90 to 2.10 %"),
        (UNKNOWN, "? cannot say", "unknown", "cannot say"),
    ],
)
def test_verdict_is_told_in_words_shape_and_advice(contrast, verdict, kind, advice):
    card = card_of(contrast)
    assert plain(card.verdict).endswith(verdict)
    assert card.kind == kind or not kind
    assert card.verdict.endswith(words.verdict_words(contrast))
    assert advice in plain(" ".join(card.advice))


def test_card_has_difference_exponents_worth_crossing_and_p_value():
    told = facts_of(SHIFT)
    assert figures(told["width 512, forecast"]) == [-3.39, -5.39, -1.39]
    assert figures(told["width 128, 3 pairs"])[0] == -4.09
    assert figures(told["exponent in width, plain"]) == [0.5, 0.47, 0.53]
    assert figures(told["exponent, difference"]) == [0.01, -0.04, 0.06]
    assert figures(told["worth at width 512"]) == [1.6, 1.1, 1.3, 1.05]
    assert figures(told["laws cross"]) == []
    (p_value,) = (value for name, value in told.items() if name.startswith("p-value"))
    assert re.findall(r"< 0\.001", p_value) == ["< 0.001"] * 2  # Holm's of .0006 too
    crossing = facts_of(STEEPER)["laws cross"]
    assert figures(crossing) == [44.4, 34.4, 54.4]
    assert "below it plain is better" in crossing
    side = Measure(value=400.0, ci=Interval(200.0, None))
    outside = replace(
        STEEPER, crossover=Crossover(size=side, better_below="plain", is_inside=False)
    )
    assert facts_of(outside)["laws cross"].startswith("width 400 (at least 200)")
    assert "one seed" in plain(card_of(UNKNOWN).facts[0][1])
    assert figures(card_of(UNKNOWN).experiment[0])[:1] == [64]
    assert card_of(SHIFT).experiment == card_of(replace(UNKNOWN, by_size=())).experiment == ()


MISFIT = "lack-of-fit: the laws miss the losses of plain or shifted by more than their noise."


def turning(*differences, target=None):
    """A shift with these measured differences at the widths, told at each."""
    places = tuple(
        replace(place, difference=measured(value, 0.01))
        for place, value in zip(SHIFT.by_size, differences, strict=True)
    )
    at = SHIFT.at_target
    at = replace(at, size={"width": target or 512}, difference=measured(-0.48, 0.02))
    return replace(SHIFT, by_size=places, at_target=at)


@pytest.mark.parametrize("verdict", ["shift", "exponent", "same", "unknown"])
def test_differences_of_both_signs_depend_on_size_whatever_the_law_says(verdict):
    card = card_of(replace(turning(0.21, 0.24, -0.17, -0.388), verdict=verdict))
    assert card.kind == "mixed"
    assert plain(card.verdict).startswith("■ better or worse")
    said = plain(" ".join(card.advice))
    assert figures(said)[:6] == [16, 21, 32, 24, 64, -17]
    assert "proportion" not in said
    assert figures(dict(card.facts)["laws cross"]) == [32, 64]
    untold = turning(-0.2, -0.2, -0.2, 0.005)
    assert untold.sign_changes == ()
    assert "better or worse" not in card_of(untold).verdict


def test_laws_that_do_not_fit_leave_the_word_to_what_was_measured():
    contrast = replace(turning(0.1, 0.2, 0.2, 0.3), flags=(MISFIT,))
    card = card_of(contrast)
    assert plain(card.verdict) == "◆ differs, higher"  # the forecast of −48 % has no say
    assert figures(card.advice[0])[:2] == [16, 10]
    assert plain(card.facts[0][0]).removeprefix("loss at ") == "width 128, 3 pairs"
    small = card_of(replace(turning(0.1, 0.2, 0.2, 0.005), flags=(MISFIT,)))
    assert (plain(small.verdict), small.kind) == ("◆ differs", "mixed")
    assert figures(small.advice[0])[:2] == [16, 10]


def test_check_says_whether_the_forecast_held():
    checked = replace(FOUND, checks=(CHECK,))
    first, second = map(plain, words.check_sentences(checked))
    assert "2026-01-01T00:00:00+00:00" in first
    assert figures(second.partition(":")[2]) == [-3.4, -5.4, -1.4, -5, -6, -4, 3]
    blind = {
        began: "no blind check" in words.check_sentences(replace(checked, began=began))[0]
        for began in ("2026-01-02T00:00:00+00:00", "2025-12-31T00:00:00+00:00")
    }
    assert list(blind.values()) == [False, True]
    off, blank = (replace(CHECK, agrees=agrees) for agrees in (False, None))
    told = words.check_sentences(replace(FOUND, checks=(off, blank)))
    assert "held" in second
    assert "was off" in told[1]
    assert "too few runs" in told[2]
    assert "-5 % measured" in plain(words.comparison_headline([checked]))
    card = card_of(SHIFT, off)
    assert plain(card.facts[0][0]).removeprefix("loss at ") == "width 512, measured"
    assert "did not hold" in card.advice[1]
    table = checks_table(checked)
    assert table.rows[0][-1] == "held"
    assert checks_table(FOUND) is None
    assert checks_document([checked])[0]["group"] == "treatments"


def test_page_and_text_have_every_group_and_what_others_bring(tmp_path):
    table = Table(caption="Weights kept", columns=("density",), rows=(("0.5",),))
    extra = Section(key="sparse", title="How sparse?", words=("Very.",), tables=(table,))
    html = comparison_page(
        STUDY,
        FINDINGS,
        path=tmp_path / "deep" / "toy.html",
        created="2026-01-01T00:00:00+00:00",
        provenance={"commit": "abc", "nothing": ""},
        sections=[extra],
    ).read_text(encoding="utf-8")
    said = " ".join(inspected(html).words)
    for told in ("How sparse?", "Weights kept", "abc", "two sizes are too few."):
        assert told in said
    assert 'href="#sparse"' in html
    assert "nothing" not in re.findall(r'scope="row">(.*?)<', html)
    text = comparison_study_text(STUDY, FINDINGS)
    assert f"- {plain(words.contrast_sentence(SHIFT, COMPARISON))}" in plain(text)
    assert "two sizes are too few." in text
    assert NBSP not in text
    group, broken = comparison_study_document(STUDY, FINDINGS)["groups"]
    verdicts = [contrast["verdict"] for contrast in group["comparison"]["contrasts"]]
    assert verdicts == ["shift", "exponent", "unknown"]
    assert group["comparison"]["contrasts"][0]["effective_compute"][1]["factor"]["ci"] == [
        1.1,
        None,
    ]
    assert (broken["problem"], broken["comparison"]) == ("two sizes are too few.", None)
    assert figures(words.comparison_headline(FINDINGS)) == [-3.4, 512, -1.1, 512]
    assert [row[0] for row in verdicts_table(COMPARISON).rows] == list(GROUP.arms)
    assert worth_table(COMPARISON).rows[1][2].startswith("1.600\n(at least 1.100)")
    assert [row[-1] for row in costs_table(COMPARISON).rows] == ["3"] * 4


def marks(draw, info):
    """All points and ends of bars that are drawn."""
    draw(ax := Figure().add_subplot(), info)
    bars = [end for c in ax.collections if hasattr(c, "get_segments") for end in c.get_segments()]
    points = [c.get_offsets() for c in ax.collections] + [x.get_xydata() for x in ax.get_lines()]
    return np.concatenate([*points, *bars])


def assert_drawn(found, expected, aside=1e-9):
    for x, y in expected:
        near = np.abs(found[:, 0] / x - 1) <= aside
        assert np.isclose(found[near, 1], y, rtol=1e-9).any(), (x, y)


def deep(place, **size):
    return replace(place, size={**place.size, "depth": 2.0, **size})


@pytest.mark.parametrize("columns", [("width",), ("width", "depth")])
def test_marks_of_the_pictures_are_the_numbers_of_the_comparison(columns):
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
    losses = marks(drawing.draw_recipe_losses, drawing.recipe_losses_info(found))
    changes = marks(drawing.draw_size_differences, drawing.size_differences_info(found))
    for arm in runs:
        (b, c), (x0,) = COMPARISON.laws[arm].values, COMPARISON.laws[arm].reference
        assert_drawn(losses, [(x, b * (x / x0) ** -c) for x in (16, 512)])
        assert_drawn(losses, [(w, loss(arm, w, s)) for w in (16, 128) for s in (0, 1, 2)])
        ends = [(w, loss(arm, w) * by) for w in (16, 128, 512) for by in (0.99, 1, 1.01)]
        assert_drawn(losses, ends, aside=0.05)
    assert_drawn(losses, [(512, CHECK.plain), (512, CHECK.loss)], aside=0.05)
    for w, half in ((16, 0.6), (128, 0.6), (512, 2)):
        off = 100 * (loss("shifted", w) / loss("plain", w) - 1)
        assert_drawn(changes, [(w, off + x) for x in (0, -half, half)])
    assert_drawn(changes, [(512, x) for x in (-5, -6, -4)], aside=0.2)
    assert 24 not in {*losses[:, 0], *changes[:, 0]}
    lawless = replace(found, comparison=replace(found.comparison, laws={}))
    drawn = marks(drawing.draw_recipe_losses, drawing.recipe_losses_info(lawless))
    assert_drawn(drawn, ends[:6], aside=0.05)


def test_worth_is_drawn_in_factors_of_compute():
    points = marks(drawing.draw_recipe_worth, drawing.recipe_worth_info(COMPARISON))
    assert_drawn(points, [(1.2, 0), (1.4, 0), (1.6, 0), (1.1, 1), (1.6, 1)])
