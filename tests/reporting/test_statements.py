"""What a forecast says of its laws and of divergence."""

from dataclasses import replace

from extrap.reporting.statements import curvature_sentences, divergence_sentence

from .conftest import figures, true_optimum

SIZE = {"width": 1024.0}


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


def test_sentence_states_counts_and_chance(made, diverging):
    model = diverging.divergence
    chance = round(100 * model.chance(SIZE, {"lr": 0.006}), 1)
    lost = int((~diverging.runs.to_frame()["status"].eq("complete")).sum())
    told = figures(divergence_sentence(diverging, SIZE, {"lr": 0.006}))
    assert told == [lost, 70, 1024, 0.006, chance]
    assert "less than" in divergence_sentence(diverging, SIZE, {"lr": 1e-5})
    assert figures(divergence_sentence(diverging, SIZE, {})) == [lost, 70]
    none = figures(divergence_sentence(made, SIZE, {"lr": 0.003}))
    assert none == [70, 95, round(100 * (1 - 0.05 ** (1 / 70)), 1)]
