"""One surface beside today's estimators, on the same sweeps of a known truth.

    python -m benchmarks.one_surface [--n 200] [--draws 1] [--only KIND …] [--workers 2]

| kind | sweep |
|---|---|
| straight, curved, kink, step | of `benchmarks.interval_draws`, 7 values an octave apart |
| two columns | curved, over two size columns |
| cliff | runs diverge .3 to 1.5 octaves above the optimum |
| coarse, noisy | three values, four octaves apart; noise of 8 % |
| leaves the grid, largest diverged | one grid for all sizes |
| random, tpe | 60 runs of five sizes, by random search or Optuna's sampler |
| random cliff | the same, runs diverge 1 to 3 octaves above the optimum |
| ridge grid, ridge random, flat grid | two tuned values: a ridge, or one that does nothing |

Scored are the 90 % interval of the optimum (width, and 20 times what the truth lies outside, in
octaves) and the true excess of the recommended value at 2, 4 and 16 times the largest size. A
refusal is charged a width of 6 octaves and the cost of the largest size's best value. Ratios are
of means over the same sweeps, with a bootstrap interval over sweeps.

References:
    Gneiting, Raftery (2007), Strictly proper scoring rules, JASA 102, Eq. 43 (interval score).
"""

from __future__ import annotations

import argparse
import itertools
import math
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import extrap
from benchmarks.interval_draws import draw_world
from benchmarks.page import print_rows
from benchmarks.rows import Row
from benchmarks.sweeps import SimulatedSweep, World, log_uniform
from extrap.fitting.one_surface.answers import answer
from extrap.fitting.one_surface.draws import draw
from extrap.fitting.one_surface.surface import fit_surfaces
from extrap.fitting.one_surface.sweep_arrays import arrays_of

Array = np.ndarray
RATIOS, LEVEL = (2.0, 4.0, 16.0), 0.9
REFUSED_WIDTH, MOST = 6.0, 1.0
"""Octaves that a refusal is charged, and log excess of a run at most, diverged or not."""
N_BOOTSTRAPS = 1000


@dataclass(frozen=True, kw_only=True)
class Case:
    """A sweep with its truth.

    Attributes:
        table: Runs.
        sizes, tuned: Its columns.
        targets: log2 of sizes, (T, C).
        best: Optima there, log2, (T, D).
        kept: Optimum at the largest size, log2, (D,).
        cost: Number of a target and log2 values → true log excess.
    """

    table: pd.DataFrame
    sizes: tuple[str, ...]
    tuned: tuple[str, ...]
    targets: Array
    best: Array
    kept: Array
    cost: Callable[[int, Array], float]


def of_world(world: World, table: pd.DataFrame, cliff: float = math.inf) -> Case:
    """A sweep over one tuned value; runs more than `cliff` octaves above the optimum diverge."""
    targets = np.vstack([world.beyond(ratio) for ratio in RATIOS])
    best = world.optimum(targets)[:, None]
    sizes = ("x", "z")[: targets.shape[1]]
    logs = np.log2(table[list(sizes)].to_numpy(dtype=float))
    off = np.log2(table["lr"].to_numpy()) - world.optimum(logs)
    table = table.assign(loss=np.where(off > cliff, math.inf, table["loss"]))

    def cost(i: int, values: Array) -> float:
        octaves = float(values[0] - best[i, 0])
        return MOST if octaves > cliff else min(float(world.excess(octaves)), MOST)

    kept = world.optimum(world.doublings.max(axis=0)[None])
    return Case(
        table=table,
        sizes=sizes,
        tuned=("lr",),
        targets=targets,
        best=best,
        kept=kept,
        cost=cost,
    )


def gridded(kind: str, rng: np.random.Generator) -> Case:
    """The kinds with one tuned value on a grid."""
    if kind == "two columns":
        world = draw_world(rng, n_sizes=4, n_columns=2, optimum="curved")
        return of_world(world, SimulatedSweep(world, rng).table)
    shape = kind if kind in ("curved", "kink", "step") else "straight"
    fixed = {"noise": 0.08} if kind == "noisy" else {}
    world = draw_world(rng, n_sizes=int(rng.integers(4, 8)), optimum=shape, **fixed)
    best, cliff, lowest = world.optimum(world.doublings), math.inf, None
    if kind == "leaves the grid":
        lowest = best[-1] + rng.uniform(-0.2, 1.0)
    if kind == "largest diverged":
        cliff = rng.uniform(0.5, 2.0)
        lowest = best[-1] + cliff + rng.uniform(0.05, 0.5)
    if kind == "cliff":
        cliff = rng.uniform(0.3, 1.5)
    table = SimulatedSweep(world, rng, lowest=lowest).table
    if kind == "coarse":
        step = np.round(np.log2(table["lr"]) - np.log2(table.groupby("x")["lr"].transform("min")))
        table = table[step.isin([0, 3, 6])].reset_index(drop=True)
    return of_world(world, table, cliff)


def sampled(kind: str, rng: np.random.Generator) -> Case:
    """The kinds with two tuned values, and those of samplers; another family of curves.

    A column costs k/2 u² e^(g u), or k (√(1 + u²) − 1) below the optimum and k/2 u² e^(u/4) above.
    """
    n_tuned = 2 if "ridge" in kind or "flat" in kind else 1
    tuned, low, high = ("lr", "wd")[:n_tuned], np.array([-10.0, -8.0]), np.array([-1.0, 0.0])
    k = np.exp(rng.uniform(np.log(0.01), np.log(0.06), n_tuned))
    k[1:] = 1e-5 if "flat" in kind else k[1:]
    g, is_soft = rng.uniform(0, 0.25, n_tuned), rng.integers(0, 2, n_tuned)
    slope = rng.uniform([-0.8, -0.3], [0.0, 0.3])[:n_tuned]
    start = np.array([-6.0, -4.0])[:n_tuned] + rng.uniform(-1.5, 1.5, n_tuned)
    cliff = rng.uniform(1.0, 3.0) if "cliff" in kind else math.inf
    turn = np.array([[1.0, 0.6], [-0.3, 1.0]]) if "ridge" in kind else np.eye(n_tuned)
    floor, height, power = rng.uniform(0.8, 1.8), rng.uniform(0.8, 2.5), rng.uniform(0.2, 0.6)
    noise = log_uniform(rng, 0.003, 0.02)

    def cost(s: float, values: Array) -> float:
        u = values - start - slope * s
        if u[0] > cliff:
            return math.inf
        u = turn @ u
        above = 0.5 * k * u**2 * np.exp(0.25 * u)
        soft = np.where(u < 0, k * (np.sqrt(1 + u**2) - 1), above)
        return float(np.where(is_soft, soft, 0.5 * k * u**2 * np.exp(g * np.minimum(u, 8))).sum())

    def run(s: float, values: Array, seed: int) -> dict[str, float]:
        excess = cost(s, values)
        scatter = noise * (1 + 3 * min(excess, 1.0)) * rng.normal()
        best = math.log(floor + height * 2 ** (-power * s))
        loss = math.exp(best + min(excess, 1.5) + scatter) if math.isfinite(excess) else math.inf
        return {
            "x": 2.0**s,
            **dict(zip(tuned, 2.0**values, strict=True)),
            "seed": seed,
            "loss": loss,
        }

    sizes, rows = np.arange(5.0), []
    if "grid" in kind:
        for s in sizes:
            middle = np.round(start + slope * s) + rng.uniform(-0.5, 0.5)
            for a, b in itertools.product(range(-3, 3), range(-2, 3)):
                rows.append(run(s, middle + np.array([a, 1.5 * b]), 0))
    elif kind == "tpe":
        rows = _by_tpe(run, sizes, low[0], high[0], int(rng.integers(1 << 30)))
    else:
        for s, i in itertools.product(sizes, range(12 if n_tuned == 1 else 30)):
            rows.append(run(s, rng.uniform(low[:n_tuned], high[:n_tuned]), i % 3))
    at = [sizes[-1] + math.log2(ratio) for ratio in RATIOS]
    return Case(
        table=pd.DataFrame(rows),
        sizes=("x",),
        tuned=tuned,
        targets=np.array(at)[:, None],
        best=np.array([start + slope * s for s in at]),
        kept=start + slope * sizes[-1],
        cost=lambda i, values: min(cost(at[i], values), MOST),
    )


def _by_tpe(
    run: Callable[[float, Array, int], dict[str, float]],
    sizes: Array,
    low: float,
    high: float,
    seed: int,
) -> list[dict[str, float]]:
    """One study in which the size is drawn too, as a user would write it."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study, rows = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed)), []
    for i in range(60):
        trial = study.ask()
        s = trial.suggest_categorical("x", sizes.tolist())
        octaves = math.log2(trial.suggest_float("lr", 2.0**low, 2.0**high, log=True))
        rows.append(run(s, np.array([octaves]), i % 3))
        study.tell(trial, rows[-1]["loss"])
    return rows


GRIDDED = (
    *("straight", "curved", "kink", "step", "two columns", "cliff", "coarse", "noisy"),
    *("leaves the grid", "largest diverged"),
)
SAMPLED = ("random", "random cliff", "tpe", "ridge grid", "ridge random", "flat grid")


def today(case: Case) -> list[dict[str, Any]]:
    """Today's estimators: of each target the values to use and the intervals, log2."""
    try:
        made = extrap.forecast(case.table, size=case.sizes, tune=case.tuned, level=LEVEL)
    except extrap.ExtrapError:
        return [{} for _ in case.targets]
    found = []
    for target in case.targets:
        point = made.at(**dict(zip(case.sizes, map(float, 2.0**target), strict=True)))
        # a value that is said to be flat is left at the middle of the runs
        middle = {name: float(np.exp(np.log(case.table[name]).median())) for name in case.tuned}
        values = {name: point.recommended.get(name, middle[name]) for name in case.tuned}
        pi = {name: estimate.pi for name, estimate in point.tuned.items()}
        if None in values.values():
            found.append({})
            continue
        known = [pi.get(name) for name in case.tuned]
        ends = [None if one is None or None in one else np.log2([*one]) for one in known]
        found.append({"values": np.log2([values[name] for name in case.tuned]), "ends": ends})
    return found


def surface(case: Case, number: int) -> list[dict[str, Any]]:
    """The same by one surface."""
    runs = extrap.read_runs(case.table, size=case.sizes, tune=case.tuned)
    try:
        surfaces, weights = fit_surfaces(arrays_of(runs))
    except extrap.ExtrapError:
        return [{} for _ in case.targets]
    drawn, _ = draw(surfaces, weights, case.targets, rng=np.random.default_rng(number))
    found = []
    for draws in drawn:
        advised = answer(draws, level=LEVEL)
        ends = [np.array(pair) for pair in zip(advised.low, advised.high, strict=True)]
        said = {"values": advised.values, "ends": ends, "predicted": advised.mistuned}
        found.append({} if advised.refusal else said)
    return found


def measure(task: tuple[str, int], *, draws: int) -> list[dict[str, Any]]:
    """Scores of both at every target of one sweep."""
    warnings.simplefilter("ignore")
    kind, number = task
    rng = np.random.default_rng([draws, number])
    case = (gridded if kind in GRIDDED else sampled)(kind, rng)
    rows = []
    for who, answers in (("today", today(case)), ("surface", surface(case, number))):
        for i, (ratio, said) in enumerate(zip(RATIOS, answers, strict=True)):
            row = {"kind": kind, "number": number, "who": who, "ratio": ratio}
            row |= {"refused": not said, "cost": case.cost(i, said.get("values", case.kept))}
            row |= _scored(case.best[i], said) | {"predicted": said.get("predicted")}
            rows.append(row)
    return rows


def _scored(best: Array, said: Mapping[str, Any]) -> dict[str, float]:
    """Interval score, whether it holds, width and error of the first tuned value."""
    ends = said["ends"][0] if said else None
    if ends is None:
        return {"score": REFUSED_WIDTH}
    (low, high), truth = ends, float(best[0])
    outside = max(low - truth, 0.0) + max(truth - high, 0.0)
    score = high - low + 2 / (1 - LEVEL) * outside
    held, width = float(low <= truth <= high), high - low
    return {"score": score, "held": held, "width": width, "error": said["values"][0] - truth}


def ratio_of(table: pd.DataFrame, column: str) -> tuple[float, float, float]:
    """Mean of the surface over that of today, over the same sweeps, with a 95 % interval."""
    wide = table.pivot_table(index="number", columns="who", values=column)
    rng, n = np.random.default_rng(0), len(wide)
    now, new = wide["today"].to_numpy(), wide["surface"].to_numpy()
    chosen = rng.integers(0, n, (N_BOOTSTRAPS, n))
    ratios = new[chosen].mean(axis=1) / now[chosen].mean(axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    return float(new.mean() / now.mean()), float(low), float(high)


def rows_of(kind: str, table: pd.DataFrame) -> list[Row]:
    """What was measured of a kind, per ratio of sizes."""
    rows = []
    for ratio, at in table.groupby("ratio"):
        by = {who: rows_ for who, rows_ in at.groupby("who")}
        score, low, high = ratio_of(at, "score")
        parts = [f"score {score:.2f} × ({low:.2f} to {high:.2f})"]
        for who in ("today", "surface"):
            one = by[who]
            rms = math.sqrt((one["error"].dropna() ** 2).mean())
            parts.append(
                f"{who}: refused {one['refused'].mean():.2f}, rms {rms:.2f}, held "
                f"{one['held'].mean():.2f}, width {one['width'].median():.2f}, cost "
                f"{100 * one['cost'].mean():.2f} %"
            )
        predicted = by["surface"].dropna(subset=["predicted"])
        real = predicted["cost"].mean()
        parts.append(f"predicted {predicted['predicted'].mean() / max(real, 1e-9):.2f} × the cost")
        rows.append(Row(part=kind, figure=f"at {ratio:g} times", reached="; ".join(parts)))
    return rows


def main() -> None:
    """Draw, fit and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=[*GRIDDED, *SAMPLED], metavar="KIND")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    with ProcessPoolExecutor(given.workers) as pool:
        for kind in given.only:
            tasks = [(kind, number) for number in range(given.n)]
            found = pool.map(partial(measure, draws=given.draws), tasks, chunksize=4)
            table = pd.DataFrame([row for rows in found for row in rows])
            print_rows(rows_of(kind, table))


if __name__ == "__main__":
    main()
