"""Figures of the registered batch studies, on tables whose critical batches are known."""

import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from benchmarks import evidence_batches, evidence_noise, evidence_optimizers
from benchmarks.rows import Row
from extrap.laws.batch import steps_to_target
from extrap.records import Interval, Measure
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


def rows_by_figure(parts):
    return {(row.part, row.figure): row for rows in parts for row in rows}


def test_optimizers_are_ordered_as_their_hyperbolas(tmp_path):
    prefix = tmp_path / "made"
    write_optimizers(prefix)
    rows = rows_by_figure(evidence_optimizers.parts_of(prefix))
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
    assert values.shape == (len(SEEDS), len(WIDTHS))
    assert values.to_numpy().mean() == pytest.approx(math.log(3), abs=0.1)
    pairs = {"sgd": "larger", "nesterov": "equal"}
    for other, expected in pairs.items():
        verdict = evidence_optimizers.verdict_of(figures, "log_b_crit", other, "momentum")
        assert expected in verdict
    for name in CRITICAL:
        has_momentum = name in ("momentum", "nesterov")
        beside = rows["critical batch", f"{name}, width 16, loss 1"].beat
        assert beside.startswith("momentum 0.9: ") == has_momentum
    exponent = rows["width", "exponent of adam, loss 1"].reached
    assert float(exponent.split()[0]) == pytest.approx(0.5, abs=0.1)
    assert rows["grids", "best rate at the edge of its grid"].reached.startswith("0 of 132 places")
    assert rows["against us", "groups whose hyperbola is rejected (lack-of-fit)"].reached == (
        "0 of 8, 0 not fitted"
    )


def test_an_optimizer_that_reaches_nothing_is_not_fitted_and_the_others_are(tmp_path):
    prefix = tmp_path / "made"
    write_optimizers(prefix)
    for name in ("seeds", "tuned"):
        table = pd.read_csv(f"{prefix}.{name}.csv")
        is_late = (table["task"] == "adam") & (table["batch_size"] > 4)
        status = table["status"].where(~is_late, "censored")
        table.assign(status=status).to_csv(f"{prefix}.{name}.csv", index=False)
    rows = rows_by_figure(evidence_optimizers.parts_of(prefix))
    assert rows["critical batch", "adam, width 16, loss 1"].reached.startswith("not fitted")
    assert rows["regimes", "adam, width 32, loss 1"].reached == "not fitted"
    assert rows["against us", "groups whose hyperbola is rejected (lack-of-fit)"].reached == (
        "0 of 8, 2 not fitted"
    )
    ratio = rows["order", "adam over sgd, loss 1"].reached
    assert "left out: sgd 0 of 8 curves, adam 8 of 8 curves" in ratio
    assert rows["order", "order, loss 1"].reached.endswith("; unknown: adam")
    assert rows["width", "exponent of adam, loss 1"].reached.startswith("not known")


def made_figures(ends, b_crits=None, targets=(1.4, 1.1)):
    """Optimizer → ln of both figures at every seed, 1 % between them, widths that double it."""
    rows = [
        {
            "optimizer": name,
            "width": width,
            "target": target,
            "seed": seed,
            "log_end": end + 0.01 * seed + math.log(width),
            "log_b_crit": (b_crits or ends)[name] + 0.01 * seed + math.log(width),
        }
        for (name, end), width, target, seed in product(
            ends.items(), (16, 32, 64), targets, range(4)
        )
    ]
    figures = pd.DataFrame(rows)
    noise = np.random.default_rng(0).normal(0, 0.01, (len(figures), 2))
    figures[["log_end", "log_b_crit"]] += noise
    return figures


def test_all_seeds_are_averaged_over_the_same_widths():
    """Momentum's advantage goes as the width; without width 64 a seed's mean would be less."""
    figures = made_figures({"sgd": 0.0, "momentum": 1.0}, targets=(1.0,))
    is_momentum = figures["optimizer"] == "momentum"
    figures["log_end"] += is_momentum * np.log(figures["width"])
    is_gone = is_momentum & (figures["width"] == 64) & (figures["seed"] == 0)
    figures.loc[is_gone, "log_end"] = math.nan
    logs = evidence_optimizers.differences(figures, "log_end", "sgd", "momentum")
    assert logs.shape == (3, 3)  # nine curves; four seeds at two widths are eight
    values = logs.mean(axis="columns")
    assert values.to_numpy() == pytest.approx(1 + math.log(32), abs=0.05)
    (row, *_) = evidence_optimizers.ratio_rows(figures, "log_end", "perfect scaling")
    assert "of 3 seeds at 3 widths" in row.reached
    assert row.reached.endswith("left out: sgd 0 of 12 curves, momentum 1 of 12 curves")
    two_seeds = pd.DataFrame([[1.0, 2, 3], [1, math.nan, math.nan]])
    assert evidence_optimizers.without_gaps(two_seeds).shape == (2, 1)


@pytest.mark.parametrize(
    ("at_1_4", "at_1_1", "answer"),
    [(1, 1, "yes"), (-1, -1, "no"), (1, -1, "cannot tell"), (1, 0, "cannot tell")],
)
def test_momentum_extends_perfect_scaling_if_it_does_at_both_losses(at_1_4, at_1_1, answer):
    parts = [
        made_figures({"sgd": 0.0, "momentum": log}, targets=(target,))
        for target, log in ((1.4, at_1_4), (1.1, at_1_1))
    ]
    assert evidence_optimizers.extension_row(pd.concat(parts)).reached == answer
    parts[1]["log_end"] = math.nan
    assert evidence_optimizers.extension_row(pd.concat(parts)).reached == "cannot tell"


def test_an_optimizer_without_values_is_unknown_and_not_the_largest():
    figures = made_figures({"sgd": 1.0, "momentum": 2.0, "nesterov": 3.0, "adam": 0.0})
    here = figures[figures["target"] == 1.4].copy()
    assert evidence_optimizers.order_text(here, "log_end") == "adam < sgd < momentum < nesterov"
    here.loc[here["optimizer"] == "adam", "log_end"] = math.nan
    expected = "sgd < momentum < nesterov; unknown: adam"
    assert evidence_optimizers.order_text(here, "log_end") == expected
    assert evidence_optimizers.order_text(here.assign(log_end=math.nan), "log_end") == (
        "unknown: sgd, momentum, nesterov, adam"
    )


def test_orders_contradict_each_other_if_both_have_intervals():
    ends = {"sgd": 0.0, "momentum": 1.0, "adam": 0.0}
    figures = made_figures(ends, {"sgd": 0.0, "momentum": -1.0, "adam": 1.0})
    assert evidence_optimizers.contradictions(figures) == [
        "momentum over sgd, loss 1.1",
        "adam over momentum, loss 1.1",
        "momentum over sgd, loss 1.4",
        "adam over momentum, loss 1.4",
    ]


@pytest.mark.parametrize(
    ("batches", "ends", "seen"),
    [
        ((4, 50, 1000), (80, 120), "perfect, diminishing, maximal"),
        ((16, 480), (80, 120), "perfect, maximal"),  # the limits are 80 / 5 and 4 · 120
        ((24, 320), (80, 120), "diminishing"),  # 120 / 5 and 4 · 80
        ((20, 400), (80, 120), "none"),
        ((1, 4, 50, 1000), (80, None), "perfect"),
        ((4, 50, 1000), (None, 120), "maximal"),
        ((4, 100, 10_000), (10, 1000), "maximal"),  # nowhere diminishing for all of it
    ],
)
def test_a_regime_is_seen_if_a_batch_is_in_it_for_the_whole_interval(batches, ends, seen):
    b_crit = Measure(value=100.0, ci=Interval(*ends))
    group = SimpleNamespace(
        batches=batches,
        perfect_end=b_crit.map(lambda batch: batch / 5),
        maximal_start=b_crit.map(lambda batch: 4 * batch),
    )
    assert evidence_optimizers.regimes_seen(group) == seen


def test_flags_stand_beside_every_critical_batch():
    """A note would be printed at the first row that has it, and nowhere else."""
    group = SimpleNamespace(b_crit=Measure(value=100.0), flags=("lack-of-fit", "censored"))
    text = evidence_optimizers.critical_text(group)
    assert text == "100 (open to open); lack-of-fit; censored"


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
TASKS = [SimpleNamespace(study=SimpleNamespace(name=f"t{i}"), noise_batch=64) for i in range(6)]


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
    rows = {
        r.figure: r.reached for r in evidence_noise.agreement_rows(tables["noise"], "real", 14)
    }
    assert rows["real: r² of the logarithms"].startswith("1.00 (1.00")
    assert rows["real: sd of ln(critical batch / noise scale)"].startswith("0.00")
    assert rows["real: critical batch / noise scale, geometric mean"].startswith("0.50 (0.50")
    decades = f"{6 * math.log10(4):.2f} and {6 * math.log10(4):.2f}"
    assert rows["real: decades"].startswith(f"{decades} of critical")
    assert rows["real: decades"].endswith("12 pairs of 6 tasks, 2 of 14 without one of the two")
    slopes = evidence_noise.course_slopes(tables["courses"])
    assert slopes["step"].to_numpy() == pytest.approx(0.5)
    assert slopes["loss"].to_numpy() == pytest.approx(-2)
    growth = {r.figure: r.reached for r in evidence_noise.growth_rows(tables, "real")}
    assert growth["real: median slope over ln step"].startswith("0.50 (0.50 to 0.50); 6 above 0")
    assert growth["real: noise scale, lower over higher target, geometric mean"].startswith(
        "4.00 (4.00"
    )


def test_left_out_tasks_are_predicted_by_the_others_alone():
    """Ln 4 times 0 to 5, and one more at the lower target: without the last, the mean is 2.5."""
    pairs = evidence_noise.known_pairs(made_tables()["noise"])
    made = evidence_noise.left_out_predictions(pairs)
    last = (pairs["task"] == "t5").to_numpy()
    assert made["one batch for all"][last] == pytest.approx(math.log(4) * 2.5)
    assert made["noise scale"] == pytest.approx(pairs["y"].to_numpy() + math.log(2))
    assert made["noise scale, mean ratio"] == pytest.approx(pairs["y"].to_numpy())
    assert made["noise scale, line"] == pytest.approx(pairs["y"].to_numpy())


def test_trade_off_is_that_of_the_hyperbola_with_the_noise_scale():
    tables = made_tables()
    errors = evidence_noise.trade_off(tables, TASKS)
    assert len(errors) == 12 * 3
    assert errors["measured critical batch"].abs().max() < 1e-9
    at = errors[(errors["task"] == "t3") & (errors["target"] == 2) & (errors["batch_size"] == 4)]
    # 128 for 64, from batch 64 to 4: 1 + 128 / 4 over 1 + 128 / 64, measured 17 over 2
    assert at["noise scale"].item() == pytest.approx(math.log(33 / 3 / (17 / 2)))
    assert at["perfect scaling"].item() == pytest.approx(math.log(16 / (17 / 2)))
    assert evidence_noise.trade_off_rows(tables, TASKS, "real")


def test_a_trade_off_without_the_batch_of_the_noise_has_no_steps_to_predict():
    tables = made_tables()
    tables["tuned"].loc[tables["tuned"]["batch_size"] == 64, "status"] = "censored"
    (row,) = evidence_noise.trade_off_rows(tables, TASKS, "real")
    assert row.reached == "no steps to predict"


def test_fewer_than_six_tasks_have_no_interval():
    """The least and the largest of n values hold their median with 1 - 2^(1 - n): 94, 97 %."""
    n = evidence_noise.FEWEST_OF_INTERVAL
    assert 2 ** (1 - n) < 0.05 < 2 ** (2 - n)
    values = np.arange(6.0)
    assert evidence_noise.median_text(values) == "2.50 (0.00 to 5.00)"
    assert evidence_noise.median_text(values[:5]) == "2.00 (5 tasks: no interval)"
    for n_tasks, is_interval in ((6, True), (5, False)):
        column = values[:n_tasks, None]
        text = evidence_noise.figure_text(column, lambda mean: mean[0])
        assert (" to " in text) == is_interval
        tasks = pd.Series(range(n_tasks)).repeat(2)
        text = evidence_noise.figure_text(column.repeat(2, axis=0), lambda mean: mean[0], tasks)
        assert (" to " in text) == is_interval


@pytest.mark.parametrize(
    ("prefix", "kind", "n_tasks"),
    [
        (evidence_noise.PREFIX, evidence_noise.REAL, 20),
        (evidence_noise.TEACHERS, evidence_noise.LINEAR, 4),
    ],
)
def test_pairs_are_those_of_the_study(prefix, kind, n_tasks):
    """Registered: 40 of the ladder and 8 of the teachers."""
    tasks = evidence_noise.tasks_of(prefix, kind)
    assert len(tasks) == n_tasks
    assert evidence_noise.n_pairs_of(tasks) == 2 * n_tasks


def test_shipped_tables_are_copies_and_large_ones_are_rounded(tmp_path, monkeypatch):
    reports, studies = tmp_path / "reports", tmp_path / "studies"
    for folder in (reports, studies):
        folder.mkdir()
    table = pd.DataFrame({"batch_size": [16384, 4], "seed": [6000.0, None], "steps": [1 / 3, 1e4]})
    for name in ("seeds", "tuned"):
        table.to_csv(reports / f"made.{name}.csv", index=False)
    with pytest.raises(FileNotFoundError, match=r"made\.rates\.csv"):
        evidence_batches.ship("made", ("seeds", "rates"), reports=reports, studies=studies)
    assert list(studies.iterdir()) == []
    seeds, _ = evidence_batches.ship("made", ("seeds", "tuned"), reports=reports, studies=studies)
    assert seeds.read_bytes() == (reports / "made.seeds.csv").read_bytes()
    monkeypatch.setattr(evidence_batches, "LARGEST_COPIED", 10)
    (seeds,) = evidence_batches.ship("made", ("seeds",), reports=reports, studies=studies)
    assert seeds.read_text().splitlines()[1:] == ["16384,6000,0.333333", "4,,10000"]


def test_a_part_is_printed_before_a_later_one_fails(tmp_path, capsys):
    def parts(prefix):
        yield [Row(part="first", figure="of it", reached="1.25")]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        evidence_batches.print_figures([], about="It.", prefix=tmp_path, tables=(), parts=parts)
    assert "1.25" in capsys.readouterr().out


@pytest.mark.parametrize("module", [evidence_noise, evidence_optimizers])
def test_tables_to_ship_are_those_registered(module):
    text = (STUDIES / "registered.md").read_text(encoding="utf-8").replace("\n", " ")
    after = text.partition(f"Tables to ship: `{module.PREFIX.name}.")[2].partition(". ")[0]
    assert {name.strip("`. ") for name in after.split(",")} == {f"{t}.csv" for t in module.SHIPPED}


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
    n_pairs = evidence_noise.n_pairs_of(small.study.tasks)
    assert n_pairs == 2
    (row,) = evidence_noise.agreement_rows(tables["noise"], "real", n_pairs)
    assert row.reached.endswith("too few tasks")
    assert evidence_noise.growth_rows(tables, "real")
    (row,) = evidence_noise.trade_off_rows(tables, small.study.tasks, "real")
    assert row.reached == "no steps to predict"


def test_teachers_of_the_older_study_have_their_figures():
    tables = evidence_noise.load(evidence_noise.TEACHERS, evidence_noise.LINEAR)
    assert tables["noise"]["task"].nunique() == 4
    tasks = evidence_noise.tasks_of(evidence_noise.TEACHERS, evidence_noise.LINEAR)
    assert len(evidence_noise.trade_off_rows(tables, tasks, evidence_noise.LINEAR)) == 15
