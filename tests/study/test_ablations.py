"""Studies of treatments end to end, with a training function whose truth is known."""

import math
from dataclasses import replace

import numpy as np
import pytest

from extrap import Recipe, TunedRange
from extrap.records import Ablation, AblationStudy
from extrap.reporting.ablation_page import ablation_document
from extrap.study import report, run, train
from extrap.study.ablations import AblationKind
from extrap.study.events import TuneEvent
from tests.test_ablations import SMALL as BASE

SMALL = replace(BASE, tune={"lr": TunedRange(low=2**-4, high=2**-2, n=3)})
LARGE = replace(SMALL, name="large", recipe=Recipe(steps=80, batch_size=32))
KINDS = {"group": "rates", "question": "Which rate?", "plain": SMALL, "treated": LARGE}
STUDY = AblationStudy(
    name="toy-ablations",
    question="?",
    ablations=(
        Ablation(name="kept", rate=1.0, **KINDS),
        Ablation(name="times 8", rate=8.0, **KINDS),
        Ablation(name="re-tuned", **KINDS),
    ),
    judge_seeds=(10, 11, 12, 13, 14),
)


def toy(spec):
    """The best rate is 2^-5 at the small batch and 2^-3 at the large one, which costs 10 %."""
    best, loss = (-5, 1.0) if spec.name == "small" else (-3, 1.1)

    def train(size, tuned, seed):
        noise = 0.02 * np.random.default_rng(seed).normal()
        own = 0.003 * np.random.default_rng([seed, round(1e4 * tuned["lr"])]).normal()
        return loss + 0.1 * (math.log2(tuned["lr"]) - best) ** 2 + noise + own

    return train


KIND = AblationKind(STUDY, {spec.name: toy(spec) for spec in STUDY.arms()})


@pytest.fixture(scope="module")
def first_run(places):
    """The study run once."""
    return run(KIND, **places)


def test_arms_are_tuned_beyond_their_grid_and_judged_on_other_seeds(first_run, places, tmp_path):
    lines: list[str] = []
    trained: list[TuneEvent] = []
    outcome = run(KIND, say=lines.append, notify=trained.append, **places)
    kept, times, tuned = outcome.result.findings
    assert trained == []  # it is the second start
    assert [line.partition(": best rate ")[::2] for line in lines if "best" in line] == [
        ("small", "0.03125"),
        ("large", "0.125"),
    ]
    assert all(line.endswith(" runs") for line in lines if "best" not in line)
    assert [f.treated.lr for f in (kept, times, tuned)] == [2**-5, 2**-2, 2**-3]
    for finding, truth in ((kept, 0.5), (times, 0.2), (tuned, 0.1)):
        lower, upper = finding.difference.ci
        assert lower < truth < upper
        assert finding.n_seeds == 5
    table = outcome.tables["runs"]
    assert set(table.loc[table["stage"] == "tune", "seed"]) == {0, 1}
    assert set(table.loc[table["stage"] == "check", "seed"]) == {10, 11, 12, 13, 14}

    told = report(KIND, **places)
    read = report(KIND, table=places["reports"] / "toy-ablations.runs.csv", reports=tmp_path)
    for again in (first_run, told, read):
        assert ablation_document(again.result) == ablation_document(outcome.result)
    assert "toy-ablations" in told.index_path.read_text(encoding="utf-8")


def test_runs_are_counted_where_an_arm_is_never_tuned(tmp_path):
    study = replace(STUDY, ablations=STUDY.ablations[:1])
    trains = {spec.name: toy(spec) for spec in study.arms()}
    assert [spec.name for spec in study.tuned_arms()] == ["small"]
    runs = train(AblationKind(study, trains), f"sqlite:///{tmp_path}/a.db", reports=tmp_path)
    assert runs.count() == len(runs.of(study.tuned_arms()[0]))
    assert runs.count("check") == 2 * len(study.judge_seeds)
