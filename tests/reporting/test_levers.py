"""Levers in words, pictures and on their page."""

import math
from dataclasses import replace

import pytest

from extrap.levers import ArmResult, LeverFinding, LeverReport
from extrap.records import Interval, Lever, Measure
from extrap.reporting.figures import draw_lever_effects, lever_effects_info
from extrap.reporting.levers import lever_headline, lever_words, levers_document

from ..test_levers import GHOST, LARGE, SMALL
from .conftest import NOTHING, drawn, figures, measured, plain


def arm(name, loss, updates, **changes):
    made = {"lr": 0.02, "rate_rule": "tuned", "is_edge": False, "batch_sizes": (4, 4)}
    made |= {"n_examples": 2560, "seed_sd": 0.02, "n_lost": 0, **changes}
    return ArmResult(name=name, loss=loss, updates=updates, **made)


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


def words(finding):
    return plain(lever_words(finding))


def test_kinds_follow_from_interval_and_seed_noise():
    kinds = [finding.kind for finding in REPORT.findings]
    assert kinds == ["alike", "higher", "unclear", "unclear", "lower"]
    for sign, kind in ((1, "higher"), (-1, "lower")):  # one end within the noise is not enough
        assert replace(ALIKE, difference=measured(sign * 0.02, 0.015)).kind == kind


def test_words_state_losses_difference_noise_updates_and_what_to_do():
    told = [8, 2.01, 2, 0.01, 0.004, 0.016, 0.5, 0.02, 80, 640, 8]
    assert figures(words(ALIKE)) == told
    headline = plain(lever_headline(REPORT))
    assert figures(headline) == [-2.9, 8, 8, 5, 1, 2]
    assert headline.index("ghosts") < headline.index("batch × 8")
    free = replace(ALIKE, difference=measured(0.001, 0.006))
    assert "Use it:" in words(free)
    assert "Do not use it" in words(HIGHER)
    assert words(UNCLEAR).endswith("would tell.")
    assert words(LOWER).endswith("Use it.")
    assert "0.600 (0.450 to 0.810)" in words(LOWER)
    for interval, side in (
        (Interval(0.4, None), "at least 0.4"),
        (Interval(None, 0.1), "at most 0.1"),
    ):
        share = Measure(value=0.2, ci=interval)
        assert f"one bound: {side}" in words(replace(LOWER, share=share))
    assert "no gap for sure" in words(replace(LOWER, share=NOTHING))


def test_document_has_the_keys_that_are_promised():
    document = levers_document(REPORT)
    promised = {"kind", "schema_version", "level", "n_judged", "n_tuning", "headline", "levers"}
    assert set(document) == promised
    last = document["levers"][-1]
    assert (last["share"], len(last["arms"])) == ({"value": 0.6, "ci": [0.45, 0.81]}, 3)


@pytest.mark.usefixtures("pictures")
def test_picture_shows_percent_of_the_plain_loss_and_cuts_long_bars_off():
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
    svg = drawn(draw_lever_effects, info)
    assert "not known" in svg
    low, high = lever_effects_info((replace(LOST, plain=LOST.treated),)).limits
    assert low < 0 < high
