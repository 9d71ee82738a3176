"""Small studies without random numbers: a sweep with larger runs to judge, and batch studies."""

import itertools
import math
import re

import numpy as np
import pandas as pd
import pytest

from benchmarks.sweeps import simulate
from extrap.analyses.batch_size import BatchStudy, BatchTask, analyse_task
from extrap.analyses.sweep.verdicts import check
from extrap.forecasting import forecast
from extrap.forecasting.backtesting import Backtest, backtest
from extrap.reading import read_runs
from extrap.records import Interval, Measure, Recipe, Runs, StudySpec, TunedRange, Workload
from extrap.reporting.blocks import Columns, Details
from extrap.reporting.tables import Table
from extrap.reporting.text import blocks_text

RATES = tuple(2.0**power for power in range(-10, -3))
WIDTHS = (16, 32, 64, 128, 256)


def plain(text):
    """A text with spaces and minus signs as they are typed."""
    return text.replace("\u00a0", " ").replace("−", "-")


def opened(blocks):
    """All blocks, those within other blocks too."""
    for block in blocks:
        yield block
        if isinstance(block, Columns | Details):
            yield from opened(block.blocks)


def tables_of(blocks):
    """Caption → table, of all tables among blocks."""
    return {block.caption: block for block in opened(blocks) if isinstance(block, Table)}


def text_of(page):
    """All that a page says, closed parts too, with spaces and minus signs as they are typed."""
    return plain(blocks_text(page.blocks, details=True))


def figures(*texts):
    """The numbers that texts state, in order."""
    found = re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?", plain(" ".join(texts)))
    return [float(number) for number in found]


NOTHING = Measure(value=None, ci=Interval(None, None))


def measured(value, half):
    return Measure(value=value, ci=Interval(value - half, value + half))


def true_optimum(width):
    return 2**-6 * (width / 16) ** -0.4


def true_loss(width, lr, seed=0):
    u = np.log2(lr / true_optimum(width))
    wiggle = 0.004 * np.sin(7 * seed + 3 * np.log(width) + 2 * u)
    return (1.6 + 0.6 * (width / 16) ** -0.5) * np.exp(0.03 * u**2 + wiggle)


def sweep_frame(widths=WIDTHS, rates=RATES, seeds=2):
    return simulate(true_loss, width=widths, lr=rates, seed=range(seeds))


def large_frame(*, factor=1.0):
    """Runs at 512 (five rates) and 1024 (the optimum, and the rate of the smallest width)."""
    cells = [(512, true_optimum(512) * 2**u) for u in (-1, -0.5, 0, 0.5, 1)]
    cells += [(1024, true_optimum(1024)), (1024, true_optimum(16))]
    rows = [
        (width, lr, seed, true_loss(width, lr, seed)) for width, lr in cells for seed in (0, 1)
    ]
    table = pd.DataFrame(rows, columns=["width", "lr", "seed", "loss"])
    return table.assign(loss=factor * table["loss"], stage="check")


def as_runs(frame, sizes=("width",), tuned=("lr",)):
    return Runs.from_frame(frame, sizes=sizes, tuned=tuned, source="sweep.csv")


@pytest.fixture(scope="session", autouse=True)
def backtested():
    """Backtest each sweep once, however many pages tell of it."""
    kept: dict[tuple[str, str], Backtest] = {}

    def once(runs, **options):
        key = (runs.data_hash(), repr(options))
        if key not in kept:
            kept[key] = backtest(runs, **options)
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("extrap.analyses.sweep.page.backtest", once)
        yield


@pytest.fixture(scope="session")
def made():
    return forecast(as_runs(sweep_frame()))


def diverging_frame():
    """The sweep, with runs lost far above the optimum: one seed 1.7 octaves on, both 2.7."""
    frame = sweep_frame()
    octaves = np.log2(frame["lr"] / frame["width"].map(true_optimum))
    return frame.assign(loss=frame["loss"].where(octaves < 1.7 + frame["seed"], np.inf))


@pytest.fixture(scope="session")
def diverging():
    """Its forecast, with a model of divergence."""
    return forecast(read_runs(diverging_frame(), size="width", tune="lr"))


@pytest.fixture(scope="session")
def judge(made):
    """Verdicts on the larger runs, their losses multiplied by a factor."""
    return lambda factor=1.0: check(made, as_runs(large_frame(factor=factor)))


def true_b_crit(width, loss):
    return 100 * (width / 32) ** 0.1 * (loss / 2.5) ** -6


def true_noise(width, loss):
    return 3 * true_b_crit(32, loss) * (width / 32) ** 0.02


def best_rate(width, batch):
    wiggle = 0.05 * math.sin(9 * math.log(batch) + width)
    return 2**-7 * (batch / 64) ** 0.5 * (width / 32) ** -0.4 * math.exp(wiggle)


def batch_task(name, *, widths):
    study = StudySpec(
        **{"name": name, "question": "?", "seeds": (0, 1, 2), "target_seeds": (0, 1)},
        workload=Workload(name="bytes-mlp"),
        recipe=Recipe(schedule="constant", warmup=0.0, noise_every=5),
        sizes={"width": widths},
        tune={"lr": TunedRange(low=2**-9, high=2**-5, n=5)},
    )
    steps = {8: 20000, 32: 6000, 64: 4000, 128: 2400, 512: 1200, 2048: 1000}
    batches = {"reference_batch": 64, "noise_batch": 128}
    return BatchTask(study=study, steps=steps, targets=(2.5, 2.2), **batches)


def batch_result(task, *, batch_factor=1.0):
    """Of runs with steps to every loss on a hyperbola, times what a wrong rate costs, a wiggle."""
    rows, curves, losses = [], [], np.geomspace(4.0, 2.0, 60)
    cells = (task.study.sizes["width"], task.batches, range(-2, 3), task.study.seeds)
    for width, batch, octaves, seed in itertools.product(*cells):
        least = 200 * (width / 32) ** -0.2 * np.log(4.1 / losses) ** 2
        u = octaves * math.log(2) + 0.1
        wiggle = 0.02 * math.sin(5 * seed + math.log(batch * width) + u)
        overhead = 1 + batch_factor * true_b_crit(width, losses) / batch
        steps = least * overhead * math.exp(0.3 * u * u + wiggle)
        grid = np.unique(np.geomspace(1, task.steps[batch], 60).round())
        loss = np.exp(np.interp(np.log(grid), np.log(steps), np.log(losses)))
        squared = 0.1 * grid**-0.5
        norms = {
            "grad_sq_norm": squared * (1 + 0.2 * np.sin(np.arange(len(grid)) + seed)),
            "grad_cov_trace": squared * batch_factor * true_noise(width, loss),
        }
        curves.append(pd.DataFrame({"run": len(rows), "step": grid, "loss": loss, **norms}))
        lr = float(f"{best_rate(width, batch) * 2.0**octaves:.4g}")
        rows.append((width, lr, batch, task.steps[batch], seed, loss[-1]))
    columns = ["width", "lr", "batch_size", "steps", "seed", "loss"]
    runs = Runs.from_frame(
        pd.DataFrame(rows, columns=columns).assign(stage="tune"),
        sizes=("width",),
        tuned=("lr", "batch_size", "steps"),
        curves=pd.concat(curves),
        source="sqlite:///batches.db",
    )
    return analyse_task(task, runs)


@pytest.fixture(scope="session")
def one_task():
    """A task at four widths."""
    task = batch_task("bytes", widths=(16, 32, 64, 128))
    study = BatchStudy(name="batches", question="How large a batch is useful?", tasks=(task,))
    return study, (batch_result(task),)


@pytest.fixture(scope="session")
def two_tasks():
    """Two tasks of one width each, their critical batches a factor of 20 apart."""
    tasks = tuple(batch_task(name, widths=(32,)) for name in ("easy", "hard"))
    study = BatchStudy(name="noise", question="Does the noise scale predict it?", tasks=tasks)
    factors = zip(tasks, (0.3, 6.0), strict=True)
    return study, tuple(batch_result(task, batch_factor=factor) for task, factor in factors)
