"""The shipped studies: plain data that says what it asks, expects and costs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from extrap.cli import main
from extrap.study_files import load_baseline, load_levers, load_study

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
    study = load_levers(path) or load_study(path)
    assert study.name == path.stem
    assert study.question.endswith("?")


def test_study_is_planned_from_anywhere_without_torch(path: Path, tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from extrap.pipeline import plan_study\n"
        "from extrap.lever_sweeps import plan_levers\n"
        "from extrap.study_files import load_baseline, load_levers, load_study\n"
        "path = sys.argv[1]\n"
        "levers = load_levers(path)\n"
        "own = levers is None and plan_study(load_study(path), load_baseline(path))\n"
        "print(own or plan_levers(levers))\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"study {path.stem}: ")


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
