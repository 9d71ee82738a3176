"""Sensitivity of fixed values: answer, advice, numbers."""

from dataclasses import replace

import pytest

from extrap.analyses.sensitivity import Sensitivity, Setting
from extrap.analyses.sensitivity.page import sensitivity_answer, sensitivity_blocks
from extrap.records import Interval, Measure
from extrap.records.codec import document
from extrap.reporting.text import blocks_of
from tests.analyses.conftest import NOTHING, figures, measured, tables_of

WARMUP = Setting(
    name="warmup",
    base=0.05,
    values=(0.025, 0.1),
    changes=(measured(0.02, 0.001), measured(-0.006, 0.001)),
    cost=Measure(value=0.008, ci=Interval(0.006, 0.019)),
    best=measured(0.264, 0.05),
    drift=measured(0.5, 0.1),
    advice="tune-and-scale",
    n_seeds=4,
)
STEEP = replace(
    WARMUP,
    name="beta2",
    base=0.999,
    values=(0.998, 0.9995),
    cost=Measure(value=0.006, ci=Interval(0.001, 0.011)),
    best=NOTHING,
    drift=NOTHING,
    advice="extend",
)
FLAT = replace(STEEP, name="eps", base=1e-8, cost=measured(0.001, 0.001), advice="leave")
CHOICE = replace(
    STEEP,
    name="precision",
    base="fp32",
    values=("bf16",),
    changes=(measured(-0.005, 0.002),),
    advice="change",
)
LOST = Setting(name="init_scale", base=1.0, values=(0.5, 2.0), n_seeds=1, flags=("lost-runs",))
REPORT = Sensitivity(
    settings=(WARMUP, STEEP, CHOICE, FLAT, LOST),
    column="width",
    sizes=(32.0, 64.0, 128.0),
    target=1024.0,
    level=0.95,
    n_runs=99,
    notes=("54 runs repeat others.",),
)


def test_answer_names_the_first_value_its_cost_and_how_sure_that_is():
    found = sensitivity_answer(REPORT)
    assert figures(found.text) == [0.05, 0.8, 0.6, 1.9, 1024, 0.264, 0.214, 0.314]
    assert (found.color, figures(found.confidence)) == ("warn", [8])
    for ci, flags, confidence in (
        (Interval(0.0, 0.02), (), "low"),
        (Interval(0.006, None), ("bends",), "medium"),
        (Interval(0.006, 0.02), ("far",), "low"),
    ):
        first = replace(WARMUP, cost=Measure(value=0.008, ci=ci), flags=flags)
        changed = sensitivity_answer(replace(REPORT, settings=(first, FLAT)))
        assert changed.confidence.split(";")[0] == f"Confidence: {confidence}"
    assert sensitivity_answer(replace(REPORT, settings=(FLAT,))).color == "good"
    assert sensitivity_answer(replace(REPORT, settings=(LOST,))).color == "warn"


@pytest.mark.parametrize(
    ("setting", "named"),
    [(STEEP, "0.9995"), (replace(STEEP, changes=STEEP.changes[::-1]), "0.998"), (CHOICE, "bf16")],
)
def test_advice_names_the_better_value_tried(setting, named):
    (table,) = tables_of(sensitivity_blocks(replace(REPORT, settings=(setting,)))).values()
    assert named in table.rows[0][-1]


def test_table_chart_and_document_have_every_value_in_order():
    names = [setting.name for setting in REPORT.settings]
    _, figure, _, table, note = blocks_of(REPORT)
    assert [row[0] for row in table.rows] == names
    assert REPORT.notes[0] in note.text
    numbers = document(REPORT)
    assert [setting["name"] for setting in numbers["settings"]] == names
    assert numbers["settings"][0]["best"]["value"] == 0.264
    assert numbers["settings"][0]["best"]["ci"] == pytest.approx([0.214, 0.314])
    assert [row.value for row in figure.chart.rows] == [0.008, 0.006, 0.006, 0.001, None]
