"""What a forecast says about its own laws."""

from dataclasses import replace

from extrap.reporting.statements import curvature_sentences

from .conftest import figures, true_optimum


def test_curvature_states_its_p_value(made):
    (sentence,) = curvature_sentences(made)
    test = made.curvature()["lr"]
    assert (test.bends, figures(sentence)) == (False, [float(f"{test.p_value:.2f}")])
    optima = []
    for o in made.optima:  # their true places, bent upward at scale
        x = o.size["width"]
        value = true_optimum(x) * (x / 64) ** (0.3 * (x > 64))
        lr = replace(o.tuned["lr"], value=value, se=0.02 * value)
        optima.append(replace(o, tuned={"lr": lr}))
    (sentence,) = curvature_sentences(replace(made, optima=tuple(optima)))
    assert "upward" in sentence
    (sentence,) = curvature_sentences(replace(made, optima=made.optima[:3]))
    assert "too few sizes" in sentence
