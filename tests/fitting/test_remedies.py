from __future__ import annotations

import pytest

from extrap.fitting import Noise, less_noise
from tests.fitting.planted import plant, refusals


@pytest.mark.parametrize(
    ("cause", "number"), [("noise", 7), ("grid", 0), ("sizes", 0), ("edge", 0)]
)
def test_the_planted_cause_is_named_and_its_remedy_ends_the_refusal(
    cause: str, number: int
) -> None:
    """One sweep for each cause; docs/measured.md has the counts over a hundred."""
    sweep = plant(cause, number)
    made, (refused, *_) = refusals(sweep)
    remedy = made.remedy(refused, {"width": sweep.target})
    assert remedy.cause == cause
    assert f"; {cause}: " in made.at(sweep.target).refusals[refused]
    assert refused not in refusals(sweep.mended(remedy))[1]


def test_what_only_noise_excuses_is_given_and_called_imprecise() -> None:
    for number in range(4):
        sweep = plant("noise", number)
        made, refused = refusals(sweep)
        point = made.at(sweep.target)
        assert not set(refused) & set(point.imprecise)
        for name, reason in point.imprecise.items():
            assert "; noise: " in reason
            assert (point.loss if name == "loss" else point.tuned[name].value) is not None


@pytest.mark.parametrize(
    ("source", "words"),
    [("replicates", "4 times as many seeds"), ("surface", "4 times as many runs, no two with")],
)
def test_more_seeds_are_asked_for_only_where_some_were_repeated(source: str, words: str) -> None:
    noise = Noise(own_sd=0.01, own_dof=4, size_sd=0.01, size_dof=4, source=source)
    assert words in less_noise(noise).text
