"""The figures of registered studies, on runs of a known law."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import evidence, evidence_replications, evidence_schedules, evidence_workloads
from extrap.analyses.comparison import ComparisonStudy, RecipeGroup
from extrap.analyses.comparison.study import ComparisonKind
from extrap.files import import_source
from extrap.records import Interval, Measure, StudySpec, Target, TunedRange
from extrap.study import report, run

STUDIES = Path(__file__).parents[1] / "studies"
KIND = import_source(STUDIES / "series" / "kind.py", "series_of_tests")
AROUND = (1.0, 2**-1.5, 2**-0.75, 2**0.75, 2**1.5)
SMALL = StudySpec(
    name="first",
    question="How?",
    sizes={"width": (16, 24, 32, 48, 64)},
    tune={"lr": TunedRange(low=2**-10, high=2**-4, n=7)},
    seeds=(0, 1),
    targets=(
        Target(size={"width": 256}, factors=AROUND),
        Target(size={"width": 512}, factors=(1.0, 0.5, 2.0)),
    ),
    target_seeds=(0, 1),
    growth=0,
)


def known_loss(size, tuned, seed):
    """The best rate is 2^-6 at width 32 and goes as width^-.45; an octave off costs 3 %."""
    doublings = math.log2(size["width"] / 32)
    off = math.log2(tuned["lr"]) + 6 + 0.45 * doublings
    key = [seed, int(size["width"]), round(1000 * math.log2(tuned["lr"])) % 10**6]
    noise = 0.001 * np.random.default_rng(key).standard_normal()
    return (1 + size["width"] ** -0.5) * math.exp(0.03 * off**2 + noise)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The folder of the tables of two studies."""
    folder = tmp_path_factory.mktemp("series")
    study = KIND.Series(
        name="both", question="How?", studies=(SMALL, replace(SMALL, name="second", seeds=(2, 3)))
    )
    kind = KIND.SeriesKind(study, known_loss)
    outcome = run(kind, storage=f"sqlite:///{folder}/s.db", reports=folder)
    assert outcome.table_paths["sealed"].is_file()
    page = outcome.report_path.read_text(encoding="utf-8")
    assert page.count(">best lr<") == 2
    assert page.count(">−0.4") == 2
    return outcome


@pytest.fixture
def arms(tables):
    studies = tuple(replace(SMALL, name=name) for name in ("first", "second", "third"))
    kind = KIND.SeriesKind(KIND.Series(name="both", question="How?", studies=studies))
    runs = evidence.shipped(pd.read_csv(tables.table_paths["runs"]), ["width"])
    path = tables.table_paths["runs"].with_name("shipped.csv")
    runs.to_csv(path, index=False)
    return evidence.arms_of(kind, path, pd.read_csv(tables.table_paths["sealed"]))


def test_a_series_seals_every_forecast_before_its_larger_runs(tables, arms):
    assert [arm.spec.name for arm in arms] == ["first", "second"]
    for arm in arms:
        assert len(arm.sweep) == 5 * 7 * 2
        assert len(arm.larger) == (6 + 4) * 2
        assert evidence.is_as_sealed(arm)
        other = replace(arm, sealed=arm.sealed.assign(lr=1.001 * arm.sealed["lr"]))
        assert not evidence.is_as_sealed(other)
        assert arm.larger["role"].value_counts()["recommended"] == 4
        started = arm.larger["started_at"].min()
        assert (arm.sealed["created"] <= started).all()


def test_distance_and_cost_of_a_rate_are_those_of_a_known_law(arms):
    size = {"width": 256.0}
    for arm in arms:
        runs, local = arm.at(size), evidence.local_best(arm.at(size))
        assert local.is_inside
        assert local.best == pytest.approx(-7.35, abs=0.06)
        recommended = math.log2(arm.forecast.at(**size).recommended["lr"])
        assert local.octaves.value == pytest.approx(recommended + 7.35, abs=0.06)
        assert -0.15 < local.octaves.value < 0.15
        for off, excess in ((1.0, 0.03), (-1.0, 0.03), (0.0, 0.0)):
            cost = evidence.cost(runs, 2 ** (-7.35 + off), local.best)
            assert cost.value == pytest.approx(excess, abs=0.005)
        assert evidence.cost(runs, 2**-12, local.best).value is None


def test_a_best_rate_beyond_the_trained_ones_is_said_to_be(arms):
    runs = arms[0].at({"width": 256.0})
    runs = runs[runs["octaves"].abs() < 2].copy()
    runs["loss"] = np.exp(0.1 * runs["octaves"])  # the lowest rate is best
    local = evidence.local_best(runs)
    assert not local.is_inside
    assert local.octaves.value == pytest.approx(1.5, abs=0.01)


def test_the_exponent_and_lines_are_those_of_the_law(arms):
    for arm in arms:
        slope = evidence.slopes(arm.forecast)["width"]
        assert -0.45 in slope.ci
        assert slope.value == pytest.approx(-0.45, abs=0.05)
        tuned = evidence.tuned_sizes(arm)
        assert [t.size["width"] for t in tuned] == [16, 24, 32, 48, 64]
        line = evidence.straight(arm, lambda t: t.rate, {"width": 512.0})
        assert math.log2(line) == pytest.approx(-7.8, abs=0.15)


def test_figures_of_the_replications_count_every_larger_run(arms, monkeypatch):
    monkeypatch.setattr(evidence_replications, "MEASURED_AT", {"width": 256.0})
    losses = evidence_replications.tuned_losses(arms)
    assert len(losses) == 2 * 2 * 2
    assert losses["ours"].abs().max() < 0.02
    assert (losses["last value"] > 0.02).all()
    rows = evidence_replications.rows(arms, ["first", "second", "third"])
    reached = {row.figure: row.reached for row in rows}
    assert reached["third"] == "not run"
    assert "10 of 10" not in reached["first"]
    assert "20 of 20 larger ones; forecast made again as sealed" in reached["first"]
    assert reached["chi² of one common slope"].endswith("99 % point 6.6")


def test_shares_of_flags_are_of_configurations_and_each_run_is_in_one(arms):
    """The rate of width 16 is 1.8 octaves off at width 256, and 2.25 at 512."""
    rows = evidence.flag_rows("flags", arms)
    far, kept, others, tuned, alarms = rows
    assert "2 and more octaves off" in far.figure
    assert far.reached.startswith("100.0%")
    assert far.reached.endswith("of 2")
    assert far.note == "configurations; 4 runs"
    assert kept.reached.endswith("of 4")
    assert others.reached.endswith("of 12")
    assert others.note == "configurations; 24 runs"
    assert tuned.reached.startswith("0.0%")
    assert tuned.reached.endswith("of 4")
    assert alarms.reached == "0 of 2"
    alarmed = arms[0].larger.assign(on_law=True)
    alarmed.loc[alarmed["width"] == 256, "on_law"] = False
    *_, tuned, alarms = evidence.flag_rows("f", [replace(arms[0], larger=alarmed), arms[1]])
    assert tuned.reached.startswith("25.0%")
    assert alarms.reached == "1 of 2"


def test_the_smallest_sizes_rate_has_a_cost_though_runs_had_it_in_few_digits(arms):
    size = {"width": 512.0}
    for arm in arms:
        runs = arm.at(size)
        assert runs.loc[runs["kept"].astype(bool), "lr"].unique() == [arm.kept_rate]
        assert arm.kept_rate == runs["lr"].max()
        for rate in (arm.kept_rate, 1.0002 * arm.kept_rate):
            cost = evidence.cost(runs, rate, -7.8)
            assert cost.value == pytest.approx(0.03 * (math.log2(rate) + 7.8) ** 2, abs=0.01)
        local = evidence.local_best(runs)
        saving = evidence_workloads.saving(runs, evidence_workloads.rates_of(arm, size), local)
        assert saving.value == pytest.approx(cost.value, abs=0.01)
        assert saving.ci.lower > 0


def test_the_best_rate_comes_from_the_multiples_of_the_recommended_one(arms):
    runs = arms[0].at({"width": 256.0})
    also = runs.assign(kept=runs["octaves"].between(0.7, 0.8))  # one of the five is kept
    also.loc[also["kept"], "loss"] *= 2
    assert evidence.local_best(also).octaves.value == pytest.approx(
        evidence.local_best(runs).octaves.value, abs=0.05
    )
    assert evidence.local_best(runs[runs["octaves"].abs() < 0.8].assign(kept=True)) is None


def test_a_forecast_without_a_sealed_document_is_none_that_was_sealed(arms):
    for arm in arms:
        assert not evidence.is_as_sealed(
            replace(arm, sealed=arm.sealed.assign(content_hash=math.nan))
        )


def test_figures_of_the_workloads_name_every_choice_of_a_rate(arms):
    peers = pd.DataFrame(
        [{"arm": "first", "law": "a law", "width": 256.0, "loss": 2.0, "low": 1.0, "high": 3.0}]
    )
    rows = evidence_workloads.rows(arms, ["first"], peers)
    figures = [row.figure for row in rows]
    for name in ("ours", "smallest size's rate", "last value", "straight line"):
        assert sum(figure.endswith(f", {name}") for figure in figures) >= 4, name
    (peer,) = [
        row
        for row in rows
        if row.figure == "loss, simple-scaling-laws, a law" and "inside" in row.reached
    ]
    assert "2 of 2 inside" in peer.reached
    reached = {row.figure: row.reached for row in rows}
    assert reached["targets with two runs or more outside"] == "0 of 4"
    assert reached["targets where the smallest size's rate costs less, beyond noise"] == "0 of 4"
    assert reached["targets where simple-scaling-laws, a law is nearer and holds as often"] == (
        "0 of 1"
    )


def test_targets_without_runs_are_named_and_counted(arms):
    first = replace(arms[0], larger=arms[0].larger[arms[0].larger["width"] == 256])
    figures = [
        row.figure for row in evidence_workloads.rows([first], [], pd.DataFrame({"arm": []}))
    ]
    assert sum(figure.endswith("1 of 2 targets") for figure in figures) >= 5
    assert "loss, ours" in figures


def test_errors_are_of_the_forecast_and_an_open_end_holds_all():
    said = evidence_workloads.Said(1.1, 0.5, None)
    assert said.errors(np.array([1.0])) == pytest.approx([math.log(1.1)])
    assert said.n_inside(np.array([0.4, 0.6, 9.0])) == 2
    assert evidence_workloads.Said(1.1).n_inside(np.array([1.0])) is None
    assert not len(evidence_workloads.Said(None).errors(np.array([1.0])))


@pytest.mark.parametrize(
    ("half", "law", "words"),
    [(0.05, 0.03, "these seeds would"), (0.2, 0.06, "6.2 times"), (0.05, 0.2, "no number")],
)
def test_the_seeds_that_would_tell_leave_the_error_of_pretraining(half, law, words):
    measures = [Measure(value=0.0, ci=Interval(-h, h)) for h in (half, law)]
    assert evidence_schedules.needed(*measures).startswith(words)


def test_differences_of_exponents_say_whether_fine_tuning_follows(arms, monkeypatch):
    shifted = [
        replace(arm, spec=replace(arm.spec, name=f"finetune-{arm.spec.name}")) for arm in arms
    ]
    monkeypatch.setattr(
        evidence_schedules, "BESIDE", {"pretraining": ("first", "second"), "plays": ("first",)}
    )
    rows = evidence_schedules.finetune_rows(shifted, arms)
    verdicts = [row.reached for row in rows if "less that of pretraining" in row.figure]
    assert len(verdicts) == 2
    assert all("cannot tell" in verdict for verdict in verdicts)
    pooled = evidence_schedules.pooled([evidence.slopes(arm.forecast)["width"] for arm in arms])
    assert pooled.value == pytest.approx(-0.45, abs=0.05)


def test_figures_of_the_schedules_are_those_of_known_recipes(tmp_path):
    """One arm is 2 % better at every width, with the same best rates."""
    plain = replace(SMALL, name="plain", targets=())
    group = RecipeGroup(
        name="Shapes",
        question="How?",
        arms={"plain": plain, "better": replace(plain, name="better")},
        target={"width": 128},
        check_target=True,
    )
    study = ComparisonStudy(name="shapes", question="How?", groups=(group,))
    train = {
        "plain": known_loss,
        "better": lambda size, tuned, seed: 0.98 * known_loss(size, tuned, seed),
    }
    outcome = run(
        ComparisonKind(study, train), storage=f"sqlite:///{tmp_path}/s.db", reports=tmp_path
    )
    table = tmp_path / "shipped.csv"
    evidence.shipped(outcome.tables["runs"], ["width"]).to_csv(table, index=False)
    findings = report(ComparisonKind(study), table=table, reports=tmp_path / "again").result
    runs = pd.read_csv(table)
    sealed = json.loads((tmp_path / "shapes.comparison.json").read_text(encoding="utf-8"))
    rows = evidence_schedules.schedule_rows(findings, runs[runs["stage"] == "check"], sealed)
    texts = {row.figure: row.reached for row in rows}
    assert texts.pop("forecast") == "made again as sealed"
    assert texts["forecasts that the measured difference contradicts"] == "0 of 1"
    assert texts["measured at width\N{NO-BREAK SPACE}128"].endswith("the two agree")
    reached = {figure: float(text.split()[0]) for figure, text in texts.items()}
    worse = runs[runs["stage"] == "check"].copy()
    worse.loc[worse["arm"] == "better", "loss"] *= 1.1
    changed = {**sealed, "groups": []}
    texts = {
        row.figure: row.reached
        for row in evidence_schedules.schedule_rows(findings, worse, changed)
    }
    assert texts["forecasts that the measured difference contradicts"] == "1 of 1"
    assert texts["forecast"] == "NOT what was sealed"
    assert reached["measured at width\N{NO-BREAK SPACE}128"] == pytest.approx(-2, abs=0.2)
    assert reached["forecast for width\N{NO-BREAK SPACE}128"] == pytest.approx(-2, abs=0.3)
    assert reached["mean over the sizes"] == pytest.approx(-2, abs=0.1)
    assert reached["exponent of the rate, less the plain one's"] == pytest.approx(0, abs=0.02)
