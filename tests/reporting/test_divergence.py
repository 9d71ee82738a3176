"""Where runs diverge, in numbers, words and the heat map."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extrap.fitting import DivergenceModel
from extrap.reporting import report
from extrap.reporting.divergence import divergence_sentence, threshold
from extrap.reporting.figures import draw_heat_map, draw_svg, sweep_info
from extrap.reporting.sizes import size_axis

SIZE = {"width": 1024.0}


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.9])
def test_threshold_is_where_the_model_has_that_chance(diverging, chance: float) -> None:
    model: DivergenceModel = diverging.divergence
    lr = threshold(model, SIZE, {}, "lr", chance)
    assert model.chance(SIZE, {"lr": lr}) == pytest.approx(chance)


def test_column_without_influence_has_no_threshold(diverging) -> None:
    model = replace(diverging.divergence, weights=(1.0, 0.0))
    assert threshold(model, SIZE, {}, "lr", 0.5) is None


def test_sentence_names_the_chance_and_both_thresholds(diverging) -> None:
    model = diverging.divergence
    ten, half = (f"{threshold(model, SIZE, {}, 'lr', c):.3g}" for c in (0.1, 0.5))
    text = plain(divergence_sentence(diverging, SIZE, {"lr": 0.006}))
    assert text == (
        f"{model.n_diverged} of {model.n_runs} runs diverged; from these, a run of width 1024 at "
        f"lr = 0.006 diverges with a chance of {100 * model.chance(SIZE, {'lr': 0.006}):.1f} %, "
        f"rising to 10 % at {ten} and 50 % at {half} as lr rises (logistic regression on "
        "logarithms)."
    )


def test_tiny_chance_is_only_bounded(diverging) -> None:
    text = plain(divergence_sentence(diverging, SIZE, {"lr": 1e-5}))
    assert "a chance of less than 0.1 %" in text


def test_sweep_without_divergence_says_what_it_leaves_open(made) -> None:
    assert plain(divergence_sentence(made, SIZE, {"lr": 0.003})) == (
        "None of the 70 runs diverged; at 95 % that leaves a chance of at most 4.2 % for one "
        "more like them."
    )


def test_without_tuned_values_only_the_count_is_said(diverging) -> None:
    text = divergence_sentence(diverging, SIZE, {})
    assert text == f"{diverging.divergence.n_diverged} of 70 runs diverged."


def test_contours_lie_at_the_thresholds_and_only_where_there_is_a_model(made, diverging) -> None:
    axis = size_axis(diverging)
    limits = sweep_info(diverging, axis, "lr").limits
    assert set(limits["chance"]) == {0.1, 0.5}
    assert limits["x"].agg(["min", "max"]).tolist() == [axis.low, axis.tuned_high]
    for row in limits.itertuples():
        assert diverging.divergence.chance({"width": row.x}, {"lr": row.v}) == pytest.approx(
            row.chance
        )
    assert sweep_info(made, size_axis(made), "lr").limits.empty


def test_heat_map_names_the_contours(diverging) -> None:
    info = sweep_info(diverging, size_axis(diverging), "lr")
    svg = draw_svg(lambda ax: draw_heat_map(ax, info), width=480, height=360, key="t", label="t")
    assert ">10 %<" in svg
    assert ">50 %<" in svg


@pytest.mark.usefixtures("without_ink")
def test_page_says_how_runs_diverge(tmp_path, made, diverging) -> None:
    page = report(diverging, path=tmp_path / "d.html").read_text(encoding="utf-8")
    assert "logistic regression" in page
    assert "one run in ten and one in two diverges" in page
    page = report(made, path=tmp_path / "m.html").read_text(encoding="utf-8")
    assert "None of the 70 runs diverged" in page
