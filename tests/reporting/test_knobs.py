"""The ranking in words, pictures and on its page."""

import math
from dataclasses import replace

import numpy as np
import pytest

from extrap.knobs import Knob, KnobReport, Measure, Offset
from extrap.records import Interval
from extrap.reporting import knobs_text
from extrap.reporting.figures import draw_drift, knob_paths_info, knob_ranks_info
from extrap.reporting.knobs import knob_advice, knob_headline, knob_table
from extrap.reporting.numbers import NBSP

from .conftest import NOTHING, drawn, figures, measured, plain

WARMUP = Knob(
    name="warmup",
    base=0.05,
    other=None,
    kind="valley",
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


def advice(knob):
    return plain(knob_advice(REPORT, knob))


def test_advice_states_law_distance_value_and_cost():
    told = figures(advice(WARMUP))
    # 0.05 × 2^2.4 = 0.264
    law = [0.5, 0.4, 0.6, 2, 1024, 2.4, 1.9, 2.9, 0.05, 0.264, 0.8, 0.6, 1.9, 0.5]
    assert told == law
    for half, low, high in ((0.5, 0.2, 1.2), (1.0, -0.3, 1.7)):
        below = advice(replace(WARMUP, optimum=measured(-0.7, half)))
        assert figures(below)[5:8] == [0.7, low, high]
        assert "octaves below" in below
    assert advice(CHOICE).endswith("keep fp32.")
    assert figures(advice(CHOICE))[-3:] == [1.0, 0.8, 1.2]
    assert advice(replace(CHOICE, octave=measured(-0.01, 0.002))).endswith("change it.")
    assert advice(replace(CHOICE, octave=measured(0.0, 0.002))).endswith("either will do.")
    assert "closer to 1 from 0.999" in advice(STEEP)
    assert "not seen" in advice(replace(STEEP, octave=measured(-0.001, 0.01)))
    assert "at most 0.20 %" in advice(FLAT)
    assert "too few to tell" in advice(LOST)


def test_headline_table_and_text_have_every_knob_in_order():
    words = plain(knob_headline(REPORT))
    assert words.startswith("warmup breaks next")
    assert figures(words)[:2] == [0.05, 0.8]
    quiet = plain(knob_headline(replace(REPORT, knobs=(FLAT, LOST))))
    assert figures(quiet)[0] == 0.5
    assert "init_scale" in quiet
    rows = knob_table(REPORT).rows
    names = ["warmup", "beta2", "precision", "eps", "init_scale"]
    assert [row[0] for row in rows] == names
    assert [row[2] for row in rows] == [
        "seen", "not seen", "two levels", "no effect seen", "runs lost"
    ]  # fmt: skip
    text = knobs_text(REPORT)
    assert [line.split(":")[0] for line in text.splitlines()[2:7]] == [
        f"{i}. {name}" for i, name in enumerate(names, start=1)
    ]
    assert text.endswith(REPORT.notes[0])
    assert NBSP not in text


@pytest.mark.usefixtures("pictures")
def test_rankings_are_drawn_in_percent_and_octaves():
    info = knob_ranks_info(REPORT)
    first, last = info.rows.iloc[0], info.rows.iloc[-1]
    assert (first["at_stake"], first["at_stake_upper"]) == pytest.approx((0.8, 1.9))
    assert (first["drift"], first["drift_lower"], first["drift_upper"]) == (0.5, 0.4, 0.6)
    assert math.isnan(last["at_stake"])
    assert info.stake_limit == pytest.approx(1.08 * 1.6)  # the longest interval is cut off
    assert info.drift_limit == pytest.approx(1.08 * 0.6)
    svg = drawn(draw_drift, info)
    assert "optimum not seen" in svg
    paths = knob_paths_info(REPORT)
    assert list(paths.lines["x"]) == [32.0, 1024.0]
    assert np.diff(paths.lines["octaves"])[0] == pytest.approx(0.5 * math.log2(1024 / 32))
    assert knob_paths_info(replace(REPORT, knobs=(STEEP, FLAT))) is None
