"""The ranking in words, pictures and on its page."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from extrap.knobs import Knob, KnobReport, Measure, Offset
from extrap.records import Interval
from extrap.reporting import knob_page, knobs_document, knobs_text
from extrap.reporting.figures import draw_drift, draw_svg, knob_paths_info, knob_ranks_info
from extrap.reporting.knobs import knob_advice, knob_headline, knob_table
from extrap.reporting.numbers import NBSP

NOTHING = Measure(value=None, ci=Interval(None, None))


def measure(value: float, half: float) -> Measure:
    return Measure(value=value, ci=Interval(value - half, value + half))


WARMUP = Knob(
    name="warmup",
    base=0.05,
    other=None,
    kind="valley",
    offsets=tuple(
        Offset(size=s, octaves=measure(u, 0.1), pull=measure(-u, 0.1), lost=0)
        for s, u in ((32.0, -0.1), (64.0, 0.4), (128.0, 0.9))
    ),
    drift=measure(0.5, 0.1),
    trend=measure(-0.01, 0.002),
    optimum=measure(2.4, 0.5),
    at_stake=Measure(value=0.008, ci=Interval(0.006, 0.019)),
    octave=measure(-0.006, 0.001),
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
FLAT = replace(STEEP, name="eps", base=1e-8, kind="flat", at_stake=measure(0.001, 0.001))
CHOICE = replace(
    STEEP, name="precision", base="fp32", other="bf16", kind="choice", octave=measure(0.01, 0.002)
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


def advice(knob: Knob) -> str:
    return knob_advice(REPORT, knob).replace(NBSP, " ")


def test_advice_on_a_drifting_optimum_says_law_cost_and_remedy() -> None:
    assert advice(WARMUP) == (
        "warmup: its best value goes as width to the power 0.500 (0.400 to 0.600), it doubles "
        "every 2 doublings; at width 1024 it lies 2.40 (1.90 to 2.90) octaves above the fixed "
        "0.05, at 0.264, and keeping that costs 0.80 % (0.60 % to 1.9 %): tune it before you "
        "scale, or scale it as width^0.5."
    )


@pytest.mark.parametrize(
    ("change", "ending"),
    [
        ({"at_stake": measure(0.002, 0.002)}, "leave it fixed."),
        ({"at_stake": measure(0.02, 0.02)}, "more seeds or a size more would tell."),
        ({"drift": measure(0.05, 0.01)}, "the best value serves all."),
        ({"drift": measure(0.05, 0.2)}, "the best value serves all."),
        ({"drift": measure(-0.5, 0.2)}, "scale it as width^−0.5."),
        ({"flags": ("far",)}, "only hints at its cost."),
    ],
)
def test_advice_depends_on_cost_and_drift(change: dict[str, object], ending: str) -> None:
    assert advice(replace(WARMUP, **change)).endswith(ending)


def test_optimum_below_the_fixed_value_keeps_a_positive_distance() -> None:
    assert "lies 0.70 (0.20 to 1.20) octaves below" in advice(
        replace(WARMUP, optimum=measure(-0.7, 0.5))
    )
    assert "lies 0.70 (−0.30 to 1.70) octaves below" in advice(
        replace(WARMUP, optimum=measure(-0.7, 1.0))
    )


def test_advice_on_the_other_kinds_names_direction_and_doubt() -> None:
    assert "one octave closer to 1 from 0.999" in advice(STEEP)
    assert "move it that way at small sizes" in advice(STEEP)
    assert "not seen" in advice(replace(STEEP, octave=measure(-0.001, 0.01)))
    assert advice(CHOICE).endswith("+1.0 % (+0.80 % to +1.2 %): keep fp32.")
    assert advice(replace(CHOICE, octave=measure(-0.01, 0.002))).endswith("change it.")
    assert advice(replace(CHOICE, octave=measure(0.0, 0.002))).endswith("either will do.")
    assert "at most 0.20 %" in advice(FLAT)
    assert "too few to tell" in advice(LOST)


def test_headline_names_the_knob_or_says_that_none_is_seen_to_cost() -> None:
    words = knob_headline(REPORT).replace(NBSP, " ")
    assert words.startswith("warmup breaks next: holding it at 0.05 costs 0.80 %")
    quiet = replace(REPORT, knobs=(FLAT, LOST))
    assert "No fixed value is seen to cost 0.50 %" in knob_headline(quiet).replace(NBSP, " ")
    assert "init_scale" in knob_headline(quiet)


def test_table_and_text_have_every_knob_in_order() -> None:
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
    assert text.endswith("note: clip was not moved: it is 0.")
    assert NBSP not in text


def test_document_is_json_without_nan_and_keeps_its_keys() -> None:
    document = json.loads(json.dumps(knobs_document(REPORT), allow_nan=False))
    first, last = document["knobs"][0], document["knobs"][-1]
    assert document["target"] == {"width": 1024.0}
    assert first["drift"] == {"value": 0.5, "ci": [0.4, 0.6]}
    assert first["at_stake"]["ci"] == [0.006, 0.019]
    assert first["optimum_at_target"]["value"] == pytest.approx(0.05 * 2**2.4)
    assert last["drift"] == {"value": None, "ci": [None, None]}
    assert document["by_drift"][0] == "warmup"
    assert document["by_worst_case"][0] == "init_scale"


def test_rankings_are_drawn_in_percent_and_octaves() -> None:
    info = knob_ranks_info(REPORT)
    first, last = info.rows.iloc[0], info.rows.iloc[-1]
    assert (first["at_stake"], first["at_stake_upper"]) == pytest.approx((0.8, 1.9))
    assert (first["drift"], first["drift_lower"], first["drift_upper"]) == (0.5, 0.4, 0.6)
    assert math.isnan(last["at_stake"])
    assert info.stake_limit == pytest.approx(1.08 * 1.6)  # the longest interval is cut off
    assert info.drift_limit == pytest.approx(1.08 * 0.6)
    svg = draw_svg(lambda ax: draw_drift(ax, info), width=480, height=240, key="k", label="x")
    assert "optimum not seen" in svg


def test_paths_run_from_the_smallest_size_to_the_target() -> None:
    info = knob_paths_info(REPORT)
    assert info is not None
    assert list(info.lines["x"]) == [32.0, 1024.0]
    assert np.diff(info.lines["octaves"])[0] == pytest.approx(0.5 * math.log2(1024 / 32))
    assert knob_paths_info(replace(REPORT, knobs=(STEEP, FLAT))) is None


def test_page_loads_nothing_and_tells_the_index_what_it_says(tmp_path) -> None:
    for knobs in (REPORT.knobs, (LOST,)):
        page = knob_page(
            replace(REPORT, knobs=knobs),
            path=tmp_path / "deep" / "knobs.html",
            title="kn<o>bs",
            question="Which?",
            created="2026-01-01T00:00:00+00:00",
            provenance={"commit": "abc", "empty": ""},
        )
        html = page.read_text(encoding="utf-8")
        assert "kn&lt;o&gt;bs" in html
        assert html.count("<script") == 2  # the numbers, and what sorts tables
        assert "http" not in html.replace("http-equiv", "").replace("http://www.w3.org", "")
        assert 'name="extrap:answer"' in html
        assert "empty" not in html.split("Provenance</h2>")[1]
