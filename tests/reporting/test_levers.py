"""Levers in words, pictures and on their page."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from extrap import Recipe, StudySpec, TunedRange, Workload
from extrap.levers import ArmResult, LeverFinding, LeverReport
from extrap.records import Interval, Lever, Measure
from extrap.reporting import lever_page, levers_document, levers_text
from extrap.reporting.figures import draw_lever_effects, draw_svg, lever_effects_info
from extrap.reporting.levers import lever_headline, lever_table, lever_words
from extrap.reporting.numbers import NBSP

NOTHING = Measure(value=None, ci=Interval(None, None))
SMALL = StudySpec(
    name="small",
    question="?",
    workload=Workload(name="teacher"),
    recipe=Recipe(steps=640, batch_size=4),
    sizes={"width": (4,)},
    tune={"lr": TunedRange(low=0.01, high=0.1, n=2)},
)
LARGE = replace(SMALL, name="large", recipe=Recipe(steps=80, batch_size=32))
GHOST = replace(LARGE, name="ghost")


def arm(name: str, loss: float | None, updates: int, **changes: object) -> ArmResult:
    made = ArmResult(
        name=name,
        lr=0.02,
        rate_rule="tuned",
        is_edge=False,
        batch_sizes=(4, 4),
        updates=updates,
        n_examples=2560,
        loss=loss,
        seed_sd=0.02,
        n_lost=0,
    )
    return replace(made, **changes)


def measured(value: float, half: float) -> Measure:
    return Measure(value=value, ci=Interval(value - half, value + half))


ALIKE = LeverFinding(
    lever=Lever(name="batch × 8", group="batches", question="Dearer?", plain=SMALL, treated=LARGE),
    plain=arm("small", 2.0, 640),
    treated=arm("large", 2.01, 80),
    reference=None,
    n_seeds=12,
    difference=measured(0.01, 0.006),
    gap=NOTHING,
    share=NOTHING,
    contrast=NOTHING,
)
HIGHER = replace(ALIKE, lever=replace(ALIKE.lever, name="kept"), difference=measured(0.3, 0.02))
UNCLEAR = replace(ALIKE, lever=replace(ALIKE.lever, name="odd"), difference=measured(0.01, 0.05))
LOWER = replace(
    ALIKE,
    lever=Lever(
        name="ghosts", group="ghosts", question="?", plain=LARGE, treated=GHOST, reference=SMALL
    ),
    plain=arm("large", 2.1, 80),
    treated=arm("ghost", 2.04, 80),
    reference=arm("small", 2.0, 640),
    difference=measured(-0.06, 0.01),
    gap=measured(0.1, 0.02),
    share=Measure(value=0.6, ci=Interval(0.45, 0.81)),
    contrast=measured(-0.05, 0.02),
)
LOST = replace(
    ALIKE,
    lever=replace(ALIKE.lever, name="rate × k"),
    treated=arm("large", None, 80, n_lost=12, seed_sd=None),
    n_seeds=0,
    difference=NOTHING,
)
REPORT = LeverReport(
    findings=(ALIKE, HIGHER, UNCLEAR, LOST, LOWER), level=0.95, n_judged=60, n_tuning=24
)


def words(finding: LeverFinding) -> str:
    return lever_words(finding).replace(NBSP, " ")


def test_kinds_follow_from_interval_and_seed_noise() -> None:
    kinds = [finding.kind for finding in REPORT.findings]
    assert kinds == ["alike", "higher", "unclear", "unclear", "lower"]
    for sign, kind in ((1, "higher"), (-1, "lower")):  # one end within the noise is not enough
        assert replace(ALIKE, difference=measured(sign * 0.02, 0.015)).kind == kind


def test_headline_counts_kinds_and_names_who_saves_most_updates() -> None:
    assert lever_headline(REPORT).replace(NBSP, " ") == (
        "Lower final loss: ghosts (−2.9 %). Fewer updates, within one run's seed noise: batch × 8 "
        "(8 times). Of 5 levers at equal examples 1 raises the final loss and 2 are "
        "not told from noise."
    )


def test_words_say_difference_noise_updates_and_what_to_do() -> None:
    assert words(ALIKE) == (
        "batch × 8: the final loss is 2.0100 against 2.0000, a difference of 0.0100 (0.0040 to "
        "0.0160) nats (+0.5 %); one run's seed noise is 0.02; 80 updates instead of 640, 8 times "
        "fewer. Use it: fewer updates cost less than one run's seed noise."
    )
    free = replace(ALIKE, difference=measured(0.001, 0.006))
    assert words(free).endswith("Use it: fewer updates cost nothing that is seen.")
    assert words(HIGHER).endswith("Do not use it, unless fewer updates are worth that much.")
    assert words(UNCLEAR).endswith("More seeds would tell.")
    assert words(LOWER).endswith("Use it.")


def test_share_is_told_with_its_interval_or_its_one_bound_or_not_at_all() -> None:
    assert "of which it closes a share of 0.600 (0.450 to 0.810)" in words(LOWER)
    assert "its effect minus that of '' is" in words(LOWER)
    one_sided = replace(LOWER, share=Measure(value=1.2, ci=Interval(0.4, None)))
    assert "not told from 0, so that the share it closes has one bound: at least 0.4" in words(
        one_sided
    )
    at_most = replace(LOWER, share=Measure(value=-0.2, ci=Interval(None, 0.1)))
    assert "one bound: at most 0.1" in words(at_most)
    assert "there is no gap for sure" in words(replace(LOWER, share=NOTHING))


def test_what_spoils_a_finding_is_said() -> None:
    assert words(LOST).startswith("rate × k: 0 seed(s) have a loss in every arm, too few to tell")
    assert "12 run(s) diverged" in words(LOST)
    edge = replace(ALIKE, treated=replace(ALIKE.treated, is_edge=True, n_lost=2))
    assert "Beware: the best rate of large lies at the edge of what was tried." in words(edge)
    assert "Beware: 2 run(s) were lost" in words(edge)


def test_picture_shows_percent_of_the_plain_loss_and_cuts_long_bars_off() -> None:
    info = lever_effects_info(REPORT.findings)
    rows = info.rows.set_index("name")
    assert rows.loc["kept", "value"] == pytest.approx(15.0)
    assert rows.loc["batch × 8", "noise"] == pytest.approx(1.0)
    assert math.isnan(rows.loc["rate × k", "value"])
    low, high = info.limits
    assert rows.loc["reference: small", "value"] == pytest.approx(-100 * 0.1 / 2.1)
    assert low < -1.0
    assert 16.0 < high < 18.0
    wild = replace(HIGHER, difference=Measure(value=0.1, ci=Interval(-9.0, 9.0)))
    assert lever_effects_info((wild,)).limits[1] < 20
    svg = draw_svg(
        lambda ax: draw_lever_effects(ax, info), width=400, height=300, key="l", label="levers"
    )
    assert "not known" in svg


def test_picture_of_levers_without_a_loss_has_an_axis() -> None:
    low, high = lever_effects_info((replace(LOST, plain=LOST.treated),)).limits
    assert low < 0 < high


def test_document_has_every_number_and_is_plain_json() -> None:
    document = json.loads(json.dumps(levers_document(REPORT)))
    assert [lever["kind"] for lever in document["levers"]] == [f.kind for f in REPORT.findings]
    assert document["levers"][-1]["share"] == {"value": 0.6, "ci": [0.45, 0.81]}
    assert document["levers"][0]["updates_ratio"] == 8.0
    assert document["levers"][0]["is_within_seed_noise"] is True
    assert set(document["levers"][0]["arms"]) == {"plain", "treated"}


def test_page_is_one_file_with_every_lever_and_its_limits(tmp_path: Path) -> None:
    path = lever_page(
        REPORT,
        path=tmp_path / "deep" / "levers.html",
        title="levers",
        question="Which?",
        created="2026-01-01T00:00:00+00:00",
        provenance={"commit": "abc", "nothing": ""},
    )
    html = path.read_text(encoding="utf-8")
    assert html.count("<h2>") == 2 + 3
    for finding in REPORT.findings:
        assert finding.lever.name in html
    assert "What this cannot tell you" in html
    assert "abc" in html
    assert html.count("<script") == 2  # the numbers, and what sorts tables
    assert len(lever_table(REPORT).rows) == 5
    text = levers_text(REPORT)
    assert "\nghosts\n- ghosts: the final loss" in text
    assert NBSP not in text
