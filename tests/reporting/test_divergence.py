"""Where runs diverge, in numbers, words and the heat map."""

from dataclasses import replace

import pytest

from extrap.fitting import DivergenceModel
from extrap.reporting.divergence import divergence_sentence
from extrap.reporting.forecast_charts import sweep_chart
from extrap.reporting.sizes import size_axis

from .conftest import figures

SIZE = {"width": 1024.0}


def test_threshold_is_where_the_model_has_that_chance(diverging):
    model: DivergenceModel = diverging.divergence
    for chance in (0.1, 0.5, 0.9):
        lr = model.threshold(SIZE, {}, "lr", chance)
        assert model.chance(SIZE, {"lr": lr}) == pytest.approx(chance)
    assert replace(model, weights=(1.0, 0.0)).threshold(SIZE, {}, "lr", 0.5) is None


def test_sentence_states_counts_chance_and_both_thresholds(made, diverging):
    model = diverging.divergence
    ten, half = (float(f"{model.threshold(SIZE, {}, 'lr', c):.3g}") for c in (0.1, 0.5))
    chance = round(100 * model.chance(SIZE, {"lr": 0.006}), 1)
    lost = int((~diverging.runs.to_frame()["status"].eq("complete")).sum())
    told = figures(divergence_sentence(diverging, SIZE, {"lr": 0.006}))
    assert told == [lost, 70, 1024, 0.006, chance, 10, ten, 50, half]
    assert "less than" in divergence_sentence(diverging, SIZE, {"lr": 1e-5})
    assert figures(divergence_sentence(diverging, SIZE, {})) == [lost, 70]
    none = figures(divergence_sentence(made, SIZE, {"lr": 0.003}))
    assert none == [70, 95, round(100 * (1 - 0.05 ** (1 / 70)), 1)]


def test_contours_lie_at_the_thresholds_and_only_where_there_is_a_model(made, diverging):
    axis = size_axis(diverging)
    chart = sweep_chart(diverging, axis, "lr", against="both")
    limits = [s for s in chart.series if s.label]
    assert [s.label for s in limits] == ["10\u00a0% diverge", "50\u00a0% diverge"]
    for chance, line in zip((0.1, 0.5), limits, strict=True):
        assert (min(line.x), max(line.x)) == (axis.low, axis.tuned_high)
        for x, lr in zip(line.x, line.y, strict=True):
            assert diverging.divergence.chance({"width": x}, {"lr": lr}) == pytest.approx(chance)
    none = sweep_chart(made, size_axis(made), "lr", against="both")
    assert not [s for s in none.series if s.label]
