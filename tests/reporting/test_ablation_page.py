"""Ablations: answer, advice, numbers."""

from dataclasses import replace

import pytest

from extrap.ablations import AblationFinding, AblationReport, ArmResult
from extrap.records import Ablation, Interval, Measure
from extrap.reporting.ablation_page import (
    ablation_advice,
    ablation_answer,
    ablation_document,
    effects_chart,
)

from ..test_ablations import GHOST, LARGE, SMALL
from .conftest import NOTHING, figures, measured


def arm(name, loss, updates, **changes):
    made = {"lr": 0.02, "rate_rule": "tuned", "is_edge": False, "batch_sizes": (4, 4)}
    made |= {"n_examples": 2560, "seed_sd": 0.02, "n_lost": 0, **changes}
    return ArmResult(name=name, loss=loss, updates=updates, **made)


ALIKE = AblationFinding(
    ablation=Ablation(
        name="batch × 8", group="batches", question="Dearer?", plain=SMALL, treated=LARGE
    ),
    plain=arm("small", 2.0, 640),
    treated=arm("large", 2.01, 80),
    reference=None,
    n_seeds=12,
    difference=measured(0.01, 0.006),
    gap=NOTHING,
    share=NOTHING,
    contrast=NOTHING,
)
HIGHER = replace(
    ALIKE, ablation=replace(ALIKE.ablation, name="kept"), difference=measured(0.3, 0.02)
)
UNCLEAR = replace(
    ALIKE, ablation=replace(ALIKE.ablation, name="odd"), difference=measured(0.01, 0.05)
)
LOWER = replace(
    ALIKE,
    ablation=Ablation(
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
    ablation=replace(ALIKE.ablation, name="rate × k"),
    treated=arm("large", None, 80, n_lost=12, seed_sd=None),
    n_seeds=0,
    difference=NOTHING,
)
REPORT = AblationReport(
    findings=(ALIKE, HIGHER, UNCLEAR, LOST, LOWER), level=0.95, n_judged=60, n_tuning=24
)


def test_kinds_follow_from_interval_and_seed_noise():
    kinds = [finding.kind for finding in REPORT.findings]
    assert kinds == ["alike", "higher", "unclear", "unclear", "lower"]
    for sign, kind in ((1, "higher"), (-1, "lower")):  # one end within the noise is not enough
        assert replace(ALIKE, difference=measured(sign * 0.02, 0.015)).kind == kind


def test_answer_gives_the_effects_and_counts():
    found = ablation_answer(REPORT)
    # −0.06 ± 0.01 over 2.1; batch × 8 has 640 / 80 times fewer updates
    assert figures(found.text) == [1, 5, -2.9, -3.3, -2.4, 1, 8, 8, 1, 2]
    assert found.text.index("ghosts") < found.text.index("batch × 8")
    for findings, kind, confidence in (
        ((LOWER,), "on", "high"),
        ((LOWER,) * 12, "on", "medium"),  # 12 × 0.05 = 0.6 would be significant by chance
        ((replace(LOWER, plain=arm("large", 2.1, 80, is_edge=True)),), "on", "medium"),
        ((UNCLEAR,), "mixed", "low"),
        ((HIGHER,), "off", "high"),
    ):
        found = ablation_answer(replace(REPORT, findings=findings))
        assert (found.kind, found.confidence.split(";")[0][12:]) == (kind, confidence)


def test_advice_weighs_loss_and_updates():
    even = replace(ALIKE, treated=arm("large", 2.01, 640))
    asked = (ALIKE, even, HIGHER, replace(HIGHER, treated=even.treated), UNCLEAR, LOWER, LOST)
    words = (
        "save updates",
        "Leave",
        "Only to save",
        "Do not",
        "Add seeds",
        "Use it.",
        "this rate",
    )
    for finding, word in zip(asked, words, strict=True):
        assert word in ablation_advice(finding)


def test_document_has_the_keys_that_are_promised():
    document = ablation_document(REPORT)
    promised = {"kind", "schema_version", "level", "n_judged", "n_tuning", "answer", "ablations"}
    assert set(document) == promised
    last = document["ablations"][-1]
    assert (last["share"], len(last["arms"])) == ({"value": 0.6, "ci": [0.45, 0.81]}, 3)
    arms = "name lr rate is_edge batch_sizes updates n_examples loss seed_sd n_lost"
    assert set(last["arms"]["plain"]) == set(arms.split())
    keys = (
        "name group kind n_seeds difference is_within_seed_noise updates_ratio gap share contrast"
    )
    assert set(last) == {*keys.split(), "arms"}


def test_chart_has_effects_relative_to_the_plain_loss():
    rows = {row.label: row for row in effects_chart("", REPORT.findings).rows}
    assert rows["kept"].value == pytest.approx(0.15)
    assert rows["kept"].interval == pytest.approx((0.14, 0.16))
    assert rows["rate × k"].value is None
    assert rows["reference small"].value == pytest.approx(-0.1 / 2.1)
    assert rows["reference small"].interval == pytest.approx((-0.12 / 2.1, -0.08 / 2.1))
