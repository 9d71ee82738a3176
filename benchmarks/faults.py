"""Larger runs with a known fault, and how often a judge names its cause.

    python -m benchmarks.faults            # the confusion matrix, from the committed tables
    python -m benchmarks.faults --train    # the tables anew: six minutes on two cores

Two clean sweeps, each with larger runs: `bytes-mlp` with Adam as in `studies/metz.py`, and the
teacher with SGD, whose noise scale is known. `faults.csv` has one row a run, `fault_curves.csv`
the held-out curves of the larger runs and of the best rate of the sweeps. The column `fault` is
the truth; a judge never sees it.

| fault | what was done | the right cause |
|---|---|---|
| `rate high`, `rate low` | 2 and 3 octaves off the forecast | `mistuned` |
| `no decay` | the rate stays constant after the warm-up | `recipe` |
| `initialisation` | weights 4 times as large, a quarter as large | `recipe` |
| `too deep` | 12 hidden layers instead of 3 | `recipe` |
| `bf16` | parameters and optimiser in bf16 as well | `recipe` |
| `repeated data` | every byte seen 2, 4 and 8 times instead of .02 | `data` |
| `batch` | 32 and 64 times the batch, with as many examples | `batch` |
| `spike` | 5 and 20 batches in a row with wrong targets | `instability` |
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

import extrap
from benchmarks.rows import Row
from extrap.records import Cell, Recipe, RunResult, Runs, TunedRange, Verdict, Workload

HERE = Path(__file__).parent
TABLE, CURVES = "faults.csv", "fault_curves.csv"
CLEAN = "none"
CAUSES: Mapping[str, str] = {
    CLEAN: "none",
    "rate high": "mistuned",
    "rate low": "mistuned",
    "no decay": "recipe",
    "initialisation": "recipe",
    "too deep": "recipe",
    "bf16": "recipe",
    "repeated data": "data",
    "batch": "batch",
    "spike": "instability",
}
"""Fault → the cause that is right."""

Judge = Callable[[Runs, Runs], Sequence[Verdict]]
"""From a sweep and larger runs to a verdict a run."""


@dataclass(frozen=True, kw_only=True)
class Bed:
    """A workload with its sweep and the sizes of its larger runs.

    Attributes:
        workload: Model and data.
        recipe: Of the sweep.
        widths: Of the sweep.
        larger: Widths to judge at.
        rates: Of the sweep.
        seeds: Of the sweep.
        n_controls: Clean runs at each larger width.
        options: The workload's numbers that count as conditions.
    """

    workload: Workload
    recipe: Recipe
    widths: tuple[int, ...]
    larger: tuple[int, ...]
    rates: tuple[float, ...]
    seeds: tuple[int, ...]
    n_controls: int
    options: tuple[str, ...]

    @property
    def conditions(self) -> tuple[str, ...]:
        """Columns that must not vary; batch and epochs have a part of their own to play."""
        fields = (f for f in self.recipe.in_use() if f not in ("steps", "batch_size", "n_evals"))
        return (*fields, *self.options)


BYTES = Bed(
    workload=Workload(name="bytes-mlp"),
    recipe=Recipe(),
    widths=(16, 24, 32, 48, 64, 96, 128),
    larger=(192, 256),
    rates=TunedRange(low=2**-9.25, high=2**-4.75, n=7).values(),
    seeds=(0, 1, 2, 3),
    n_controls=42,
    options=("depth", "embedding", "context"),
)
TEACHER = Bed(
    workload=Workload(name="teacher", options={"spectrum": 1.0}),
    recipe=Recipe(steps=1024, optimizer="sgd", momentum=0.0, batch_size=32),
    widths=(8, 16, 24, 32, 48, 64, 96, 128),
    larger=(192, 256),
    rates=TunedRange(low=2**-7.5, high=2**-0.5, n=8).values(),
    seeds=(0, 1, 2),
    n_controls=10,
    options=("alpha", "noise", "spectrum"),
)
BEDS: Mapping[str, Bed] = {"bytes-mlp": BYTES, "teacher": TEACHER}
FIRST_SEED = 100
"""Of the larger runs, each of which has its own."""
JITTER = 0.25
"""Octaves by which the rates of all runs that are not mistuned miss the forecast at most."""
N_FAULTY = 6
"""Runs of a fault at each larger width, strengths by turns."""
HELD_OUT_BYTES = 2_000_000
N_DIGITS = 5


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One strength of a fault.

    Attributes:
        name: In `CAUSES`.
        strength: In words.
        octaves: From the forecast rate.
        workload: Instead of the bed's.
        changes: Of the recipe.
    """

    name: str
    strength: str = ""
    octaves: float = 0.0
    workload: Workload | None = None
    changes: Mapping[str, int | float | str] = field(default_factory=dict)


def faults_of(bed: Bed) -> dict[str, tuple[Fault, ...]]:
    """Fault → its strengths."""
    if bed is TEACHER:
        examples = bed.recipe.steps * bed.recipe.batch_size
        sizes = (32 * bed.recipe.batch_size, 64 * bed.recipe.batch_size)
        batches = (
            Fault(
                name="batch",
                strength=f"{size}",
                changes={"batch_size": size, "steps": examples // size},
            )
            for size in sizes
        )
        return {"batch": tuple(batches)}
    seen = bed.recipe.steps * bed.recipe.batch_size
    strengths = [
        *(Fault(name="rate high", strength=f"2^{u}", octaves=u) for u in (2, 3)),
        *(Fault(name="rate low", strength=f"2^{u}", octaves=u) for u in (-2, -3)),
        Fault(name="no decay", changes={"schedule": "constant"}),
        *(
            Fault(name="initialisation", strength=f"{k:g}", changes={"init_scale": k})
            for k in (4.0, 0.25)
        ),
        Fault(name="too deep", workload=_with(bed.workload, depth=12)),
        Fault(name="bf16", changes={"precision": "bf16-pure"}),
        *(
            Fault(
                name="repeated data",
                strength=f"{n} epochs",
                workload=_with(bed.workload, corpus_bytes=HELD_OUT_BYTES + seen // n),
            )
            for n in (2, 4, 8)
        ),
        *(
            Fault(
                name="spike",
                strength=f"{n} steps",
                workload=Workload(
                    name="benchmarks.spiked_bytes:SpikedBytes",
                    options={"steps": bed.recipe.steps, "length": n},
                ),
            )
            for n in (5, 20)
        ),
    ]
    names = dict.fromkeys(fault.name for fault in strengths)
    return {name: tuple(f for f in strengths if f.name == name) for name in names}


class Case(NamedTuple):
    """One sweep and the larger runs to judge by it.

    Attributes:
        sweep: Clean runs, with curves at the best rate of each width.
        runs: Larger runs, with curves.
        truth: Their faults.
        strength: How strong the faults are, in words.
    """

    sweep: Runs
    runs: Runs
    truth: tuple[str, ...]
    strength: tuple[str, ...]


class Confusion(NamedTuple):
    """How a judge did.

    Attributes:
        matrix: Fault × cause that the judge named, counts.
        right: Share of the faulty runs whose cause is the right one.
        silent: Share of the clean runs without a cause.
        right_unread: As `right`, of the faults that no column of the recipe tells.
    """

    matrix: pd.DataFrame
    right: float
    silent: float
    right_unread: float


def load(folder: Path = HERE) -> dict[str, Case]:
    """Workload → its sweep, larger runs and truth, from the committed tables."""
    table = pd.read_csv(folder / TABLE, dtype={"strength": str})
    curves = pd.read_csv(folder / CURVES)
    return {name: _case(bed, table[table["bed"] == name], curves) for name, bed in BEDS.items()}


def judge_each(sweep: Runs, runs: Runs) -> list[Verdict]:
    """`extrap.forecast`, and `extrap.check` of one run at a time, as if it were the only one."""
    made = extrap.forecast(sweep)
    return [verdict for run in singles(runs) for verdict in extrap.check(made, run)]


def singles(runs: Runs) -> Iterator[Runs]:
    """Every run as a table of its own."""
    frame, curves = runs.to_frame(), runs.curves()
    for i in range(len(frame)):
        own = None if curves is None else curves[curves["run"] == i].assign(run=0)
        yield Runs.from_frame(
            frame.iloc[[i]],
            sizes=runs.sizes,
            tuned=runs.tuned,
            conditions=runs.conditions,
            curves=own,
        )


def confusion(judge: Judge = judge_each, *, cases: Mapping[str, Case] | None = None) -> Confusion:
    """Let a judge look at every larger run.

    Args:
        judge: As `judge_each`, the default.
        cases: As `load` gives them, the default.
    """
    truth: list[str] = []
    named: list[str] = []
    for case in (load() if cases is None else cases).values():
        verdicts = judge(case.sweep, case.runs)
        truth += case.truth
        named += [verdict.cause or "none" for verdict in verdicts]
    table = pd.DataFrame({"fault": truth, "cause": named})
    is_right = table["fault"].map(CAUSES) == table["cause"]
    is_clean = table["fault"] == CLEAN
    matrix = pd.crosstab(table["fault"], table["cause"]).reindex(list(CAUSES), fill_value=0)
    is_read = table["fault"].map(CAUSES) == "recipe"
    return Confusion(
        matrix,
        right=float(is_right[~is_clean].mean()),
        silent=float(is_right[is_clean].mean()),
        right_unread=float(is_right[~is_clean & ~is_read].mean()),
    )


def rows(found: Confusion) -> list[Row]:
    """The figures, and the confusion matrix a line a fault."""
    part = "our own runs with faults"
    counts = found.matrix.sum(axis=1)
    n_clean, n_faulty = int(counts[CLEAN]), int(counts.drop(CLEAN).sum())
    return [
        Row(
            part=part,
            figure="cause right",
            target="≥ 80 %",
            reached=f"{found.right:.1%} of {n_faulty}",
            met=bool(found.right >= 0.8 and n_faulty >= 100),
        ),
        Row(
            part=part,
            figure="clean controls silent",
            target="≥ 95 %",
            reached=f"{found.silent:.1%} of {n_clean}",
            met=bool(found.silent >= 0.95 and n_clean >= 100),
        ),
        Row(
            part=part,
            figure="cause right of the faults that no recipe column tells",
            reached=f"{found.right_unread:.1%}",
        ),
        *(
            Row(
                part="confusion matrix",
                figure=f"{fault} (right: {CAUSES[str(fault)]})",
                reached=", ".join(f"{cause} {n}" for cause, n in named.items() if n),
            )
            for fault, named in found.matrix.iterrows()
        ),
    ]


def deviations(cases: Mapping[str, Case]) -> pd.DataFrame:
    """Loss over that of the median control of the same width, less 1: its spread by fault."""
    rows = []
    for case in cases.values():
        frame = case.runs.to_frame().assign(fault=case.truth, strength=case.strength)
        clean = frame[frame["fault"] == CLEAN].groupby("width")["loss"].median()
        rows.append(frame.assign(deviation=frame["loss"] / frame["width"].map(clean) - 1))
    table = pd.concat(rows)
    by = table.groupby(["fault", "strength"], sort=False)
    spread = by["deviation"].quantile([0, 0.5, 1]).unstack()
    spread.columns = ["lowest", "median", "highest"]
    spread["above 1 %"] = by["deviation"].agg(lambda d: (d > 0.01).mean())
    return spread.assign(
        runs=by.size(), diverged=by["status"].agg(lambda s: (s != "complete").sum())
    )


def train_all(folder: Path = HERE) -> None:
    """Train every run and write the tables."""
    tables: list[pd.DataFrame] = []
    for name, bed in BEDS.items():
        sweep = _sweep(bed)
        rates = extrap.forecast(_runs(bed, sweep))
        best = {w: rates.predict_tuned({"width": w})["lr"].value for w in bed.larger}
        larger = pd.concat([_controls(bed, best), *_faulty(bed, best)])
        tables.append(pd.concat([sweep, larger]).assign(bed=name))
    _write(pd.concat(tables), folder)


def _write(table: pd.DataFrame, folder: Path) -> None:
    """Both tables; runs are numbered through."""
    table = table.reset_index(drop=True)
    table.insert(0, "run", table.index)
    kept = table[table["stage"].eq("check") | _is_best(table)]
    curves = pd.DataFrame(
        [(run, *point) for run, curve in kept["curve"].items() for point in curve],
        columns=["run", "step", "loss"],
    )
    numbers = f"%.{N_DIGITS}g"
    table.drop(columns="curve").to_csv(folder / TABLE, index=False, float_format="%.7g")
    curves.to_csv(folder / CURVES, index=False, float_format=numbers)


def _with(workload: Workload, **options: int) -> Workload:
    return replace(workload, options={**workload.options, **options})


def _case(bed: Bed, table: pd.DataFrame, curves: pd.DataFrame) -> Case:
    stages = [table[table["stage"] == stage].reset_index(drop=True) for stage in ("tune", "check")]
    sweep, runs = (_runs(bed, stage, curves) for stage in stages)
    return Case(sweep, runs, *(tuple(stages[1][c].fillna("")) for c in ("fault", "strength")))


def _runs(bed: Bed, table: pd.DataFrame, curves: pd.DataFrame | None = None) -> Runs:
    """A table of one stage as runs, without the truth."""
    hidden = ["fault", "strength", "bed", "run", "workload", "curve"]
    frame = table.reset_index(drop=True)
    if curves is not None:
        row = pd.Series(frame.index, index=frame["run"])
        curves = curves[curves["run"].isin(row.index)]
        curves = curves.assign(run=curves["run"].map(row)).reset_index(drop=True)
    return Runs.from_frame(
        frame.drop(columns=hidden, errors="ignore"),
        sizes=("width",),
        tuned=("lr",),
        conditions=bed.conditions,
        curves=curves,
        source=bed.workload.name,
    )


def _is_best(table: pd.DataFrame) -> pd.Series:
    """Runs of a sweep at the best rate of their width."""
    sweep = table[table["stage"] == "tune"]
    means = sweep.groupby(["bed", "width", "lr"])["loss"].mean()
    best = set(means.groupby(level=["bed", "width"]).idxmin())
    keys = zip(table["bed"], table["width"], table["lr"], strict=True)
    return table["stage"].eq("tune") & pd.Series([k in best for k in keys], index=table.index)


def _sweep(bed: Bed) -> pd.DataFrame:
    cells = {
        width: [Cell.of({"width": width}, {"lr": lr}, s) for lr in bed.rates for s in bed.seeds]
        for width in bed.widths
    }
    return _train(bed, Fault(name=CLEAN), cells).assign(stage="tune")


def _controls(bed: Bed, best: Mapping[int, float]) -> pd.DataFrame:
    return _larger(bed, Fault(name=CLEAN), best, bed.n_controls, first_seed=FIRST_SEED)


def _faulty(bed: Bed, best: Mapping[int, float]) -> Iterator[pd.DataFrame]:
    first = FIRST_SEED + bed.n_controls * len(bed.larger)
    for strengths in faults_of(bed).values():
        n_each = N_FAULTY // len(strengths)
        for fault in strengths:
            yield _larger(bed, fault, best, n_each, first_seed=first)
            first += n_each * len(bed.larger)


def _larger(
    bed: Bed, fault: Fault, best: Mapping[int, float], n_each: int, *, first_seed: int
) -> pd.DataFrame:
    """Runs at the larger widths, each with its own seed and slightly off the forecast rate."""
    cells = {}
    for i, width in enumerate(bed.larger):
        seeds = range(first_seed + i * n_each, first_seed + (i + 1) * n_each)
        cells[width] = [
            Cell.of({"width": width}, {"lr": best[width] * 2 ** (fault.octaves + _jitter(s))}, s)
            for s in seeds
        ]
    return _train(bed, fault, cells).assign(stage="check")


def _jitter(seed: int) -> float:
    return float(np.random.default_rng(seed).uniform(-JITTER, JITTER))


def _train(bed: Bed, fault: Fault, cells: Mapping[int, Sequence[Cell]]) -> pd.DataFrame:
    """Train runs of one fault, a pack a width, and write down what a judge may know."""
    from extrap.training import Pack, train
    from extrap.workloads import load_workload

    source = fault.workload or bed.workload
    recipe = replace(bed.recipe, **fault.changes)
    loaded = load_workload(source)
    options = {k: v for k, v in loaded.fingerprint.items() if k in bed.options}
    rows = []
    began = time.perf_counter()
    for width, own in cells.items():
        pack = Pack(workload=loaded, size={"width": width}, recipe=recipe, cells=tuple(own))
        for result in train(pack):
            rows.append({**_row(bed, recipe, result), **options})
    took = time.perf_counter() - began
    sys.stderr.write(
        f"{source.name}, {fault.name} {fault.strength}: {len(rows)} runs, {took:.0f} s\n"
    )
    return pd.DataFrame(rows).assign(
        workload=source.name, fault=fault.name, strength=fault.strength
    )


def _row(bed: Bed, recipe: Recipe, result: RunResult) -> dict[str, object]:
    known = asdict(recipe)
    lr = dict(result.cell.tuned)["lr"]
    return {
        "width": int(dict(result.cell.size)["width"]),
        "lr": lr,
        "seed": result.cell.seed,
        "status": result.status,
        "loss": math.nan if result.loss is None else result.loss,
        "steps": recipe.steps,
        "batch_size": recipe.batch_size,
        "noise_scale": _noise_scale(recipe, result) if bed is TEACHER else math.nan,
        "epochs": result.epochs,
        **{name: known[name] for name in recipe.in_use() if name in bed.conditions},
        "curve": result.curve,
    }


def _noise_scale(recipe: Recipe, result: RunResult) -> float:
    """Of the teacher, halfway through a run."""
    from extrap.training.schedules import multiplier
    from extrap.workloads.teacher import Teacher
    from tests.truths import expected_noise_scale

    teacher = Teacher({**TEACHER.workload.options, "n_examples": 1})
    lr = dict(result.cell.tuned)["lr"]
    rates = [lr * multiplier(recipe, step) for step in range(recipe.steps // 2)]
    size = dict(result.cell.size)
    return expected_noise_scale(teacher, size, rates=rates, batch_size=recipe.batch_size)


def main() -> None:
    """Train if asked to; print what the faults cost and how the judge does."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", action="store_true", help="make the tables anew")
    arguments = parser.parse_args()
    say = sys.stdout.write
    if arguments.train:
        began = time.perf_counter()
        train_all()
        say(f"trained in {time.perf_counter() - began:.0f} s\n\n")
    cases = load()
    say(f"{deviations(cases).to_string(float_format='{:.3f}'.format)}\n\n")
    found = confusion(cases=cases)
    say(f"{found.matrix.to_string()}\n\n")
    say(f"cause right {found.right:.1%}, controls silent {found.silent:.1%}\n")


if __name__ == "__main__":
    main()
