"""The shipped studies: plain data that says what it asks, expects and costs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from extrap.cli import main
from extrap.commands.studies import KINDS
from extrap.study_files import (
    kind_of,
    load_baseline,
    load_batches,
    load_knobs,
    load_levers,
    load_study,
)

LOADERS = {
    "BATCHES": load_batches,
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


def test_study_is_planned_from_anywhere_without_torch(path: Path, tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from extrap.cli import main\n"
        "assert main(['study', 'run', sys.argv[1], '--dry-run']) == 0\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"study {path.stem}: ")


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
    path = next(path for path in STUDIES if path.stem == "batch_levers")
    levers = load_levers(path)
    assert levers is not None
    assert len(levers.judge_seeds) >= 5
    for lever in levers.levers:
        assert len({spec.recipe.n_examples for spec in lever.arms()}) == 1, lever.name
    grown = next(spec for spec in levers.arms() if spec.name == "sgd-grown")
    assert levers.recipe_of("sgd-decayed").n_updates > 2 * grown.recipe.n_updates
