"""The shipped studies: plain data that says what it asks, expects and costs."""

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap import forecast, read_runs
from extrap.files import import_source
from extrap.study import KINDS, open_study, report

SHIPPED = Path(__file__).parents[1] / "studies"
STUDIES = sorted(
    path
    for path in (*SHIPPED.glob("*.py"), *SHIPPED.glob("*/study.py"))
    if not path.stem.endswith("_workload")
)


def name_of(path):
    return path.parent.name if path.stem == "study" else path.stem


@pytest.fixture(params=STUDIES, ids=name_of)
def path(request):
    return request.param


def test_study_says_what_it_asks(path):
    study = open_study(path)
    assert study.name == name_of(path)
    assert study.question.endswith("?")


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
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


def test_study_is_planned_from_anywhere_without_torch(path, plans):
    assert plans[str(path)].startswith(f"study {name_of(path)}: ")


def test_every_kind_of_study_file_is_shipped_and_known():
    assert {open_study(path).symbol for path in STUDIES} == {*KINDS, "CASCADE"}  # its own kind


def test_the_recipes_of_mup_differ_in_the_width_rule_alone():
    standard, mup = open_study(SHIPPED / "mup.py").specs()
    rules = {"parametrization": "standard", "base_width": standard.recipe.base_width}
    assert (standard.recipe.parametrization, mup.recipe.parametrization) == ("standard", "mup")
    assert replace(mup, name=standard.name, recipe=replace(mup.recipe, **rules)) == standard


def text_of(path):
    """The docstring of a study file as one line, with 0 before a point and plain signs."""
    words = path.read_text(encoding="utf-8").split('"""')[1]
    return re.sub(r"(?<![\d.])\.(?=\d)", "0.", " ".join(words.split()).replace("−", "-"))


@pytest.fixture
def committed(tmp_path):
    """Reports on a shipped study from its committed table."""

    def reported(path):
        return report(open_study(path), table=path.with_suffix(".csv"), reports=tmp_path)

    return reported


def test_figures_of_the_ablations_are_those_of_the_committed_runs(committed):
    outcome = committed(ABLATIONS)
    changes = {
        (found.group.name, contrast.treated): contrast.by_size[0].difference
        for found in outcome.result
        for contrast in found.comparison.contrasts
    }
    digits = dict(zip(changes, (2, 2, 2, *7 * (1,)), strict=True))
    told = {
        of: _told(each.map(lambda v: 100 * v), f".{digits[of]}f") for of, each in changes.items()
    }
    claims = [words.replace(")", " %)").replace(" (", " % (") for words in told.values()]
    table = outcome.tables["runs"]
    updates = table.groupby("arm")["updates"].first()
    grown = {"sgd-decayed": "-batch-to-2048", "sgd-decayed-twice": "-batch-to-512"}
    claims += [f"{updates[a] / updates[a + end]:.2f} times fewer" for a, end in grown.items()]
    claims += [f"{len(table)} runs"]
    (share,) = (
        contrast.share
        for found in outcome.result
        for contrast in found.comparison.contrasts
        if contrast.share.value is not None
    )
    ends = [f"{100 * side:.0f}" for side in (share.value, *share.ci)]
    claims += ["{} % of it ({} to {} %)".format(*ends)]
    assert [claim for claim in claims if claim not in text_of(ABLATIONS)] == []
    assert table["n_tokens"].groupby(table["width"]).nunique().eq(1).all()


def test_figures_of_the_cascade_are_those_of_the_committed_pairs():
    judging = import_source(SHIPPED / "cascade" / "judging.py", "cascade_judging")
    found = judging.findings(pd.read_csv(SHIPPED / "cascade" / "pairs.csv"))
    plain, in_nats = ({f.small: f for f in found if f.way == way} for way in judging.WAYS)
    best = judging.surest(found, "correct")
    points = [100 * side for side in (best.difference.value, *best.difference.ci)]
    costs = {width: f"{100 * finding.cost.value:.1f}" for width, finding in plain.items()}
    widest = plain[512].cost.ci
    claims = [
        f"Width {best.small} before width 1024 costs {_in_percent(best.cost)}",
        f"{points[0]:+.3f} ({points[1]:+.3f} to {points[2]:+.3f})",
        f"width 1024 gets {100 * best.quality_large:.1f} %",
        f"width {best.small} alone {100 * best.quality_small:.1f} %",
        f"answers {100 * best.share:.1f} %",
        f"{costs[32]} % at width 32, {costs[64]} at 64, {costs[256]} at 256, {costs[512]} at 512",
        f"at 512 from {100 * widest.lower:.0f} to {100 * widest.upper:.0f} %",
        f"{_in_percent(in_nats[32].cost)} at width 32",
    ]
    assert [words for words in claims if words not in text_of(SHIPPED / "cascade/study.py")] == []
    assert best.is_as_good
    assert [small for small, f in plain.items() if not f.is_as_good] == [256, 512]


def test_a_pair_is_judged_as_the_command_judges_its_predictions():
    """What a pair saves over the large model, and what of its chance goes to all pairs."""
    judging = import_source(SHIPPED / "cascade" / "judging.py", "cascade_judging")
    sure = np.tile([0.9, 0.6, 0.1], 100)
    inputs = {"confidence_small": sure, "correct_small": sure > 0.3, "correct_large": sure > 0}
    rows = [judging.judge_pair(pd.DataFrame(inputs) * 1.0, costs=(1, 10), pair=p) for p in (0, 1)]
    pairs = pd.DataFrame(rows).assign(small=32, way="correct")
    (found,) = judging.findings(pairs)
    assert (
        found.cost.value
        == pytest.approx(pairs["cost"].mean())
        == pytest.approx(0.1 + 1 / 3, abs=0.1)
    )
    assert (found.difference.value, found.quality_large) == (0, 1)
    half = (found.cost.ci.upper - found.cost.ci.lower) / 2
    over_pairs = stats.t.ppf(0.975, 1) * pairs["cost"].std() / math.sqrt(2)
    of_text = pairs["cost_half"].median() * math.sqrt(0.5)
    assert half == pytest.approx(math.hypot(over_pairs, of_text), rel=0.01)


@pytest.mark.slow
def test_figures_of_the_allocation_are_those_of_the_committed_runs(committed):
    path = SHIPPED / "allocation.py"
    outcome = committed(path)
    table, found, check = outcome.tables["runs"], outcome.result.found, outcome.result.check
    half, base, twice = check.splits
    low, high = (float(f"{side or 0.0:.3g}") for side in found.params.ci)
    lower, upper = twice.excess.ci
    claims = [
        *(_told(found.estimators[way].exponent, ".3f") for way in ("parametric", "isoflop")),
        f"{float(f'{found.params.value:.3g}'):,.0f} ({low:,.0f} to {high:,.0f}) parameters",
        _told(half.excess, ".4f"),
        f"{-(twice.excess.value):.4f} lower ({lower:.4f} to {upper:.4f})",
        f"loss, {check.forecast.value:.4f}, is",
        f"change of {found.discrepancy:.2f} at",
        f"{check.forecast.ci.lower:.4f} to {check.forecast.ci.upper:.4f}, holds",
        f"four runs average {base.loss.value:.4f}",
        _told(check.prediction, ".4f"),
        f"{len(table)} runs",
    ]
    assert [claim for claim in claims if claim not in text_of(path)] == []
    assert check.is_best
    assert (check.n_predicted, len(base.losses)) == (4, 4)
    assert check.holds
    assert table["epochs"].max() < 1


def test_rates_of_the_cascade_are_those_of_the_default_study():
    """They were trained at the rates of a law that did not bend."""
    (stage,) = next(iter(open_study(SHIPPED / "cascade" / "study.py").stages(None)))
    runs = read_runs(SHIPPED.parent / "examples" / "sweep.csv", size="width", tune="lr")
    made = forecast(runs)
    for cell in stage.wants(None):
        rate = made.at(**dict(cell.size)).tuned["lr"].value
        assert abs(math.log2(dict(cell.tuned)["lr"] / rate)) < 0.15, cell


def _in_percent(measure):
    lower, upper = (100 * side for side in measure.ci)
    return f"{100 * measure.value:.1f} % ({lower:.1f} to {upper:.1f} %)"


ABLATIONS = SHIPPED / "batch_ablations.py"


def _told(measure, form):
    lower, upper = measure.ci
    return f"{measure.value:{form}} ({lower:{form}} to {upper:{form}})"
