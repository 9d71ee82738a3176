"""The table of figures and its page, on a few replicates; the figures are `make backtest`'s."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

import extrap
from benchmarks import (
    allocations,
    batch,
    batch_studies,
    cascades,
    comparisons,
    faults,
    levers,
    noise_scales,
    peers,
    plans,
    samplers,
    simulated,
    verb,
)
from benchmarks.backtest import WORDS, conclusion, parts
from benchmarks.page import headline, write_page
from benchmarks.pictures import plates
from benchmarks.rows import DATA, Row, gadre_sets
from benchmarks.spiked_bytes import SPOILED, WRONG, SpikedBytes
from benchmarks.table import print_rows, write_csv
from extrap.comparing.tuned import tuned_losses

ROWS = [
    Row(part="a", figure="x", target="≤ 1", reached="0.5", met=True, note="said once"),
    Row(part="a", figure="y", target="≤ 1", reached="1.5", met=False, note="said once"),
    Row(part="b", figure="z", reached="3"),
]


@pytest.fixture(scope="module")
def found() -> dict[str, pd.DataFrame]:
    first = {}
    for number, (kind, *_) in enumerate(simulated.settings()):
        first.setdefault(kind, number)
    rows = [row for number in first.values() for row in simulated.simulate((number, 1))]
    return {"simulated": pd.DataFrame(rows), "verb": verb.judge_sweeps(Path("nowhere"))}


def test_terminal_says_met_and_missed_in_words(capsys):
    print_rows(ROWS)
    said = capsys.readouterr().out
    assert "MISSED [1]" in said
    assert "no target" in said
    assert said.count("said once") == 1


def test_csv_has_a_line_a_row(tmp_path):
    write_csv(ROWS, tmp_path / "rows.csv")
    assert list(pd.read_csv(tmp_path / "rows.csv")["met"]) == ["met", "MISSED", "no target"]


def test_conclusion_counts_targets():
    assert headline(ROWS) == "1 of 2 targets met, 1 missed."
    assert "Missed: a: y" in conclusion(ROWS, {"part": 1.0})


def test_page_without_published_tables_is_whole(found, tmp_path):
    path = tmp_path / "page.html"
    write_page(ROWS, plates(found), {"part": 1.0}, ["steplaw.csv"], words=WORDS, path=path)
    html = path.read_text(encoding="utf-8")
    assert "1 of 2 targets met" in html
    assert "steplaw.csv" in html
    assert html.count("<svg") == 2
    assert "http" not in html.replace("http-equiv", "")


def test_every_published_table_is_asked_for_by_name():
    asked = {table for part in parts(DATA, 1).values() for table in part.tables}
    assert asked >= {"steplaw.csv", "gadre_mlfoundations.csv", "chinchilla_epoch.csv"}
    if DATA.is_dir():
        assert all((DATA / table).is_file() for table in asked)


def test_peers_were_measured_on_all_curves_and_sets():
    table = peers.read_peers()
    curves = table[table["part"] == "92 curves"]
    assert curves["set"].nunique() == 92
    assert curves.groupby("domain").size().to_dict() == {"BB": 10, "IC": 72, "LM": 5, "NMT": 5}
    sets = table[table["part"].str.startswith("Gadre")].groupby(["part", "peer", "setting"])
    assert set(sets.size()) == {3}
    assert set(sets["n"].sum()) == {32, 26}


def test_warm_up_rule_leaves_out_two_targets_a_set():
    if not (DATA / "gadre_mlfoundations.csv").is_file():
        pytest.skip("the published tables are not there")
    for runs in gadre_sets(DATA).values():
        large = runs[runs["params"] > 154e6]
        assert large["long_warmup"].sum() == 2
        assert not large.loc[large["params"] > 1e9, "long_warmup"].any()


def test_every_sampler_is_measured_on_every_bed():
    beds = list(samplers.beds(Path("nowhere")))
    table = pd.DataFrame(
        [row for name in beds for row in samplers.replicate((name, Path("nowhere"), 0))]
        + samplers.replicate_optuna((beds[0], "tpe", 0))
    )
    budgets = table.groupby(["bed", "sampler"]).size().unstack()
    assert (budgets[["grid", "law", "random"]] == [3, 4, 2]).all(axis=None)
    assert (table["runs"] <= table["share"] + 1e-9).all()
    with_target = [row.part for row in samplers.rows(table) if row.target]
    assert with_target == [f"samplers: {name}" for name in beds]


def test_share_needed_is_read_off_between_two_budgets():
    table = pd.DataFrame(
        {
            "bed": "b",
            "sampler": ["grid", "law", "law", "slow", "slow"],
            "share": [1, 0.25, 1, 0.5, 1],
            "runs": [1, 0.25, 1, 0.5, 1],
            "error": [0.02, 0.04, 0.01, 0.05, 0.04],
        }
    )
    assert samplers.share_needed(table, "b", "law") == pytest.approx(0.5)
    assert samplers.share_needed(table, "b", "grid") == 1
    assert math.isnan(samplers.share_needed(table, "b", "slow"))


@pytest.fixture(scope="module")
def cases() -> dict[str, faults.Case]:
    return faults.load()


def verdict_of(cause: str | None) -> extrap.Verdict:
    """A verdict of which only the cause matters."""
    said = dict.fromkeys(extrap.Verdict.__slots__)
    return extrap.Verdict(**{**said, "cause": cause, "advice": ""})


def test_there_are_a_hundred_faulty_and_a_hundred_clean_runs(cases):
    truth = [fault for case in cases.values() for fault in case.truth]
    assert truth.count("none") >= 100
    assert len(truth) - truth.count("none") >= 100
    assert min(truth.count(fault) for fault in faults.CAUSES) >= 12
    assert set(truth) == set(faults.CAUSES)


def test_no_run_is_used_twice_and_none_tells_its_fault(cases):
    for case in cases.values():
        assert not {"fault", "strength", "workload", "bed"} & set(case.runs.to_frame())
        seeds = [int(s) for runs in (case.sweep, case.runs) for s in runs.to_frame()["seed"]]
        assert len(set(seeds)) == len(case.runs) + case.sweep.to_frame()["seed"].nunique()


def test_each_fault_shows_in_the_columns_it_is_about(cases):
    case = cases["bytes-mlp"]
    frame = case.runs.to_frame().assign(fault=case.truth)
    clean = frame[frame["fault"] == "none"]
    differing = {
        fault: {c for c in case.runs.conditions if set(rows[c]) != set(clean[c])}
        for fault, rows in frame.astype(str).groupby("fault")
        for clean in [frame[frame["fault"] == "none"].astype(str)]
    }
    assert {fault: found for fault, found in differing.items() if found} == {
        "no decay": {"schedule", "decay"},
        "initialisation": {"init_scale"},
        "too deep": {"depth"},
        "bf16": {"precision"},
    }
    assert clean["epochs"].max() < 1
    epochs = frame.loc[frame["fault"] == "repeated data", "epochs"].round()
    assert set(epochs) == {2, 4, 8}
    octaves = np.log2(frame["lr"] / frame["width"].map(clean.groupby("width")["lr"].median()))
    for fault, low, high in (
        ("none", -0.4, 0.4),
        ("rate high", 1.6, 3.4),
        ("rate low", -3.4, -1.6),
    ):
        assert octaves[frame["fault"] == fault].between(low, high).all()


def test_batches_are_above_the_noise_scale_where_that_is_the_fault_alone(cases):
    case = cases["teacher"]
    frame = case.runs.to_frame()
    is_above = frame["batch_size"] > frame["noise_scale"]
    assert list(is_above) == [fault == "batch" for fault in case.truth]
    assert (frame["batch_size"] * frame["steps"]).nunique() == 1


def test_every_larger_run_has_its_curve(cases):
    for case in cases.values():
        curves = case.runs.curves()
        ends = curves.groupby("run")["loss"].last()
        losses = case.runs.to_frame()["loss"]
        complete = losses.notna()
        assert ends[complete].to_numpy() == pytest.approx(losses[complete].to_numpy(), rel=1e-4)
        assert case.sweep.curves()["run"].nunique() >= len(case.sweep.to_frame()["width"].unique())


def test_every_fault_costs_more_than_clean_runs_scatter(cases):
    spread = faults.deviations(cases)
    clean = spread.xs("none", level="fault").iloc[0]
    assert clean["runs"] >= 100
    assert abs(clean["median"]) < 0.001
    faulty = spread.drop(index="none", level="fault")
    assert (faulty["diverged"] == 0).all()
    dear = faulty["median"] > 0.01
    assert set(faulty.index[~dear].get_level_values("fault")) == {"bf16"}  # it costs .7 % here
    assert (faulty.loc[dear, "above 1 %"] > 0.9).all()


def test_a_spike_shows_in_its_curve(cases):
    case = cases["bytes-mlp"]
    curves = case.runs.curves()
    rises = {
        fault: [
            curves[curves["run"] == run]["loss"].iloc[10:].diff().max()
            for run, name in enumerate(case.truth)
            if name == fault
        ]
        for fault in ("none", "spike")
    }
    assert min(rises["spike"]) > 2 * max(rises["none"])


def test_a_judge_that_knows_is_right_and_one_that_is_silent_is_not(cases):
    truth = iter([fault for case in cases.values() for fault in case.truth])

    def knows(sweep, runs):
        causes = [faults.CAUSES[next(truth)] for _ in range(len(runs))]
        return [verdict_of(None if cause == "none" else cause) for cause in causes]

    knowing = faults.confusion(knows, cases=cases)
    assert (knowing.right, knowing.silent) == (1, 1)
    assert knowing.matrix.loc["no decay", "recipe"] == 12
    silent = faults.confusion(lambda _, runs: [verdict_of(None)] * len(runs), cases=cases)
    assert (silent.right, silent.silent) == (0, 1)
    assert list(silent.matrix.columns) == ["none"]


def test_runs_are_handed_over_one_by_one_with_their_curves(cases):
    runs = cases["teacher"].runs
    curves = runs.curves()
    for i, single in enumerate(list(faults.singles(runs))[:3]):
        assert single.to_frame()["seed"].tolist() == [runs.to_frame()["seed"][i]]
        own = curves.loc[curves["run"] == i, "loss"].tolist()
        assert single.curves()["loss"].tolist() == own


def test_a_stretch_of_batches_is_spoiled_in_mid_training():
    workload = SpikedBytes(steps=100, length=7)
    begins = set()
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        rows = [workload.draw(8, generator) for _ in range(100)]
        spoiled = [step for step, row in enumerate(rows) if (row >= SPOILED).all()]
        assert spoiled == list(range(spoiled[0], spoiled[0] + 7))
        assert 50 <= spoiled[0] < 80
        begins.add(spoiled[0])
        _, wrong = workload.examples(workload.training, rows[spoiled[0]])
        assert set(wrong.tolist()) == {WRONG}
        _, right = workload.examples(workload.training, rows[0])
        assert WRONG not in right.tolist()
    assert len(begins) > 1


def test_noise_scales_of_a_few_replicates_make_their_rows():
    rng = np.random.default_rng(0)
    kinds = (noise_scales.drifting, noise_scales.correlated, noise_scales.heavy_tailed)
    stress = pd.DataFrame(
        {"kind": kind.__name__, **noise_scales._judge(kind(rng, 32, 256), rng)}
        for kind in kinds
        for _ in range(2)
    )
    steady = pd.DataFrame(
        {"small": 1, "big": 512, **noise_scales._judge(noise_scales.steady(rng, 1, 512))}
        for _ in range(20)
    )
    cost = pd.DataFrame([{"loop": "tiny", **noise_scales._time_loop(4, 1, turns=1)}])
    rows = noise_scales.rows(noise_scales.Measured(steady=steady, stress=stress, cost=cost))
    assert [row.met for row in rows[:1]] == [True]
    assert len(rows) == 2 + 4 + 1
    assert all(row.reached for row in rows)
    assert stress["truth"].tolist() == pytest.approx([868.2] * 2 + [471] * 4, rel=1e-3)


def test_levers_are_judged_from_the_committed_runs():
    found = levers.rows(levers.measure())
    grown = [row for row in found if row.figure.startswith("growing the batch instead")]
    (ghosts,) = (row for row in found if row.figure.startswith("ghost batch norm"))
    assert len(grown) == 3
    assert all("2.1" in row.reached and row.met is not None for row in grown)
    assert ghosts.met is None
    assert "nats" in ghosts.reached


def test_cascades_are_judged_from_the_committed_curves():
    first, *others = cascades.rows(cascades.measure())
    assert first.met is True
    assert first.figure.startswith("width 128 before width 1024")
    assert "56.4 % (47.1 to 65.7 %)" in first.reached
    assert len(others) == 14
    assert all(row.met is None for row in others)


def test_lever_table_keeps_what_the_figures_rest_on(tmp_path):
    levers.write_table(pd.read_csv(levers.TABLE).assign(more=1), tmp_path / "levers.csv")
    assert levers.measure(tmp_path / "levers.csv") == levers.measure()


def test_batch_studies_are_judged_from_the_committed_tables(monkeypatch):
    monkeypatch.setattr(batch_studies, "_cost", lambda *case: 1.03)
    found = batch_studies.measure()
    assert found.agreement.n_pairs >= 8
    assert set(found.rates) == {16, 24, 32, 48, 64}
    assert not found.front["predicted"].isna().any()
    rows = {row.figure: row for row in batch_studies.rows(found)}
    assert rows["the worst pair differs by a factor of"].met
    assert rows["steps at held-out batches, median error"].met
    assert sum(row.met is None for row in rows.values()) == 3


def test_runs_at_the_larger_size_that_missed_the_target_count_as_misses(monkeypatch):
    monkeypatch.setattr(batch_studies, "_cost", lambda *case: 1.03)
    found = batch_studies.measure()
    front = found.front.copy()
    front.loc[:5, ["steps", "best"]] = np.nan
    front.loc[:5, "status"] = "censored"
    (row,) = (
        row
        for row in batch_studies.rows(replace(found, front=front))
        if row.figure.startswith("front at")
    )
    assert f"of {len(front) - 6} (of {len(front)} that" in row.reached
    inside = front["steps"].between(front["lower"], front["upper"]).mean()
    assert f"{inside:.0%}" in row.reached


def test_every_part_of_the_batch_figures_is_there(tmp_path):
    assert list(batch.parts(tmp_path)) == ["noise", "critical", "studies", "levers"]


def test_figures_of_the_batch_studies_are_those_of_their_tables(monkeypatch):
    """What docs/measured.md and docstrings say, to the digits they say it with."""

    def short(value: float, digits: int = 2) -> str:
        return f"{value:.{digits}f}".replace("0.", ".", 1).replace("-", "−")

    monkeypatch.setattr(batch_studies, "_cost", lambda *case: 1.03)
    found = batch_studies.measure()
    root = Path(batch_studies.__file__).parents[1]
    measured = (root / "docs" / "measured.md").read_text(encoding="utf-8")
    study = (root / "studies" / "batch_size.py").read_text(encoding="utf-8").replace("-", "−")
    noise = (root / "studies" / "noise_scale.py").read_text(encoding="utf-8")
    front = found.front
    off, largest = (
        100 * (front["steps"] / front[name] - 1).abs().median()
        for name in ("predicted", "as_largest")
    )
    joint, size = found.joint, found.collapse.size_exponent
    assert (
        f"{short(found.agreement.r_squared)}; a factor of {found.agreement.largest_factor:.1f}"
        in measured
    )
    assert f"is {short(found.agreement.r_squared)}, the worst pair" in noise
    assert f"batch is {short(found.agreement.ratio)} times" in noise
    held, lines = (100 * np.median(np.abs(x)) for x in (found.held_out, found.interpolated))
    assert f"{held:.1f} %; {lines:.1f} %" in measured
    assert f"out were {held:.0f} % off" in study
    assert f"{off:.0f} %, worse than {largest:.1f} %" in measured
    assert f"{largest:.1f} % off" in study
    exponent = f"batch^{short(joint.value)} ({short(joint.ci.lower)} to {short(joint.ci.upper)})"
    assert exponent in measured
    assert exponent in study
    flat = f"{short(size.value)} ({short(size.ci.lower)} to {short(size.ci.upper)})"
    assert f"× {10**found.growth.value:.1f}; {flat}" in measured
    assert f"width^{flat}" in study


def test_example_of_steps_is_the_table_of_the_study():
    columns = ["width", "target", "batch_size", "steps", "budget", "status"]
    root = Path(batch_studies.__file__).parents[1]
    of_study = pd.read_csv(root / "studies" / "batch_size.tuned.csv")[columns]
    pd.testing.assert_frame_equal(pd.read_csv(root / "examples" / "steps.csv"), of_study)


@pytest.mark.slow
def test_figures_of_splits_say_what_they_were_given():
    if not (DATA / "porian_formll.csv").is_file():
        pytest.skip("the published tables are not there")
    found = allocations.measure(DATA, n_replicates=1)
    lines = allocations.rows(found)
    missed = [line.part for line in lines if line.met is False and "simulated" not in line.part]
    assert len(lines) == 11 + len(found.loss_coverage)
    assert missed == ["Porian et al. 2024, rw"]
    worse = replace(found, closed={"Hoffmann": (1.02, 1.0)})
    assert not allocations.rows(worse)[0].met


@pytest.mark.slow
def test_figures_of_comparisons_say_what_they_were_given():
    found = comparisons.measure(n_repetitions=2, n_covered=1)
    lines = comparisons.rows(found)
    blocks = (comparisons.NULLS, comparisons.EFFECTS, comparisons.COVERED, comparisons.FLOORS)
    assert len(lines) == sum(map(len, blocks))
    missed = dict.fromkeys(found.floors, 0.8)
    assert not any(row.met for row in comparisons.rows(replace(found, floors=missed))[-4:])
    first = comparisons.NULLS[0].name
    worse = replace(found, false={first: (0.07, 0.05)})
    assert not comparisons.rows(worse)[0].met
    assert comparisons.rows(worse)[0].reached == "7.0%"


@pytest.mark.parametrize("design", comparisons.NULLS, ids=lambda design: design.name)
def test_losses_of_simulated_recipes_are_those_of_their_runs(design):
    drawn = comparisons._rows(design, design.law, np.random.default_rng(3))
    arms = comparisons.draw(design, design.law, np.random.default_rng(3))
    for name, rows in drawn.items():
        ours, theirs = comparisons.losses(design, rows, name), tuned_losses(name, arms[name])
        assert list(ours.by_size) == list(theirs.by_size)
        for key, found in theirs.by_size.items():
            assert ours.by_size[key].by_seed == pytest.approx(found.by_seed)


@pytest.mark.slow
def test_a_pack_that_is_stopped_loses_no_training() -> None:
    from benchmarks.checkpoints import checkpoint_rows, measure

    found = measure(width=8, n_runs=4, steps=80)
    assert found.redone == 0
    assert found.n_equal == found.n_runs == 4
    assert found.n_saves == 3  # at each of the evaluations but the last
    assert [row.met for row in checkpoint_rows(found)[:2]] == [True, True]


def test_a_plan_needs_the_share_at_which_its_median_interval_is_the_grids():
    """Two sweeps by hand: the loss's interval is the grid's at 18 %, the rate's never is."""
    rows = []
    for replicate, grid in enumerate((0.1, 0.2)):
        head = {"bed": "simulated", "replicate": replicate, "seconds": 1.0}
        full = {"strategy": "grid", "share": 1, "spent": 1, "loss_width": grid, "lr_width": grid}
        rows.append({**head, **full})
        for share, factor in ((0.06, 1.5), (0.18, 0.9)):
            widths = {"loss_width": factor * grid, "lr_width": 2 * grid}
            rows.append({**head, "strategy": "plan", "share": share, "spent": share, **widths})
    loss, lr, *_ = plans.rows(pd.DataFrame(rows))
    assert loss.reached.startswith("18%")
    assert loss.met
    assert lr.reached.startswith("not reached")
    assert lr.met is False


def test_a_replicate_of_plans_that_is_kept_is_not_measured_again(tmp_path, monkeypatch):
    rows = [{"bed": "simulated", "loss_width": np.float64(0.5), "loss_held": np.bool_(True)}]
    monkeypatch.setattr(plans, "_replicate", lambda *_: rows)
    task = ("simulated", tmp_path, 0, tmp_path / "kept" / "simulated-0.json")
    assert plans.replicate(task) == rows
    monkeypatch.setattr(plans, "_replicate", None)
    assert plans.replicate(task) == [{"bed": "simulated", "loss_width": 0.5, "loss_held": True}]


def test_what_is_kept_of_plans_is_of_the_same_planner_and_data(tmp_path, monkeypatch):
    for folder in ("extrap/planning", "extrap/fitting"):
        (tmp_path / folder).mkdir(parents=True)
    source = tmp_path / "extrap" / "fitting" / "fit.py"
    source.write_text("FIT = 1\n")
    monkeypatch.setattr(plans, "ROOT", tmp_path)
    here = nullcontext(SimpleNamespace(map=map))
    monkeypatch.setattr(plans, "ProcessPoolExecutor", lambda n_workers: here)
    measured = []
    monkeypatch.setattr(plans, "_replicate", lambda *task: measured.append(task) or [])

    def n_measured(data: str) -> int:
        plans.judge_strategies(tmp_path / data, 1, tmp_path / "kept")
        return len(measured)

    assert [n_measured("a"), n_measured("a"), n_measured("b")] == [1, 1, 2]
    source.write_text("FIT = 2\n")
    assert [n_measured("b"), n_measured("a"), n_measured("a")] == [3, 4, 4]


def test_each_interval_of_a_bed_has_a_picture_with_a_row_a_strategy_and_share():
    full = {"bed": "simulated", "replicate": 0, "strategy": "grid", "share": 1.0, "spent": 1.0}
    half = {**full, "strategy": "plan", "share": 0.25, "spent": 0.24}
    table = pd.DataFrame(
        [
            {**full, "loss_width": 0.1, "lr_width": 0.5},
            {**half, "loss_width": 0.12, "lr_width": 0.4},
        ]
    )
    loss, lr = plans.pictures(table)
    assert loss.tables[0].rows[0] == ("extrap plan, the grid's cells", "24%", "1.20")
    assert lr.tables[0].rows[0][-1] == "0.80"
    assert "Gaussian process" not in str(loss.svg)


def test_a_simulated_bed_trains_a_cell_alike_each_time_and_knows_its_truth():
    bed = plans.simulated(3)
    wanted = pd.DataFrame({"width": [39.0, 39.0], "lr": [0.01, 0.01], "seed": [5, 6]})
    assert bed.train is not None
    assert bed.excess is not None
    first, again = bed.train(wanted), bed.train(wanted)
    assert list(first["loss"]) == list(again["loss"])
    assert first["loss"].nunique() == 2
    assert bed.excess(bed.log2_optima) == pytest.approx(0, abs=1e-12)
    assert bed.cells.loc[bed.pilot, "cost"].sum() < 0.06 * bed.budget


def test_halving_pays_less_than_all_its_runs_to_the_end():
    bed = plans.simulated(3)
    kept = plans.halving(bed)
    assert len(kept) == 8 * plans.SEEDS * 3
    assert kept["cost"].sum() < kept.attrs["cost"] < bed.budget
