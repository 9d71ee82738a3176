"""The run table of the study of data selection says what its page and the prose say."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.selection import TABLE, Found, rows
from extrap.comparing.selections import selection_findings


@pytest.fixture(scope="module")
def problems():
    if not TABLE.is_file():
        pytest.skip("the run table of the study is not there")
    found = selection_findings(pd.read_csv(TABLE), n_resamples=400)
    return {each.problem: each for each in found}


def test_findings_are_those_of_the_study(problems):
    plane, off = problems["perceptron"], problems["perceptron, probe-20-off"]
    for crossing in plane.crossovers.values():
        assert (crossing.below.split()[0], crossing.above.split()[0]) == ("easy", "hard")
        assert crossing.is_told
        assert 150 < (crossing.size.value or 0) < 300  # two to three examples a feature
    assert {b.choice for b in plane.best if b.size < 150} == {"easy"}
    assert {b.choice for b in plane.best if b.size > 350} == {"hard"}
    crossings = [each.against_random["hard 0.2"] for each in (plane, off)]
    for crossing in crossings:
        assert (crossing.below, crossing.above) == ("random", "hard 0.2")
        assert (crossing.is_told, crossing.is_edge, crossing.earlier) == (True, False, ())
    assert (crossings[0].size.ci.upper or np.inf) < (crossings[1].size.ci.lower or 0)
    last = [each.losses.log_loss["hard 0.2"][0, -1] for each in (plane, off)]
    assert last[0] < last[1] - np.log(1.5)
    planes = [each for name, each in problems.items() if name.startswith("perceptron")]
    assert len(planes) == 3
    assert not any(edges.any() for each in planes for edges in each.losses.at_edge.values())
    assert {b.choice for b in problems["bytes"].best} == {"random"}
    for name in ("perceptron, labels", "digits, labels"):
        within = [each for each in problems[name].labels if each.needed.value is not None]
        assert (within[-1].saved.ci.lower or 0) > 0.2


def test_the_benchmark_meets_its_targets_and_can_miss_them(problems):
    ratios = {50: np.array([0.8, 0.9, 0.7]), 800: np.array([-0.8, -0.9, -0.7])}
    lines = rows(Found(problems=problems, ratios=ratios))
    assert {line.met for line in lines} == {True, None}
    swapped = {50: ratios[800], 800: ratios[50]}
    assert rows(Found(problems=problems, ratios=swapped))[-1].met is False
