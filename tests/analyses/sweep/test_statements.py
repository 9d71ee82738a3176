"""What a forecast says of its laws, of the recommended value and of divergence."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from extrap.analyses.sweep.answer import answer_rows
from extrap.analyses.sweep.statements import (
    curvature_sentences,
    differs,
    divergence_sentence,
    equation,
    recommendation_sentence,
    runs_sentence,
)
from extrap.analyses.sweep.tables import answer_table
from extrap.fitting.loss_law import fit
from extrap.forecasting import forecast
from extrap.laws import LOSS_LAWS
from tests.analyses.conftest import WIDTHS, as_runs, figures, plain, sweep_frame

SIZE = {"width": 1024.0}
CURVE = {
    "width": 16 * 2.0 ** np.arange(8),
    "tokens": 1e6 * 3.0 ** np.array([2, 0, 5, 1, 3, 6, 4, 7]),
    "unique": 1e6 * 2.0 ** np.array([1, 0, 4, 2, 3, 5, 0, 6]),
}
LOSS = 1.5 + 2 * (CURVE["width"] / 16) ** -0.4 + (CURVE["tokens"] / 1e6) ** -0.3


def written(law):
    n_columns = 2 if law == "power_floor" else LOSS_LAWS[law].n_columns[-1]
    found = fit(law, dict([*CURVE.items()][:n_columns]), LOSS)
    return "".join(f"^{text}" if raised else text for text, raised in equation(found, "loss"))


def test_sums_and_products_of_powers_are_written_with_their_numbers():
    assert "loss = 1.500 + " in written("power_floor")
    assert "(width / 181)^−0.400" in written("power_floor")
    assert written("chinchilla_tied").count("^−0.3") == 2
    assert written("log_linear").endswith("· ln(width / 181)")


@pytest.mark.parametrize("law", [key for key in LOSS_LAWS if key not in ("power", "power_floor")])
def test_every_law_can_be_written_down(law):
    text = written(law)
    assert text.startswith("loss")
    assert "width" in text
    if "with" in text:
        assert LOSS_LAWS[law].formula in text
        assert "181 for width" in text


def test_curvature_states_its_p_value(made):
    (sentence,) = curvature_sentences(made)
    test = made.curvature()["lr"]
    assert (test.bends, figures(sentence)) == (False, [float(f"{test.p_value:.2f}")])
    frame = sweep_frame()
    frame["lr"] *= (frame["width"] / 64).clip(lower=1) ** 0.3  # the optima bend upward at scale
    (sentence,) = curvature_sentences(forecast(as_runs(frame)))
    assert "upward" in sentence
    (sentence,) = curvature_sentences(forecast(as_runs(sweep_frame(widths=WIDTHS[:3]))))
    assert "too few sizes" in sentence


def test_sentence_states_counts_and_chance(made, diverging):
    chance = round(100 * diverging.values_at(SIZE).chance({"lr": 0.006}), 1)
    lost = int((~diverging.runs.to_frame()["status"].eq("complete")).sum())
    told = figures(divergence_sentence(diverging, SIZE, {"lr": 0.006}))
    assert told == [lost, 70, 1024, 0.006, chance]
    assert "less than" in divergence_sentence(diverging, SIZE, {"lr": 1e-5})
    assert figures(divergence_sentence(diverging, SIZE, {})) == [lost, 70]
    none = figures(divergence_sentence(made, SIZE, {"lr": 0.003}))
    assert none == [70, 95, round(100 * (1 - 0.05 ** (1 / 70)), 1)]


def test_recommendation_states_values_distances_and_both_costs(made, diverging):
    found = made.at(**SIZE).recommendation
    assert not differs(replace(found, octaves={"lr": -0.014}))  # less than a percent off
    assert differs(replace(found, octaves={"lr": -0.016}))
    known = replace(
        found,
        tuned={"lr": 0.0025},
        octaves={"lr": math.log2(0.9)},
        expected_excess=math.log(1.002),
        at_optimum=math.log(1.0034),
    )
    text = plain(recommendation_sentence(made, known))
    assert not recommendation_sentence(made, None)
    assert figures(text) == [0.0025, 10, 0.20, 0.34]
    assert "10 % below the optimum" in text
    two = replace(
        known,
        tuned={"lr": 0.0025, "batch": 64.0},
        octaves={"lr": math.log2(0.9), "batch": math.log2(1.2)},
    )
    assert figures(recommendation_sentence(made, two))[:4] == [0.0025, 64, 10, 20]
    moved = diverging.at(**SIZE).recommendation
    assert differs(moved)
    assert "may diverge" in recommendation_sentence(diverging, moved)
    assert "may diverge" not in text


def test_tables_state_the_recommended_value_above_the_interval_of_the_optimum(diverging):
    row, *_ = answer_rows(diverging, (), [SIZE])
    table, point = answer_table(diverging, [row]), diverging.at(**SIZE)
    assert table.columns[-1] == "recommended lr"
    shown = figures(table.rows[0][-1])
    assert shown == pytest.approx([point.recommended["lr"], *point.tuned["lr"].pi], rel=5e-3)
    assert shown[0] < 0.98 * point.tuned["lr"].value  # it is not the optimum
    silent = replace(row, point=replace(point, recommended={"lr": None}))
    assert figures(answer_table(diverging, [silent]).rows[0][-1]) == shown[1:]


def test_runs_are_counted_by_what_became_of_them(made):
    frame = made.runs.to_frame()
    assert figures(runs_sentence(made)) == [len(frame), len(frame)]
    several = frame.assign(
        status=["diverged", "pruned", "failed"] + ["complete"] * (len(frame) - 3)
    )
    several.loc[several["status"] != "complete", "loss"] = np.nan
    counted = SimpleNamespace(runs=as_runs(several))
    assert figures(runs_sentence(counted)) == [len(frame), len(frame) - 3, 1, 1, 1]
