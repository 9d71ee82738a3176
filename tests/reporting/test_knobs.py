"""Sensitivity of fixed values: answer, advice, numbers."""

import math
from dataclasses import replace

import pytest

from extrap.knobs import Knob, KnobReport, Measure, Offset
from extrap.records import Interval
from extrap.records.numbers import NBSP
from extrap.reporting.sensitivity_page import (
    knob_advice,
    knobs_blocks,
    knobs_document,
    sensitivity_answer,
    sensitivity_blocks,
)
from extrap.reporting.text import blocks_text

from .conftest import NOTHING, figures, measured

WARMUP = Knob(
    name="warmup",
    base=0.05,
    other=None,
    kind="optimum",
    offsets=tuple(
        Offset(size=s, octaves=measured(u, 0.1), pull=measured(-u, 0.1), lost=0)
        for s, u in ((32.0, -0.1), (64.0, 0.4), (128.0, 0.9))
    ),
    drift=measured(0.5, 0.1),
    trend=measured(-0.01, 0.002),
    optimum=measured(2.4, 0.5),
    at_stake=Measure(value=0.008, ci=Interval(0.006, 0.019)),
    octave=measured(-0.006, 0.001),
    better=1,
    n_seeds=4,
)
STEEP = replace(
    WARMUP,
    name="beta2",
    base=0.999,
    kind="slope",
    drift=NOTHING,
    optimum=NOTHING,
    at_stake=Measure(value=0.006, ci=Interval(0.001, 0.011)),
    better=-1,
)
FLAT = replace(STEEP, name="eps", base=1e-8, kind="flat", at_stake=measured(0.001, 0.001))
CHOICE = replace(
    STEEP, name="precision", base="fp32", other="bf16", kind="choice", octave=measured(0.01, 0.002)
)
LOST = replace(FLAT, name="init_scale", kind="unknown", at_stake=NOTHING, flags=("lost-runs",))
REPORT = KnobReport(
    knobs=(WARMUP, STEEP, CHOICE, FLAT, LOST),
    column="width",
    sizes=(32.0, 64.0, 128.0),
    target=1024.0,
    level=0.95,
    n_runs=99,
    notes=("clip was not moved: it is 0.",),
)


def test_answer_names_the_first_value_its_cost_and_how_sure_that_is():
    found = sensitivity_answer(REPORT)
    # 0.05 × 2^2.4 = 0.264; octaves 1.9 and 2.9 give 0.187 and 0.373; 3 of 5 cost 0.5 % or more
    told = [0.05, 0.8, 0.6, 1.9, 1024, 0.264, 0.187, 0.373, 0.5, 3, 5]
    assert figures(found.text) == told
    assert (found.kind, figures(found.confidence)) == ("mistuned", [8])
    for ci, flags, confidence in (
        (Interval(0.001, 0.02), (), "medium"),
        (Interval(0.0, 0.02), (), "low"),
        (Interval(0.006, None), (), "low"),
        (Interval(0.006, 0.02), ("bends",), "medium"),
        (Interval(0.006, 0.02), ("far",), "low"),
    ):
        first = replace(WARMUP, at_stake=Measure(value=0.008, ci=ci), flags=flags)
        changed = sensitivity_answer(replace(REPORT, knobs=(first, FLAT)))
        assert changed.confidence.split(";")[0] == f"Confidence: {confidence}"
    unsure = sensitivity_answer(replace(REPORT, knobs=(FLAT, LOST)))
    assert (unsure.kind, "init_scale" in unsure.confidence) == ("mixed", True)
    assert sensitivity_answer(replace(REPORT, knobs=(FLAT,))).kind == "on"


@pytest.mark.parametrize(
    ("knob", "kind"),
    [
        (WARMUP, "width^0.5"),  # moves 0.5 × 3 octaves from width 128 to 1024
        (replace(WARMUP, drift=measured(0.05, 0.01)), "once"),
        (replace(WARMUP, drift=measured(0.5, 0.6)), "once"),
        (replace(WARMUP, at_stake=measured(0.002, 0.001)), "Leave"),
        (replace(WARMUP, at_stake=measured(0.01, 0.01)), "Add seeds"),
        (STEEP, "above 0.9995"),  # beta2 an octave closer to 1
        (replace(STEEP, better=1), "below 0.998"),
        (replace(STEEP, octave=measured(-0.001, 0.01)), "Add seeds"),
        (CHOICE, "Keep fp32"),
        (replace(CHOICE, octave=measured(-0.01, 0.002)), "Change it to bf16"),
        (replace(CHOICE, octave=measured(0.0, 0.002)), "Either"),
        (replace(CHOICE, octave=measured(0.0, 0.02)), "Add seeds"),
        (FLAT, "Leave"),
        (LOST, "Repeat"),
    ],
)
def test_advice_follows_from_the_intervals(knob, kind):
    assert kind in knob_advice(REPORT, knob)


def test_text_and_document_have_every_value_in_order():
    names = ["warmup", "beta2", "precision", "eps", "init_scale"]
    text = blocks_text(knobs_blocks(REPORT))
    places = [text.index(f"\n{name} ") for name in names]
    assert places == sorted(places)
    assert text.startswith(sensitivity_answer(REPORT).text.replace(NBSP, " "))
    assert (text.endswith(REPORT.notes[0]), NBSP in text) == (True, False)
    document = knobs_document(REPORT)
    assert [knob["name"] for knob in document["knobs"]] == names
    first = document["knobs"][0]
    keys = (
        "name kind base other drift trend at_stake optimum_at_target octave by_size n_seeds flags"
    )
    assert set(first) == {*keys.split(), "advice"}
    assert first["optimum_at_target"]["value"] == pytest.approx(0.05 * 2**2.4)
    assert first["octave"] == {"value": -0.006, "ci": [-0.007, -0.005], "better": "up"}
    assert first["by_size"][2]["octaves"]["value"] == 0.9


def test_charts_have_costs_as_shares_and_the_line_to_the_target():
    costs, paths = (figure.chart for figure in sensitivity_blocks(REPORT)[1].blocks)
    assert costs.rows[0].value == 0.008
    assert costs.rows[-1].value is None
    line, marks = paths.series
    assert line.x == (32.0, 1024.0)
    assert line.y[1] - line.y[0] == pytest.approx(0.5 * math.log2(1024 / 32))
    assert (marks.x[-1], marks.y[-1], marks.upper[-1]) == (1024.0, 2.4, 2.9)
    assert len(sensitivity_blocks(replace(REPORT, knobs=(STEEP, FLAT)))[1].blocks) == 1
