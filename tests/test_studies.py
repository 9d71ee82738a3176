"""The shipped studies: plain data that says what it asks, expects and costs."""

import math
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap import forecast, read_runs
from extrap.analyses.sweep.horizon_page import RULE_NAMES
from extrap.files import import_source
from extrap.registry import kinds
from extrap.study import open_study, report, run

SHIPPED = Path(__file__).parents[1] / "studies"
STUDIES = sorted(
    path
    for path in (*SHIPPED.glob("*.py"), *SHIPPED.glob("*/study.py"))
    if not path.stem.endswith("_workload")
)


def name_of(path):
    return path.parent.name if path.stem == "study" else path.stem


def test_every_study_asks_and_is_planned_from_anywhere_without_torch(tmp_path):
    """All kinds are shipped, and kinds of their own."""
    code = (
        "import sys\n"
        "from extrap.cli import main\n"
        "for path in sys.argv[1:]:\n"
        "    assert main(['study', 'run', path, '--dry-run']) == 0, path\n"
        "    assert 'torch' not in sys.modules, path\n"
    )
    command = [sys.executable, "-c", code, *map(str, STUDIES)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    studies = [open_study(path) for path in STUDIES]
    assert {study.symbol for study in studies} == {*kinds(), "CASCADE", "HORIZON", "SERIES"}
    for path, study in zip(STUDIES, studies, strict=True):
        assert study.name == name_of(path)
        assert study.question.endswith("?")
        assert f"study {study.name}: " in done.stdout


def test_the_recipes_of_mup_differ_in_the_width_rule_alone():
    standard, mup = open_study(SHIPPED / "mup.py").specs()
    rules = {"parametrization": "standard", "base_width": standard.recipe.base_width}
    assert (standard.recipe.parametrization, mup.recipe.parametrization) == ("standard", "mup")
    assert replace(mup, name=standard.name, recipe=replace(mup.recipe, **rules)) == standard


@pytest.fixture
def committed(tmp_path):
    """The result of a shipped study from its committed table."""

    def reported(name):
        path = SHIPPED / f"{name}.py"
        return report(open_study(path), table=path.with_suffix(".csv"), reports=tmp_path)

    return reported


def test_committed_runs_of_the_ablations_give_a_comparison_of_every_treatment(committed):
    outcome = committed("batch_ablations")
    contrasts = [c for found in outcome.result for c in found.comparison.contrasts]
    assert len(contrasts) == 10
    assert all(contrast.by_size[0].difference.value is not None for contrast in contrasts)
    table = outcome.tables["runs"]
    assert table["n_tokens"].groupby(table["width"]).nunique().eq(1).all()


def test_committed_pairs_of_the_cascade_are_as_good_and_cheaper():
    judging = import_source(SHIPPED / "cascade" / "judging.py", "cascade_judging")
    found = judging.findings(pd.read_csv(SHIPPED / "cascade" / "pairs.csv"))
    best = judging.surest(found, "correct")
    assert best.is_as_good
    assert best.cost.ci.upper < 1
    plain = [f for f in found if f.way == next(iter(judging.WAYS))]
    assert [f.small for f in plain if not f.is_as_good] == [256, 512]


@pytest.mark.slow
def test_committed_runs_of_the_allocation_hold_its_forecast(committed):
    """Of one new run; the mean of four lies .3 % below the interval of the least losses."""
    outcome = committed("allocation")
    check = outcome.result.check
    assert check.is_best
    mean, lower = check.recommended.loss.value, check.forecast.ci.lower
    assert lower * 0.995 < mean < check.forecast.ci.upper
    assert (check.n_predicted, len(check.splits[1].losses)) == (4, 4)
    assert outcome.tables["runs"]["epochs"].max() < 1


def test_rates_of_the_cascade_are_those_of_the_default_study():
    """They were trained at the rates of a law that did not bend."""
    (stage,) = next(iter(open_study(SHIPPED / "cascade" / "study.py").stages(None)))
    made = forecast(read_runs(SHIPPED.parent / "examples" / "sweep.csv", size="width", tune="lr"))
    for cell in stage.wants(None):
        rate = made.at(**dict(cell.size)).tuned["lr"].value
        assert abs(math.log2(dict(cell.tuned)["lr"] / rate)) < 0.15, cell


@pytest.mark.slow
def test_committed_runs_of_the_horizon_hold_its_forecast_and_rank_its_rules(committed):
    result = committed("horizon").result
    for exponent, expected in zip(result.exponents.values(), (-0.44, -0.35), strict=True):
        assert expected in exponent.ci
        assert exponent.ci.upper < -0.2
    for target in result.targets:
        assert len(target.losses) == 4
        assert all(loss in target.point.loss_pi for loss in target.losses)
        costs = [(c.predicted.value, c.measured.value) for c in target.costs]
        assert stats.spearmanr(costs).statistic > 0.9
        (fitted,) = [c.measured for c in target.costs if RULE_NAMES["fitted"] in c.rule]
        assert fitted.value < min(measured for _, measured in costs) + 0.003
    assert result.decay_costs["weight decay 0.1, the rate tuned"].value < 0.01


HORIZON = import_source(SHIPPED / "horizon.py", "horizon")


def test_cost_of_a_rate_is_measured_seed_by_seed_between_the_rates_of_a_target():
    """1 % of the loss an octave², the best rate 2^-6; seeds differ by a factor of the loss."""
    rows = [
        {"lr": 2.0**i, "seed": seed, "loss": 2 * 1.1**seed * math.exp(0.01 * (i + 6) ** 2)}
        for i, seed in product(range(-9, -2), range(3))
    ]
    rows[-1]["loss"] = None  # 2^-3 failed on a seed
    runs = pd.DataFrame(rows)

    def cost_of(rate):
        return HORIZON.measured_cost(runs, rate, best=2.0**-6, level=0.95)

    cost = cost_of(2.0**-8)
    assert (cost.value, *cost.ci) == pytest.approx((0.04, 0.04, 0.04), abs=1e-9)
    assert cost_of(2.0**-7.5).value == pytest.approx(0.0225, abs=0.002)
    for beyond in (2.0**-9.5, 2.0**-3):
        assert cost_of(beyond).value is None


def test_timescales_and_what_keeping_them_costs_are_those_of_a_known_sweep():
    """The rate stays at 2^-7, and so does the timescale, at a share ½ of the run."""
    rng, batch, rows = np.random.default_rng(0), 64, []
    for tokens, i, j, seed in product((2**16, 2**18), range(-10, -4), range(-6, 3, 2), range(2)):
        timescale = batch / (2.0**i * 2.0**j * tokens)
        excess = 0.02 * (i + 7) ** 2 + 0.01 * (math.log2(timescale) + 1) ** 2
        loss = 2 * math.exp(excess + 0.0005 * rng.standard_normal())
        rows.append((64.0, float(tokens), 2.0**i, 2.0**j, seed, "complete", loss))
    columns = ["width", "tokens", "lr", "weight_decay", "seed", "status", "loss"]
    runs = pd.DataFrame(rows, columns=columns)
    for tokens, best in HORIZON.timescales(runs, batch, level=0.95):
        assert best["timescale"].value == pytest.approx(0.5, rel=0.05)
        assert best["lr"].value == pytest.approx(2**-7, rel=0.05)
        assert best["weight_decay"].value == pytest.approx(2**14 / tokens, rel=0.1)
    costs = HORIZON.decay_costs(runs, usual=2**-2, level=0.95)
    by_decay, by_rate = (
        costs["its timescale, by weight decay"],
        costs["its timescale, by the rate"],
    )
    assert by_decay.value == pytest.approx(0, abs=0.001)
    assert by_rate.value == pytest.approx(0.02 * 2**2, rel=0.1)
    both = costs["rate and weight decay of the shorter run"]
    assert both.value == pytest.approx(0.01 * 2**2, rel=0.1)


def horizon_loss(size, tuned, seed):
    """The rate falls as n^-.4 and D^-.3, two octaves off cost 8 %; weight decay does nothing."""
    tokens = size["tokens"] / 2**16
    best = -7 - 0.4 * math.log2(size["width"] / 64) - 0.3 * math.log2(tokens)
    excess = 0.02 * (math.log2(tuned["lr"]) - best) ** 2
    excess += 0.01 * math.log2(tuned.get("weight_decay", 0.1) / 0.1) ** 2
    noise = np.random.default_rng([seed, int(1000 * tuned["lr"])]).normal(0, 0.001)
    loss = (1.5 + size["width"] ** -0.5 + tokens**-0.5) * math.exp(excess + noise)
    return {"loss": loss, "n_params": int(100 * size["width"])}


@pytest.mark.slow
def test_the_horizon_study_measures_the_cost_of_every_rule_of_a_known_law(tmp_path):
    """A constant rate from the largest size is .6 octaves too high at four times the tokens."""
    study = HORIZON.HORIZON
    rates = replace(study.rates, seeds=(0, 1), growth=2)
    kind = HORIZON.HorizonKind(replace(study, rates=rates), horizon_loss)
    outcome = run(kind, storage=f"sqlite:///{tmp_path}/s.db", reports=tmp_path)
    longer, wider = outcome.result.targets
    assert outcome.result.exponents["tokens"].value == pytest.approx(-0.3, abs=0.03)
    assert outcome.result.exponents["width"].value == pytest.approx(-0.4, abs=0.03)
    for target, octaves in (longer, 0.6), (wider, 0.8):
        costs = {(c.rule.split(", ")[0], c.start.get("width")): c for c in target.costs}
        constant = costs["constant", 64.0]
        assert constant.measured.value == pytest.approx(0.02 * octaves**2, abs=0.003)
        assert constant.predicted.value == pytest.approx(0.02 * octaves**2, abs=0.003)
        assert costs[RULE_NAMES["fitted"], None].measured.value < 0.002
        for name, value in {(RULE_NAMES[r.rule], r.value) for r in target.point.rules}:
            same = [c for c in target.costs if math.isclose(c.value, value, rel_tol=1e-5)]
            assert [name in c.rule for c in same] == [True], name
        assert len(target.losses) == 4
