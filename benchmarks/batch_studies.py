"""The batch studies: noise scale against critical batch, rates, growth, cost.

    python -m benchmarks.batch_studies            # from the committed tables
    python -m benchmarks.batch_studies --train    # studies/batch_size.py, noise_scale.py anew

Beside each study lie the tables that its report writes: tuned steps at every batch, mean noise
scales beside critical batches, noise over training.
The cost of measuring is timed here.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from benchmarks.rows import Row
from extrap.analyses.batch_size import Agreement, BatchLaw, agreement, growth, rate_law
from extrap.records import Cell, Measure, Recipe, Workload

TABLES = Path(__file__).parents[1] / "studies"
STUDIES = ("batch_size", "noise_scale")
COSTS = ((16, 128, 18), (64, 128, 18), (64, 512, 6))
"""Width, batch size, runs at once."""
EVERY, N_TIMED, N_ROUNDS = 20, 40, 11


@dataclass(frozen=True, kw_only=True)
class Found:
    """What the tables say, and what measuring costs.

    Attributes:
        agreement: Of mean noise scales and critical batches in the study of several tasks.
        same_task: The same in the study of one task at several sizes.
        spans: Width → factor between the first window of a training and the last.
        rate: Law of the best rate over batch and width.
        costs: (width, batch, runs) → time with measuring over time without.
    """

    agreement: Agreement
    same_task: Agreement
    spans: dict[float, Measure]
    rate: BatchLaw
    costs: dict[tuple[int, int, int], float]


def measure(folder: Path = TABLES) -> Found:
    """Read the tables of both studies; time the trainer."""
    same, agreed = (agreement(_table(folder, study, "noise")) for study in STUDIES)
    courses = _table(folder, "batch_size", "courses")
    rates = _table(folder, "batch_size", "rates")
    by_width = {float(width): rows for width, rows in courses.groupby("width")}
    assert agreed is not None
    assert same is not None
    return Found(
        agreement=agreed,
        same_task=same,
        spans={width: growth(rows.sort_values("step")) for width, rows in by_width.items()},
        rate=rate_law(rates, ["batch_size", "width"]),
        costs={case: _cost(*case) for case in COSTS},
    )


def _table(folder: Path, study: str, name: str) -> pd.DataFrame:
    return pd.read_csv(folder / f"{study}.{name}.csv")


def _cost(width: int, batch_size: int, n_runs: int) -> float:
    """Median ratio of neighbouring stretches with and without measuring, one thread."""
    import torch

    from extrap.training import Pack
    from extrap.training.layouts import threads, without_denormals
    from extrap.training.stacks import Stack
    from extrap.workloads import load_workload

    size = {"width": float(width)}
    cells = tuple(Cell.of(size, {"lr": 2**-8 * (1 + i / 100)}, 0) for i in range(n_runs))
    workload = load_workload(Workload(name="bytes-mlp"))

    def stack(every: int) -> Stack:
        recipe = Recipe(batch_size=batch_size, noise_every=every)
        pack = Pack(workload=workload, size=size, recipe=recipe, cells=cells)
        return Stack(pack, torch.device("cpu"))

    ratios = []
    with threads(1), without_denormals():
        ways = (stack(0), stack(EVERY))
        for start in range(0, N_TIMED * (N_ROUNDS + 1), N_TIMED):
            order = ways if start // N_TIMED % 2 else ways[::-1]
            seconds = {}
            for way in order:
                began = time.perf_counter()
                way.advance(start, start + N_TIMED)
                seconds[way] = time.perf_counter() - began
            ratios.append(seconds[ways[1]] / seconds[ways[0]])
    return statistics.median(ratios[1:])


def rows(found: Found) -> list[Row]:
    """The figures."""
    return [*_noise_rows(found), *_rate_rows(found), *_cost_rows(found)]


def _noise_rows(found: Found) -> list[Row]:
    part, agreed = "noise scale, our own runs", found.agreement
    r_squared = agreed.r_squared or 0.0
    same = found.same_task
    spans = ", ".join(f"{w:g}: {_measured(m)}" for w, m in sorted(found.spans.items()))
    return [
        Row(
            part=part,
            figure="mean noise scale against critical batch: r² of the logs",
            beat="McCandlish et al.: 80 % over six decades",
            target="≥ .8, ≥ 8 pairs, ≥ 3 decades",
            reached=f"{r_squared:.2f}, {agreed.n_pairs} pairs, {agreed.decades:.1f} decades",
            met=r_squared >= 0.8 and agreed.n_pairs >= 8 and agreed.decades >= 3,
            note=f"{agreed.n_left_out} pairs have no point estimate of one of the two. Critical "
            f"over noise is {agreed.ratio:.2f} on average: the two "
            "are not the same thing.",
        ),
        Row(
            part=part,
            figure="the worst pair differs by a factor of",
            target="≤ 10",
            reached=f"{agreed.largest_factor:.1f}",
            met=agreed.largest_factor <= 10,
            note=f"One task, five widths, three targets: {same.n_pairs} pairs within a factor of "
            f"{same.largest_factor:.1f}, r² {same.r_squared or 0:.2f} over {same.decades:.1f} "
            "decades.",
        ),
        Row(
            part=part,
            figure="noise scale from the first window of a training to its last, by width",
            beat="published: by an order of magnitude or more, in longer trainings",
            reached=spans,
        ),
    ]


def _rate_rows(found: Found) -> list[Row]:
    exponent = found.rate.exponents["batch_size"]
    return [
        Row(
            part="steps to a loss, our own runs",
            figure="best rate of Adam against batch: exponent over all widths",
            beat="square root",
            target="interval given; square root covered or explained",
            reached=_measured(exponent),
            note=f"The law of an optimum says: {', '.join(found.rate.flags) or 'nothing'}.",
            met=None,
        )
    ]


def _cost_rows(found: Found) -> list[Row]:
    worst = max(found.costs.values())
    return [
        Row(
            part="cost",
            figure=f"measuring the noise of every run of a pack, every {EVERY}th step",
            target="≤ 5 % of a step",
            reached=", ".join(
                f"width {w} batch {b} {ratio - 1:+.1%}" for (w, b, _), ratio in found.costs.items()
            ),
            met=worst <= 1.05,
        )
    ]


def _measured(measure: Measure) -> str:
    if measure.value is None:
        return "unknown"
    low, high = ("open" if end is None else f"{end:.3g}" for end in measure.ci)
    return f"{measure.value:.3g} ({low} to {high})"


def train_all(folder: Path = TABLES) -> None:
    """Run both studies anew and keep their tables."""
    from extrap.study import open_study, run

    with tempfile.TemporaryDirectory() as scratch:
        for name in STUDIES:
            storage = f"sqlite:///{scratch}/{name}.db"
            run(open_study(TABLES / f"{name}.py"), storage=storage, reports=scratch)
            keep_tables(Path(scratch).glob(f"{name}.*.csv"), folder)


def keep_tables(tables: Iterable[Path], folder: Path = TABLES) -> None:
    """Copy the tables of a report, numbers rounded."""
    for path in tables:
        pd.read_csv(path).to_csv(folder / path.name, index=False, float_format="%.5g")


def main() -> None:
    """Train if asked to; print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", action="store_true", help="make the tables anew")
    if parser.parse_args().train:
        train_all()
    for line in rows(measure()):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
