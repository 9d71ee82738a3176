"""Comparison studies end to end: with a training function whose truth is known, and a tiny one."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from extrap import Recipe, StudySpec, TunedRange, Workload
from extrap.analyses.comparison import ComparisonStudy, RecipeGroup
from extrap.analyses.comparison.study import ComparisonKind
from extrap.analyses.comparison.treatments import treatments
from extrap.study import report, run

pytestmark = pytest.mark.usefixtures("home")

PLAIN = StudySpec(
    name="plain",
    question="?",
    workload=Workload(name="mine"),
    recipe=Recipe(steps=640, batch_size=4),
    sizes={"width": (4, 8, 16, 32)},
    tune={"lr": TunedRange(low=2**-6, high=2**-4, n=3)},
    seeds=(0, 1),
    target_seeds=(5, 6, 7),
)
LOWER = replace(PLAIN, name="lower", workload=Workload(name="mine", options={"noise": 0.25}))
ALIKE = replace(PLAIN, name="alike", recipe=Recipe(steps=640, batch_size=8))
STUDY = ComparisonStudy(
    name="toy-recipes",
    question="Which?",
    groups=(
        RecipeGroup(
            name="treatments",
            question="Which moves the law?",
            arms={"plain": PLAIN, "lower": LOWER},
            target={"width": 256},
            check_target=True,
        ),
        RecipeGroup(
            name="again",
            question="?",
            arms={"plain": PLAIN, "alike": ALIKE},
            target={"width": 128},
        ),
    ),
    price=2.0,
)
FACTOR = 0.9


def toy(spec):
    """A power law of width, best at the rate 2^-5, `alike` at 2^-4; `lower` is a tenth lower."""
    factor = FACTOR if spec.name == "lower" else 1.0
    best = -4 if spec.name == "alike" else -5

    def loss(size, tuned, seed):
        shared = 0.01 * np.random.default_rng(seed).normal()
        apart = [seed, *spec.name.encode(), int(size["width"])]
        own = 0.003 * np.random.default_rng(apart).normal()
        excess_curve = 0.1 * (math.log2(tuned["lr"]) - best) ** 2
        return factor * 3.0 * size["width"] ** -0.4 * math.exp(shared + own + excess_curve)

    return loss


KIND = ComparisonKind(STUDY, {spec.name: toy(spec) for spec in STUDY.arms()})


@pytest.fixture(scope="module")
def first_run(places):
    """The study run once, and what was said."""
    lines: list[str] = []
    return run(KIND, say=lines.append, **places), lines


@pytest.fixture(scope="module")
def table(first_run):
    """Its run table."""
    return first_run[0].table_paths["runs"]


def written(outcome):
    """What was written down of a comparison."""
    return json.loads(outcome.sealed["comparison"].read_text())


def test_recipes_are_tuned_beyond_their_grid_and_compared(first_run):
    outcome, lines = first_run
    lines = [line for line in lines if " grows from " not in line]
    assert [line.partition(":")[0] for line in lines[:3]] == ["plain", "lower", "alike"]
    assert str(outcome.sealed["comparison"]) in lines[3]
    first, second = outcome.result
    assert first.comparison is not None
    assert second.comparison is not None
    (lower,), (alike,) = first.comparison.contrasts, second.comparison.contrasts
    assert (lower.verdict, alike.verdict) == ("survives", "undecided")
    assert lower.at_target is not None
    assert FACTOR - 1 in lower.at_target.difference.ci
    runs = outcome.tables["runs"]
    sweep = runs[runs["stage"] == "tune"]
    highest = sweep.groupby("arm")["lr"].max()
    assert highest["alike"] > highest["plain"]  # its best is at the end of the first grid
    assert list(runs.columns[:1]) == ["arm"]


def test_target_is_trained_at_forecast_values_after_the_comparison_is_written(first_run):
    outcome, _ = first_run
    first, second = outcome.result
    assert second.check is None
    (treated,) = treatments([first])
    assert (treated.decisive.n_pairs, treated.holds) == (3, True)
    assert FACTOR - 1 in treated.decisive.difference.ci
    runs = outcome.tables["runs"]
    large = runs[runs["stage"] == "check"]
    assert set(large["arm"]) == {"plain", "lower"}
    assert set(large["width"]) == {256}
    assert set(large["seed"]) == {5, 6, 7}
    assert list(large["lr"]) == pytest.approx([2**-5] * 6, rel=0.05)
    document = written(outcome)
    assert document["created"] == first.sealed
    assert document["checks"][0]["held"] == {"lower": True}
    assert first.sealed <= first.began == min(large["started_at"])
    assert "before any run there" in outcome.report_path.read_text(encoding="utf-8")


def test_table_with_a_bent_or_a_lost_recipe_is_reported_and_kept_beside_the_first(table, tmp_path):
    def reported(runs, study=STUDY):
        runs.to_csv(tmp_path / "changed.csv", index=False)
        return report(ComparisonKind(study), table=tmp_path / "changed.csv", reports=tmp_path)

    runs = pd.read_csv(table)
    lower, large = runs["arm"] == "lower", runs["stage"] == "check"
    one = replace(STUDY, groups=STUDY.groups[:1])
    outcome = reported(runs.assign(loss=runs["loss"].mask(lower & large, 1.3 * runs["loss"])), one)
    (treated,) = treatments(outcome.result[:1])
    assert treated.holds is False
    assert "did not hold" in outcome.report_path.read_text(encoding="utf-8")

    before = written(outcome)
    lost = {"status": runs["status"].mask(lower, "diverged"), "loss": runs["loss"].mask(lower)}
    outcome = reported(runs.assign(**lost))
    first, second = outcome.result
    assert first.comparison is None
    assert first.problem
    assert second.comparison is not None
    assert "No comparison of" in outcome.report_path.read_text(encoding="utf-8")
    assert written(outcome)["content_hash"] != before["content_hash"]
    aside = tmp_path / f"toy-recipes.comparison.{before['content_hash'][:8]}.json"
    assert json.loads(aside.read_text())["created"] == before["created"]
