import math
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

from extrap.analyses.batch_size import BatchTask, analyse_task, rate_law
from extrap.errors import DataError
from extrap.records import Recipe, Runs, StudySpec, TunedRange, Workload

TASK = BatchTask(
    study=StudySpec(
        name="made",
        question="?",
        workload=Workload(name="mine"),
        recipe=Recipe(noise_every=5),
        sizes={"width": (16, 32, 64, 128)},
        tune={"lr": TunedRange(low=2**-8, high=2**-4, n=5)},
        seeds=(0, 1, 2),
    ),
    steps={b: 20_000 for b in (8, 16, 32, 64, 128, 256, 512)},
    targets=(2.5, 2.0),
    reference_batch=64,
    noise_batch=256,
)


def truth(width, target):
    """S_min and B_crit: the latter grows as the loss falls, whatever the width."""
    return 100 * (width / 16) ** -0.3 * (2.5 / target) ** 5, 60 * (2.5 / target) ** 4


def best_rate(width, batch):
    return 2**-6 * (batch / 64) ** 0.5 * (width / 32) ** -0.4


def drawn(task=TASK, *, sd=0.03, seed=0, **at):
    """Runs whose curves cross every target where the truth says."""
    rng = np.random.default_rng(seed)
    rows, curves = [], []
    rates_of = at.get("rates", lambda batch: [task.rate(batch, i) for i in range(5)])
    targets = np.geomspace(4.0, 1.7, 60)
    for width in at.get("widths", task.study.sizes["width"]):
        s_min, b_crit = truth(width, targets)
        for batch, s in product(task.batches, task.study.seeds):
            step = np.unique(np.geomspace(5, task.steps[batch], 50).astype(int))
            for lr in rates_of(batch):
                slower = 1 + 0.3 * math.log2(lr / best_rate(width, batch)) ** 2
                steps = s_min * (1 + b_crit / batch) * slower * math.exp(sd * rng.normal())
                loss = np.exp(np.interp(np.log(step), np.log(steps), np.log(targets)))
                squared = 50 / truth(width, 2.5)[1] * (loss / 2.5) ** 4
                squared = squared * rng.lognormal(0, 0.05, len(step))
                curve = {"run": len(rows), "step": step, "loss": loss, "grad_sq_norm": squared}
                curves.append(pd.DataFrame(curve | {"grad_cov_trace": 50.0}))
                rows.append((float(width), lr, batch, task.steps[batch], s, loss[-1]))
    tuned = ["lr", "batch_size", "steps"]
    frame = pd.DataFrame(rows, columns=["width", *tuned, "seed", "loss"])
    return Runs.from_frame(frame, sizes=["width"], tuned=tuned, curves=pd.concat(curves))


@pytest.fixture(scope="module")
def runs():
    return drawn()


@pytest.fixture(scope="module")
def result(runs):
    return analyse_task(TASK, runs)


def test_every_part_of_the_result_is_that_of_the_truth(result):
    """Over other seeds S_min is off by 2 ± 2 %, and 9 in 10 intervals of B_crit hold it.

    Steps rise by less than a parabola: where no rate is near the best they are 2.5 % too many.
    """
    assert len(result.critical.groups) == 8
    for group in result.critical.groups:
        s_min, b_crit = truth(group.by["width"], group.by["target"])
        assert group.b_crit.value == pytest.approx(b_crit, rel=0.1)
        assert group.s_min.value == pytest.approx(s_min, rel=0.08)
    held = [truth(**g.by)[1] in g.b_crit.ci for g in result.critical.groups]
    assert sum(held) >= 6
    exponents = result.critical.laws["b_crit"].exponents
    assert 0 in exponents["width"].ci
    assert exponents["target"].value == pytest.approx(-4, abs=0.5)
    rate = result.rate_law
    assert rate.exponents["batch_size"].value == pytest.approx(0.5, abs=0.03)
    assert rate.exponents["width"].value == pytest.approx(-0.4, abs=0.05)
    there = rate.at(batch_size=256, width=128)
    assert there.value == pytest.approx(best_rate(128, 256), rel=0.1)
    assert there.pi.lower < there.ci.lower < there.value < there.ci.upper < there.pi.upper
    assert (rate.flags, rate.n_groups) == ((), 28)
    assert len(result.noise) == 8
    # B(s) = 50 / |G|² is the critical batch of the loss it is at: the mean up to there is less
    assert (result.noise["noise_scale"] / result.noise["b_crit"]).between(0.2, 1.05).all()
    assert not result.courses.duplicated(["width", "step"]).any()
    assert set(result.courses["width"]) == {16, 32, 64, 128}


def test_what_was_not_measured_or_reached_is_said(runs):
    """A target nobody reaches, and no moments of gradients; then nothing."""
    quiet = replace(TASK.study, recipe=replace(TASK.study.recipe, noise_every=0))
    found = analyse_task(replace(TASK, targets=(2.5, 0.5), study=quiet), runs)
    assert [g.by["target"] for g in found.critical.groups] == [2.5] * 4
    assert any("0.5" in note for note in found.notes)
    assert found.noise.empty
    with pytest.raises(DataError, match="needs"):
        analyse_task(replace(TASK, targets=(0.5,)), runs)


def test_a_size_that_reaches_a_target_at_one_batch_has_no_pair_and_its_own_course(runs):
    """And a batch at which all runs of a size were lost is no measurement."""
    curves, frame = runs.curves(), runs.to_frame()
    slow = frame.index[(frame["width"] == 16) & (frame["batch_size"] != TASK.noise_batch)]
    lame = curves["run"].isin(slow)
    curves.loc[lame, "loss"] = curves.loc[lame, "loss"].clip(lower=2.6)
    lost = (frame["width"] == 128) & (frame["batch_size"] == 32)
    frame.loc[lost, "status"] = "diverged"
    keep = ~curves["run"].isin(frame.index[lost])
    changed = Runs.from_frame(frame, sizes=runs.sizes, tuned=runs.tuned, curves=curves[keep])
    found = analyse_task(TASK, changed)
    assert {g.by["width"] for g in found.critical.groups} == {32, 64, 128}
    assert set(found.noise["width"]) == {32, 64, 128}
    assert not found.courses.duplicated(["width", "step"]).any()
    assert set(found.courses["width"]) == {16, 32, 64, 128}
    assert all((32 in g.batches) == (g.by["width"] != 128) for g in found.critical.groups)


def test_rates_that_level_off_at_large_batches_scatter_about_their_law():
    """η ∝ √B / (1 + B / 200), one size: .24 about the line through it, errors of .05 included."""
    batches = 2.0 ** np.arange(3, 11)
    rates = 1e-3 * batches**0.5 / (1 + batches / 200)
    table = pd.DataFrame({"batch_size": batches, "width": 16, "lr_opt": rates, "lr_se": 0.05})
    bent = rate_law(table, ["batch_size", "width"])
    straight = rate_law(table.assign(lr_opt=batches**0.5), ["batch_size", "width"])
    _, (squares,), *_ = np.polyfit(np.log(batches), np.log(rates), 1, full=True)
    assert (bent.columns, bent.flags) == (("batch_size",), ())
    assert bent.log_sd == pytest.approx(math.sqrt(squares / 6))
    assert bent.log_sd == pytest.approx(math.hypot(bent.scatter, 0.05))
    pis = [bent.at(batch_size=batch).pi for batch in batches]
    assert all(pi.lower < rate < pi.upper for pi, rate in zip(pis, rates, strict=True))
    assert (straight.flags, straight.scatter) == ((), 0)
    assert straight.exponents["batch_size"].value == pytest.approx(0.5)
    assert straight.at(batch_size=64).value == pytest.approx(8)
    with pytest.raises(DataError, match="3 optima"):
        rate_law(table.iloc[:2], ["batch_size"])
