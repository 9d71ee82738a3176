"""Figures of the registered batch studies, on tables whose critical batches are known."""

import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from benchmarks import evidence_noise, evidence_optimizers
from extrap.laws.batch import steps_to_target
from extrap.study import open_study, run
from tests.study_workloads import CLASSES

STUDIES = Path(__file__).parents[1] / "studies"
CRITICAL = {"sgd": 50.0, "momentum": 150.0, "nesterov": 150.0, "adam": 600.0}
SEEDS, WIDTHS, BATCHES = range(4), (16, 32), [2**i for i in range(2, 13)]


def write_optimizers(prefix):
    """Momentum .9 is the best at every batch, .7 takes 1.5 times the steps; 2 % between seeds."""
    rng, seeds = np.random.default_rng(0), []
    for (name, critical), width, batch, seed in product(CRITICAL.items(), WIDTHS, BATCHES, SEEDS):
        least = 40_000 / critical
        steps = float(steps_to_target(batch, s_min=least, b_crit=critical * (width / 16) ** 0.5))
        for momentum in (0.7, 0.9) if name in ("momentum", "nesterov") else ("",):
            seeds.append(
                {
                    "task": f"{name}-{momentum}" if momentum else name,
                    "width": width,
                    "target": 1.0,
                    "batch_size": batch,
                    "seed": seed,
                    "steps": steps * (1.5 if momentum == 0.7 else 1) * rng.lognormal(0, 0.02),
                    "budget": 1e5,
                    "status": "reached",
                }
            )
    table = pd.DataFrame(seeds)
    keys = ["task", "width", "target", "batch_size"]
    tuned = table.groupby(keys, as_index=False).agg(
        steps=("steps", lambda steps: math.exp(np.log(steps).mean())),
        budget=("budget", "min"),
        status=("status", "first"),
    )
    table.to_csv(f"{prefix}.seeds.csv", index=False)
    tuned.assign(at_edge=False).to_csv(f"{prefix}.tuned.csv", index=False)


def test_optimizers_are_ordered_as_their_hyperbolas(tmp_path):
    prefix = tmp_path / "made"
    write_optimizers(prefix)
    rows = {(row.part, row.figure): row for row in evidence_optimizers.rows_of(prefix)}
    assert rows["order", "order, loss 1"].reached.replace(
        "nesterov ? momentum", "momentum ? nesterov"
    ) in ("sgd < momentum ? nesterov < adam",)
    seeds, tuned = evidence_optimizers.load(prefix)
    steps = evidence_optimizers.best_momenta(seeds, tuned)
    assert set(steps.loc[steps["momentum"] > 0, "momentum"]) == {0.9}
    groups = evidence_optimizers.critical_groups(steps)
    for name, critical in CRITICAL.items():
        assert groups[name, 16.0, 1.0].b_crit.value == pytest.approx(critical, rel=0.1)
    assert evidence_optimizers.regimes_seen(groups["sgd", 16.0, 1.0]) == (
        "perfect, diminishing, maximal"
    )
    figures = evidence_optimizers.curve_figures(steps)
    values = evidence_optimizers.differences(figures, "log_b_crit", "sgd", "momentum")
    assert len(values) == len(SEEDS)
    assert values.mean() == pytest.approx(math.log(3), abs=0.1)
    assert evidence_optimizers.verdict(values) == "larger"
    equal = evidence_optimizers.differences(figures, "log_b_crit", "momentum", "nesterov")
    assert "equal" in evidence_optimizers.verdict(equal)
    exponent = rows["width", "exponent of adam, loss 1"].reached
    assert float(exponent.split()[0]) == pytest.approx(0.5, abs=0.1)
    assert rows["grids", "best rate at the edge of its grid; target not reached"].reached == (
        "0 and 0 of 132 places"
    )


def test_end_of_perfect_scaling_is_where_examples_exceed_their_least_by_a_fifth():
    """Examples 1 + B / 100 over those at batch 4: 1.2 · 1.04 = 1 + B / 100 at 24.8."""
    batch = 2.0 ** np.arange(2, 13, 0.25)
    steps = steps_to_target(batch, s_min=10, b_crit=100)
    assert math.exp(evidence_optimizers.log_perfect_end(batch, steps)) == pytest.approx(
        24.8, rel=0.01
    )
    assert math.isnan(evidence_optimizers.log_perfect_end(batch, 1 / batch))


def test_seeds_that_would_tell_are_the_first_whose_half_width_is_below_the_mean():
    """Mean .2, sd .1414: by tables of t, 3.182 · .0707 = .225 at 4, 2.776 · .0632 = .176 at 5."""
    assert evidence_optimizers.seeds_to_tell([0.1, 0.3]) == 5
    assert evidence_optimizers.seeds_to_tell([0.1]) is None
    assert evidence_optimizers.seeds_to_tell([-1, 1]) is None
    wide = evidence_optimizers.verdict([0.1, 0.3])
    assert wide == "cannot tell; 5 seeds would"
    assert evidence_optimizers.verdict([-0.3, -0.31, -0.29]) == "smaller"


RATIO = 0.5
TASKS = [SimpleNamespace(study=SimpleNamespace(name=f"t{i}"), noise_batch=64) for i in range(5)]
STUDY = SimpleNamespace(tasks=TASKS)


def made_tables():
    """Noise scales twice the critical batches, √step in a course, losses 1 / √(noise scale)."""
    noise, tuned, courses = [], [], []
    for i, task in enumerate(TASKS):
        for target, factor in ((2.0, 1.0), (1.0, 4.0)):
            critical = 4.0**i * factor
            row = {"task": task.study.name, "target": target}
            noise.append({**row, "b_crit": critical, "noise_scale": critical / RATIO})
            tuned += [
                {
                    **row,
                    "batch_size": batch,
                    "steps": float(steps_to_target(batch, s_min=10, b_crit=critical)),
                    "status": "reached",
                    "at_edge": False,
                }
                for batch in (4, 16, 64, 256)
            ]
        step = np.array([1.0, 4.0, 16.0, 64.0])
        columns = {"step": step, "noise_scale": step**0.5, "loss": step**-0.25}
        courses.append(pd.DataFrame(columns).assign(task=task.study.name))
    return {
        "noise": pd.DataFrame(noise),
        "tuned": pd.DataFrame(tuned),
        "courses": pd.concat(courses),
    }


def test_agreement_and_growth_are_those_of_made_tables():
    tables = made_tables()
    rows = {r.figure: r.reached for r in evidence_noise.agreement_rows(tables["noise"], "real")}
    assert rows["real: r² of the logarithms"].startswith("1.00 (1.00")
    assert rows["real: sd of ln(critical batch / noise scale)"].startswith("0.00")
    assert rows["real: critical batch / noise scale, mean"].startswith("0.50 (0.50")
    assert "10 pairs of 5 tasks, 0 pairs" in rows["real: decades"]
    slopes = evidence_noise.course_slopes(tables["courses"])
    assert slopes["step"].to_numpy() == pytest.approx(0.5)
    assert slopes["loss"].to_numpy() == pytest.approx(-2)
    growth = {r.figure: r.reached for r in evidence_noise.growth_rows(tables, "real")}
    assert growth["real: median slope over ln step"].startswith("0.50 (0.50 to 0.50); 5 above 0")
    assert growth["real: noise scale, lower over higher target"].startswith("4.00 (4.00")


def test_left_out_tasks_are_predicted_by_the_others_alone():
    """Ln 4 times 0 to 4, and one more at the lower target: without the last, the mean is 2."""
    pairs = evidence_noise.known_pairs(made_tables()["noise"])
    made = evidence_noise.left_out_predictions(pairs)
    last = (pairs["task"] == "t4").to_numpy()
    assert made["one batch for all"][last] == pytest.approx(math.log(4) * 2)
    assert made["noise scale"] == pytest.approx(pairs["y"].to_numpy() + math.log(2))
    assert made["noise scale, mean ratio"] == pytest.approx(pairs["y"].to_numpy())
    assert made["noise scale, line"] == pytest.approx(pairs["y"].to_numpy())


def test_trade_off_is_that_of_the_hyperbola_with_the_noise_scale():
    tables = made_tables()
    errors = evidence_noise.trade_off(tables, STUDY)
    assert len(errors) == 10 * 3
    assert errors["measured critical batch"].abs().max() < 1e-9
    at = errors[(errors["task"] == "t3") & (errors["target"] == 2) & (errors["batch_size"] == 4)]
    # 128 for 64, from batch 64 to 4: 1 + 128 / 4 over 1 + 128 / 64, measured 17 over 2
    assert at["noise scale"].item() == pytest.approx(math.log(33 / 3 / (17 / 2)))
    assert at["perfect scaling"].item() == pytest.approx(math.log(16 / (17 / 2)))
    assert evidence_noise.trade_off_rows(tables, STUDY, "real")


@pytest.mark.parametrize("name", ["optimizer_batch", "noise_ladder"])
def test_whole_of_a_study_holds_its_reduced_form(name):
    reduced, whole = (open_study(STUDIES / f"{n}.py").study for n in (name, f"{name}_full"))
    names = {task.study.name for task in whole.tasks}
    assert {task.study.name for task in reduced.tasks} < names
    for task in (*reduced.tasks, *whole.tasks):
        assert {task.noise_batch or task.reference, task.reference} <= set(task.batches)


@pytest.mark.usefixtures("home")
def test_a_tiny_ladder_is_trained_and_its_tables_are_read(tmp_path):
    kind = open_study(STUDIES / "noise_ladder.py")
    (easy,) = (t for t in kind.study.tasks if t.study.name == "digits-two-classes")
    workload = replace(easy.study.workload, name=CLASSES)
    study = replace(easy.study, workload=workload, seeds=(0, 1))
    easy = replace(easy, study=study, steps={2: 150, 8: 80, 32: 50}, targets=(0.6, 0.3))
    small = type(kind)(replace(kind.study, tasks=(easy,)))
    outcome = run(small, storage=f"sqlite:///{tmp_path}/s.db", reports=tmp_path)
    tables = outcome.tables
    assert {"noise", "tuned", "courses", "seeds"} <= set(tables)
    assert set(tables["seeds"]["batch_size"]) == {2, 8, 32}
    (row,) = evidence_noise.agreement_rows(tables["noise"], "real")
    assert row.reached.endswith("tasks, too few")
    assert evidence_noise.growth_rows(tables, "real")
    assert evidence_noise.trade_off_rows(tables, small.study, "real") == []


def test_teachers_of_the_older_study_have_their_figures():
    tables = evidence_noise.load(evidence_noise.TEACHERS, evidence_noise.LINEAR)
    assert tables["noise"]["task"].nunique() == 4
    study = evidence_noise.study_of(evidence_noise.TEACHERS)
    assert len(evidence_noise.trade_off_rows(tables, study, evidence_noise.LINEAR)) == 15
