"""The shipped studies: plain data that says what it asks, expects and costs."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from extrap import forecast, read_runs
from extrap.allocation_sweeps import judge_allocation, read_allocation_table
from extrap.cascade_sweeps import read_cascade_table
from extrap.cascading import judge_pairs
from extrap.cli import main
from extrap.commands.studies import KINDS
from extrap.lever_sweeps import read_lever_table
from extrap.levers import judge_levers
from extrap.records import Interval, Measure
from extrap.study_files import (
    kind_of,
    load_allocation,
    load_baseline,
    load_batches,
    load_cascade,
    load_comparison,
    load_knobs,
    load_levers,
    load_study,
)

LOADERS = {
    "ALLOCATION": load_allocation,
    "CASCADE": load_cascade,
    "BATCHES": load_batches,
    "COMPARISON": load_comparison,
    "KNOBS": load_knobs,
    "LEVERS": load_levers,
    "STUDY": load_study,
}
STUDIES = sorted(
    path
    for path in (Path(__file__).parents[1] / "studies").glob("*.py")
    if not path.stem.endswith("_workload")
)


@pytest.fixture(params=STUDIES, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_study_says_what_it_asks_expects_and_costs(path: Path) -> None:
    words = path.read_text(encoding="utf-8").partition('"""')[2].partition('"""')[0]
    assert "Expected" in words
    assert "Cost:" in words
    study = LOADERS[kind_of(path)](path)
    assert study is not None
    assert study.name == path.stem
    assert study.question.endswith("?")


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Study → what a dry run says of it, all of them in one process without torch."""
    code = (
        "import contextlib, io, json, sys\n"
        "from extrap.cli import main\n"
        "told = {}\n"
        "for path in sys.argv[1:]:\n"
        "    with contextlib.redirect_stdout(io.StringIO()) as out:\n"
        "        assert main(['study', 'run', path, '--dry-run']) == 0, path\n"
        "    assert 'torch' not in sys.modules, path\n"
        "    told[path] = out.getvalue()\n"
        "print(json.dumps(told))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, STUDIES)],
        cwd=tmp_path_factory.mktemp("elsewhere"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_study_is_planned_from_anywhere_without_torch(path: Path, plans: dict[str, str]) -> None:
    assert plans[str(path)].startswith(f"study {path.stem}: ")


def test_every_kind_of_study_file_is_shipped_and_known() -> None:
    assert {kind_of(path) for path in STUDIES} == set(KINDS) == set(LOADERS)


def test_batch_studies_leave_room_for_a_check() -> None:
    batches = {path.stem: load_batches(path) for path in STUDIES if kind_of(path) == "BATCHES"}
    assert set(batches) == {"batch_size", "noise_scale"}
    (task,) = batches["batch_size"].tasks
    assert task.at["width"] > max(task.study.sizes["width"])
    assert task.held_out
    assert len(batches["noise_scale"].tasks) >= 5
    for study in batches.values():
        assert all(task.study.recipe.noise_every for task in study.tasks)


def test_mup_and_its_baseline_differ_in_the_width_rule_alone() -> None:
    path = next(path for path in STUDIES if path.stem == "mup")
    study, baseline = load_study(path), load_baseline(path)
    assert baseline is not None
    assert (study.recipe.parametrization, baseline.recipe.parametrization) == ("mup", "standard")
    same = replace(baseline, name=study.name, recipe=study.recipe, targets=study.targets)
    assert same == study


def test_dry_run_of_mup_lists_both_sweeps(capsys: pytest.CaptureFixture[str]) -> None:
    path = next(path for path in STUDIES if path.stem == "mup")
    options = ("--dry-run", "--set", "targets=", "--set", "seeds=0", "--set", "tune.lr.n=3")
    assert main(["study", "run", str(path), *options]) == 0
    out = capsys.readouterr().out
    assert "then the baseline mup-standard" in out
    assert out.count("sweep: 15 runs of 1000 steps") == 2
    assert "width 512" not in out


def test_arms_of_the_levers_see_as_many_examples_at_other_batches() -> None:
    levers = load_levers(LEVERS)
    assert levers is not None
    assert len(levers.judge_seeds) >= 5
    for lever in levers.levers:
        assert len({spec.recipe.n_examples for spec in lever.arms()}) == 1, lever.name
    grown = next(spec for spec in levers.arms() if spec.name == "sgd-grown")
    assert levers.recipe_of("sgd-decayed").n_updates > 2 * grown.recipe.n_updates


def test_figures_of_the_levers_are_those_of_the_committed_runs() -> None:
    words = LEVERS.read_text(encoding="utf-8").split('"""')[1]
    text = " ".join(words.split()).replace("−", "-")
    study, table = load_levers(LEVERS), read_lever_table(LEVERS.with_suffix(".csv"))
    assert study is not None
    found = {finding.lever.name: finding for finding in judge_levers(study, table).findings}
    grown = [found[f"batch grown to {size} (SGD)"] for size in (2048, 512)]
    adam, ghosts = found["batch grown to 2048 (Adam)"], found["ghosts of 32 at batch 1024"]
    tuned = [found[f"Adam × {k}, re-tuned"] for k in (8, 32)]
    claims = [f"{finding.updates_ratio:.2f} times fewer" for finding in grown]
    claims += [_told(grown[0].difference, "+.4f"), f"seed noise of {grown[0].plain.seed_sd:.3f}"]
    claims += [_told(finding.difference, "+.4f") for finding in (grown[1], adam)]
    claims += [_told(ghosts.gap, ".4f"), _told(ghosts.share, ".2f")]
    claims += [
        _told(found[f"{what}, rate × √k"].contrast, form)
        for what, form in (
            ("Adam × 8", ".4f"),
            ("Adam × 32", ".3f"),
            ("SGD × 32", ".4f"),
        )
    ]
    costs = [100 * (f.difference.value or 0.0) / (f.plain.loss or 1.0) for f in tuned]
    claims.append(f"Adam {costs[0]:.1f} % at 8 times, {costs[1]:.0f} % at 32.")
    claims += [_told(found[f"momentum .9 at batch {b}"].difference, f) for b, f in MOMENTA]
    claims.append(f"{len(table)} runs")
    for claim in claims:
        assert re.sub(r"(?<!\d)0\.", ".", claim) in text, claim
    for name, finding in found.items():
        if name.endswith("rate kept") or (name.startswith("Adam") and name.endswith("× k")):
            assert (finding.contrast.ci.lower or 0.0) > 0, name


def test_figures_of_the_cascade_are_those_of_the_committed_curves() -> None:
    path = next(path for path in STUDIES if path.stem == "cascade")
    text = " ".join(path.read_text(encoding="utf-8").split('"""')[1].split()).replace("−", "-")
    study, table = load_cascade(path), read_cascade_table(path.with_suffix(".csv"))
    assert study is not None
    report = judge_pairs(study, table)
    plain, best = {f.small: f for f in report.of("correct")}, report.best
    ruled = next(f for f in report.of("correct", rule=True) if f.small == best.small)
    losses = {f.small: f for f in report.of("loss")}
    widest = plain["width 512"].cost.ci
    claims = [
        f"Width 128 before width 1024 costs {_in_percent(best.surely_cost)}",
        f"{_told(_times(best.surely_difference, 100), '+.3f')} percentage points",
        f"width 1024 gets {100 * (best.quality_large.value or 0):.1f} % right",
        f"width 128 alone {100 * (best.quality_small.value or 0):.1f} %",
        f"answers {100 * (best.share.value or 0):.1f} % of the bytes",
        f"{100 * (plain['width 32'].cost.value or 0):.1f} % at width 32",
        *(
            f"{100 * (plain[f'width {width}'].cost.value or 0):.1f} at {width}"
            for width in (64, 256, 512)
        ),
        f"at 512 from {100 * (widest.lower or 0):.0f} to {100 * (widest.upper or 0):.0f} %",
        f"answers {100 * ruled.share_filtered:.0f} % of the bytes",
        f"saves next to nothing more, {100 * (ruled.cost.value or 0):.1f} %",
        f"at {100 * best.cost_small:.0f} % of the cost",
        f"{_in_percent(losses['width 32'].cost)} at width 32",
    ]
    for claim in claims:
        assert re.sub(r"(?<!\d)0\.", ".", claim) in text, claim
    assert best.small == "width 128"
    assert best.is_as_good
    beyond = [small for small, f in losses.items() if (f.cost.ci.upper or 0) > 1]
    assert beyond == ["width 64", "width 512"]
    assert [f.small for f in plain.values() if not f.is_as_good] == ["width 256", "width 512"]


@pytest.mark.slow
def test_figures_of_the_allocation_are_those_of_the_committed_runs() -> None:
    path = next(path for path in STUDIES if path.stem == "allocation")
    text = " ".join(path.read_text(encoding="utf-8").split('"""')[1].split()).replace("−", "-")
    study = load_allocation(path)
    assert study is not None
    table = read_allocation_table(study, path.with_suffix(".csv"))
    report = judge_allocation(study, table)
    found, check = report.found, report.check
    half, base, twice = check.splits
    low, high = (float(f"{side or 0.0:.3g}") for side in found.params.ci)
    lower, upper = twice.excess.ci
    claims = [
        f"C to the {_told(found.estimators['parametric'].exponent, '.3f')} by the law",
        f"{_told(found.estimators['isoflop'].exponent, '.3f')} by the minima",
        f"{float(f'{found.params.value:.3g}'):,.0f} ({low:,.0f} to {high:,.0f}) parameters",
        f"end {_told(half.excess, '.4f')} nats higher",
        f"{-(twice.excess.value or 0.0):.4f} lower ({lower:.4f} to {upper:.4f})",
        f"law's loss, {check.forecast.value:.4f}, is too high",
        f"sealed, {check.if_right.ci.lower:.4f} to {check.if_right.ci.upper:.4f}, counted",
        f"change ({found.discrepancy:.2f} here",
        f"reads {check.forecast.ci.lower:.4f} to {check.forecast.ci.upper:.4f} and holds",
        f"four runs average {base.loss.value:.4f}",
        f"one new run, {_told(check.prediction, '.4f')},",
        f"{len(table)} runs",
    ]
    for claim in claims:
        assert re.sub(r"(?<![\d.])0\.", ".", claim) in text, claim
    assert check.is_best
    assert check.n_predicted == len(base.losses) == 4
    assert check.holds
    assert not check.holds_if_right
    assert table["epochs"].max() < 1


def test_rates_of_the_cascade_are_those_of_the_default_study() -> None:
    path = next(path for path in STUDIES if path.stem == "cascade")
    study = load_cascade(path)
    assert study is not None
    runs = read_runs(path.parents[1] / "examples" / "sweep.csv", size="width", tune="lr")
    made = forecast(runs)
    for model, _ in study.trainings():
        rate = made.at(**model.size).tuned["lr"].value
        assert abs(math.log2(model.lr / (rate or 0.0))) < 0.1, model.label


def _times(measure: Measure, factor: float) -> Measure:
    lower, upper = measure.ci
    scaled = Interval(factor * (lower or 0.0), factor * (upper or 0.0))
    return Measure(value=factor * (measure.value or 0.0), ci=scaled)


def _in_percent(measure: Measure) -> str:
    lower, upper = (100 * (side or 0.0) for side in measure.ci)
    return f"{100 * (measure.value or 0.0):.1f} % ({lower:.1f} to {upper:.1f} %)"


MOMENTA = ((32, "+.4f"), (1024, ".3f"))
LEVERS = next(path for path in STUDIES if path.stem == "batch_levers")


def _told(measure: Measure, form: str) -> str:
    lower, upper = measure.ci
    return f"{measure.value:{form}} ({lower:{form}} to {upper:{form}})"
