"""How likely runs diverge, in words."""

from extrap.reporting.divergence import divergence_sentence

from .conftest import figures

SIZE = {"width": 1024.0}


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
