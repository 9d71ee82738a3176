"""What a forecast says about its own laws."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extrap.fitting import CurvatureTest
from extrap.forecasting import Forecast, forecast
from extrap.records import Fit
from extrap.reporting.statements import composition_sentence, curvature_sentences, pins_of

from .conftest import RATES, as_runs, sweep_frame, true_optimum


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def with_model(made: Forecast, **fields: object) -> Forecast:
    return replace(made, loss_model=replace(made.loss_model, **fields))


def test_composition_names_the_kept_laws_the_local_share_and_the_discrepancy(made) -> None:
    assert plain(composition_sentence(with_model(made, local_weight=0.37, discrepancy=0.15))) == (
        "Of 3 laws fitted to the loss, one is kept: power_floor; the local law, in which the "
        "largest sizes count most, has a share of 37 % in the forecast. The band takes the laws "
        "to be wrong by 15 % of the change they predict beyond the largest size (structural "
        "discrepancy), unless they disagree by more."
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"local_weight": 0.0}, "has no share"),
        ({"local_weight": 0.0, "local": None}, "there is no local law"),
        ({"local_weight": 1.0}, "No law follows all sizes"),
    ],
)
def test_composition_says_why_the_local_law_has_no_share_or_all_of_it(made, fields, words) -> None:
    assert words in composition_sentence(with_model(made, **fields))


def test_composition_of_the_family_band_promises_no_more_than_the_family(made) -> None:
    text = composition_sentence(replace(made, band="family"))
    assert "holds if one of the laws is true" in text
    assert "local law" not in text
    assert "discrepancy" not in text


def test_settings_of_one_law_count_together(made) -> None:
    fit = made.loss_model.kept[0][0]
    other = next(f for f, _ in made.loss_laws if f.law != fit.law)
    mixed = with_model(made, laws=((fit, 0.5), (fit, 0.3), (other, 0.2)))
    assert f"3 are kept, by weight: {fit.law} (2 settings) 0.8, {other.law} 0.2" in (
        composition_sentence(mixed)
    )


def test_composition_without_a_law_says_so(made) -> None:
    assert "No law of the loss" in composition_sentence(replace(made, loss_model=None))


def test_straight_optima_show_no_bend_and_what_could_have_been_missed(made) -> None:
    (sentence,) = curvature_sentences(made)
    test = made.curvature()["lr"]
    assert not test.bends
    assert plain(sentence) == (
        f"lr: no sign of a bend (p {test.p_value:.2f}); a bend that moves the optimum by "
        f"×{test.bend:.2g} at width 4096 could have been missed."
    )


def test_bent_optima_are_not_supported_beyond_the_sweep(made) -> None:
    optima = []
    for o in made.optima:  # their true places, bent upward at scale
        x = o.size["width"]
        value = true_optimum(x) * (x / 64) ** (0.3 * (x > 64))
        lr = replace(o.tuned["lr"], value=value, se=0.02 * value)
        optima.append(replace(o, tuned={"lr": lr}))
    (sentence,) = curvature_sentences(replace(made, optima=tuple(optima)))
    assert "lr: the optimum's law bends upward (p" in plain(sentence)
    assert sentence.endswith("a power law is not supported beyond the sweep.")


def test_too_few_optima_leave_the_bend_open(made) -> None:
    (sentence,) = curvature_sentences(replace(made, optima=made.optima[:3]))
    assert sentence == "lr: too few sizes to tell whether the optimum's law bends."


def test_two_size_columns_state_the_bend_as_far_out_as_they_range(
    made, monkeypatch: pytest.MonkeyPatch
) -> None:
    flat = CurvatureTest(curvature=0.0, se=0.1, p_value=1.0, detectable=0.1, bend=1.8, dof=5)
    monkeypatch.setattr(Forecast, "curvature", lambda _: {"lr": flat})
    law: Fit = made.tuned_laws["lr"]
    two = replace(made, tuned_laws={"lr": replace(law, columns=("n", "d"))})
    (sentence,) = curvature_sentences(two)
    assert "×1.8 as far beyond the largest size as the sizes range" in sentence


def test_only_what_was_given_counts_as_pinned() -> None:
    runs, pins = as_runs(sweep_frame(rates=RATES)), {"E": 1.6, "lr.b": -0.4}
    made = forecast(runs, fix=pins)
    assert pins_of(made) == pins
    unasked = [flag for flag in made.flags if not flag.startswith("pinned")]
    assert pins_of(replace(made, flags=tuple(unasked))) == {"lr.b": -0.4}
