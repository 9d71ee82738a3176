from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from extrap.batching import analyse_task, check_front, forecast_front
from extrap.errors import DataError
from extrap.records import BatchTask, Recipe, Runs, StudySpec, TunedRange, Workload

TASK = BatchTask(
    study=StudySpec(
        name="made",
        question="?",
        workload=Workload(name="teacher"),
        recipe=Recipe(noise_every=5),
        sizes={"width": (16, 32, 64, 128)},
        tune={"lr": TunedRange(low=2**-8, high=2**-4, n=5)},
        seeds=(0, 1, 2),
    ),
    steps={b: 20_000 for b in (8, 16, 32, 64, 128, 256, 512)},
    targets=(2.5, 2.0),
    reference_batch=64,
    held_out=(32,),
    at={"width": 256},
    noise_batch=256,
)


def truth(width: float, target: float) -> tuple[float, float]:
    """S_min and B_crit: the latter grows as the loss falls, whatever the width."""
    return 100 * (width / 16) ** -0.3 * (2.5 / target) ** 5, 60 * (2.5 / target) ** 4


def best_rate(width: float, batch: float) -> float:
    return 2**-6 * (batch / 64) ** 0.5 * (width / 32) ** -0.4


def drawn(task: BatchTask = TASK, *, sd: float = 0.03, seed: int = 0, **at: Any) -> Runs:
    """Runs whose curves cross every target where the truth says."""
    rng = np.random.default_rng(seed)
    rows, curves = [], []
    sizes = [dict(at["size"])] if at else [{"width": w} for w in task.study.sizes["width"]]
    for size in sizes:
        width = size["width"]
        for batch in task.batches:
            rates = at["rates"](batch) if at else [task.rate(batch, i) for i in range(5)]
            for lr in rates:
                slower = 1 + 0.3 * math.log2(lr / best_rate(width, batch)) ** 2
                for s in task.study.seeds:
                    noise = slower * math.exp(sd * rng.standard_normal())
                    step = np.unique(np.geomspace(5, task.steps[batch], 50).astype(int))
                    points = []
                    for target in np.geomspace(4.0, 1.7, 60):
                        s_min, b_crit = truth(width, target)
                        points.append((s_min * (1 + b_crit / batch) * noise, target))
                    at_steps, losses = np.log(np.array(points)).T
                    loss = np.exp(np.interp(np.log(step), at_steps, losses))
                    squared = 50 / truth(width, 2.5)[1] * (loss / 2.5) ** 4
                    curves.append(
                        pd.DataFrame(
                            {
                                "run": len(rows),
                                "step": step,
                                "loss": loss,
                                "grad_sq_norm": squared * rng.lognormal(0, 0.05, len(step)),
                                "grad_cov_trace": 50.0,
                            }
                        )
                    )
                    rows.append(
                        {
                            **size,
                            "lr": lr,
                            "batch_size": batch,
                            "steps": task.steps[batch],
                            "seed": s,
                            "loss": loss[-1],
                        }
                    )
    return Runs.from_frame(
        pd.DataFrame(rows),
        sizes=["width"],
        tuned=["lr", "batch_size", "steps"],
        curves=pd.concat(curves),
    )


@pytest.fixture(scope="module")
def runs():
    return drawn()


@pytest.fixture(scope="module")
def result(runs: Runs):
    return analyse_task(TASK, runs)


def test_critical_batches_are_those_of_the_truth(result: Any) -> None:
    assert len(result.critical.groups) == 8
    for group in result.critical.groups:
        s_min, b_crit = truth(group.by["width"], group.by["target"])
        assert b_crit in group.b_crit.ci
        assert s_min in group.s_min.ci
        assert group.b_crit.value == pytest.approx(b_crit, rel=0.15)
    exponents = result.critical.laws["b_crit"].exponents
    assert 0 in exponents["width"].ci
    assert exponents["target"].value == pytest.approx(-4, abs=0.5)


def test_held_out_batches_take_no_part_and_are_predicted(result: Any) -> None:
    assert all(32 not in group.batches for group in result.critical.groups)
    assert len(result.held_out) == 8
    error = result.held_out["steps"] / result.held_out["predicted"] - 1
    assert error.abs().median() < 0.05


def test_rates_go_as_the_square_root_and_fall_with_the_width(result: Any) -> None:
    assert set(result.rate_laws) == {(16.0,), (32.0,), (64.0,), (128.0,)}
    for law in result.rate_laws.values():
        assert 0.5 in law.exponent.ci
    assert result.joint.exponents["batch_size"].value == pytest.approx(0.5, abs=0.06)
    assert result.joint.exponents["width"].value == pytest.approx(-0.4, abs=0.1)


def test_noise_up_to_a_target_stands_beside_its_critical_batch(result: Any) -> None:
    assert len(result.noise) == 8
    # B(s) = 50 / |G|² is the critical batch of the loss it is at: the mean up to there is less
    ratio = result.noise["noise_scale"] / result.noise["b_crit"]
    assert ratio.between(0.2, 1.05).all()
    assert not result.courses.duplicated(["width", "step"]).any()
    assert set(result.courses["width"]) == {16, 32, 64, 128}


def test_front_at_a_larger_size_is_forecast_and_counted(result: Any) -> None:
    front = forecast_front(result)
    assert front is not None
    assert front.rates[64] == pytest.approx(best_rate(256, 64), rel=0.15)
    for row in front.table.to_dict("records"):
        s_min, b_crit = truth(256, row["target"])
        true_steps = s_min * (1 + b_crit / row["batch_size"])
        assert row["lower"] < true_steps < row["upper"]
        assert row["predicted"] == pytest.approx(true_steps, rel=0.15)
    for joint in front.recommended:
        s_min, b_crit = truth(256, joint.target)
        assert joint.batch.value == pytest.approx(1.2 * 8 + 0.2 * b_crit, rel=0.1)
        assert joint.lr.pi.lower < best_rate(256, joint.batch.value) < joint.lr.pi.upper
        assert joint.steps.value == pytest.approx(
            s_min * (1 + b_crit / joint.batch.value), rel=0.15
        )
    factors = (0.5, 1.0, 2.0)
    runs = drawn(
        size={"width": 256.0},
        rates=lambda b: [float(f"{front.rates[b] * f:.4g}") for f in factors],
    )
    checked = check_front(front, runs, factors=factors)
    assert (checked["status"] == "reached").all()
    assert (checked["steps"] / checked["predicted"] - 1).abs().median() < 0.1
    assert checked["best_factor"].eq(1.0).mean() > 0.8  # the forecast rate is about the best
    cut = check_front(front, runs.of_stage("check"), factors=factors)
    assert set(cut["status"]) == {"not run"}


def test_a_target_that_nobody_reaches_is_said(runs: Runs) -> None:
    found = analyse_task(replace(TASK, targets=(2.5, 0.5)), runs)
    assert [g.by["target"] for g in found.critical.groups] == [2.5] * 4
    assert any("0.5" in note for note in found.notes)
    with pytest.raises(DataError, match="needs"):
        analyse_task(replace(TASK, targets=(0.5,)), runs)


def test_an_optimum_at_the_edge_is_said() -> None:
    ranges = {"lr": TunedRange(low=2**-4, high=2**-2, n=5)}
    task = replace(TASK, study=replace(TASK.study, tune=ranges), targets=(2.5,))
    found = analyse_task(task, drawn(task))
    assert any("edge" in note and "smaller" in note for note in found.notes)


def test_no_noise_is_reported_where_none_was_measured(runs: Runs) -> None:
    recipe = replace(TASK.study.recipe, noise_every=0)
    task = replace(TASK, study=replace(TASK.study, recipe=recipe))
    assert analyse_task(task, runs).noise.empty


def test_no_front_without_a_larger_size(runs: Runs) -> None:
    assert forecast_front(analyse_task(replace(TASK, at={}), runs)) is None


def test_a_size_that_reaches_a_target_at_one_batch_has_no_pair_and_its_own_course(
    runs: Runs,
) -> None:
    curves = runs.curves()
    assert curves is not None
    frame = runs.to_frame()
    slow = frame.index[(frame["width"] == 16) & (frame["batch_size"] != TASK.noise_batch)]
    lame = curves["run"].isin(slow)
    curves.loc[lame, "loss"] = curves.loc[lame, "loss"].clip(lower=2.6)
    changed = Runs.from_frame(frame, sizes=runs.sizes, tuned=runs.tuned, curves=curves)
    found = analyse_task(TASK, changed)
    assert {g.by["width"] for g in found.critical.groups} == {32, 64, 128}
    assert set(found.noise["width"]) == {32, 64, 128}
    assert not found.courses.duplicated(["width", "step"]).any()
    assert set(found.courses["width"]) == {16, 32, 64, 128}


def test_a_held_out_batch_at_which_all_runs_were_lost_is_no_measurement(runs: Runs) -> None:
    frame, curves = runs.to_frame(), runs.curves()
    assert curves is not None
    lost = (frame["width"] == 16) & (frame["batch_size"] == 32)
    frame.loc[lost, "status"] = "diverged"
    keep = ~curves["run"].isin(frame.index[lost])
    changed = Runs.from_frame(frame, sizes=runs.sizes, tuned=runs.tuned, curves=curves[keep])
    found = analyse_task(TASK, changed)
    assert len(found.held_out) == 6
    assert found.held_out["steps"].notna().all()
