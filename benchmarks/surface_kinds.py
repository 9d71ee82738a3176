"""Simulated sweeps of a known truth for the benchmarks of tuned values, by kind.

| kind | sweep |
|---|---|
| straight, curved, kink, step | of `benchmarks.interval_draws`, 7 values an octave apart |
| two columns | curved, over two size columns |
| cliff | runs diverge .3 to 1.5 octaves above the optimum |
| coarse, noisy | three values, three octaves apart; noise of 8 % |
| leaves the grid, largest diverged | one grid for all sizes |
| seeds | half of the variance is the seed's, heavy tails |
| few | three sizes with one seed |
| outside, monotone | no grid reaches the optimum: all lie above it, or six octaves below |
| random, tpe | 60 runs of five sizes, by random search or Optuna's sampler |
| random cliff | the same, runs diverge 1 to 3 octaves above the optimum |
| … grid, … ridge, … flat | two tuned values, 30 runs a size: a ridge, or one that does nothing |
| random three | three tuned values, 30 runs at each of five sizes |
| steep, other shape, power 1.5 | curvature scatters by 50 %; soft below; cost of a power 1.5 |
| falling threshold | falls .2 to .5 octave a doubling faster; at 4 times −.3 to 1.5 above |
| mix … | laws bend, jitter, turn and jump; curves of three families, see `draw_mixed` |
| other … | log-cosh costs, uneven sizes, missing cells, blurred thresholds, see `Other` |

Sizes of targets are 2, 4 and 16 times the largest one of the sweep.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.interval_draws import draw_loss, draw_world
from benchmarks.sweeps import SimulatedSweep, World, log_uniform, skewed

Array = np.ndarray
Row = dict[str, float]
RATIOS = (2.0, 4.0, 16.0)
MOST = 1.0
"""Log excess of a run at most, and of a diverged one."""
MOST_SEEN = 1.5
"""Log excess that losses show at most."""
UP = np.log2(RATIOS)[:, None]

GROUPS = {
    "gridded": (
        *("straight", "curved", "kink", "step", "two columns", "cliff", "coarse", "noisy"),
        *("leaves the grid", "largest diverged"),
        *("seeds", "few", "outside", "monotone"),
    ),
    "sampled": (
        *("random", "random cliff", "tpe", "ridge grid", "ridge random", "flat grid"),
        *("random flat", "tpe flat", "tpe ridge", "random three"),
    ),
    "shaped": ("steep", "other shape", "power 1.5", "falling threshold"),
    "mixed": (
        *("mix grid", "mix random", "mix tpe", "mix cliff", "mix coarse", "mix three sizes"),
        "mix two columns",
    ),
    "other": (
        *("other grid", "other random", "other tpe", "other cliff", "other three sizes"),
        "other coarse",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A sweep with its truth.

    Attributes:
        table: Runs.
        sizes, tuned: Its columns.
        targets: log2 of sizes, (T, C).
        best: Optima there, log2, (T, D).
        kept: Optimum at the largest size, log2, (D,).
        excess: Number of a target and log2 values → true log excess of a run that ends, over the
            best value at which runs do.
        chance: The same → true chance of divergence.
        loss: True best log loss at each target, (T,).
        noise: Standard deviation of a log loss there.
        n_scored: Tuned values, the first ones, that matter.
    """

    table: pd.DataFrame
    sizes: tuple[str, ...]
    tuned: tuple[str, ...]
    targets: Array
    best: Array
    kept: Array
    excess: Callable[[int, Array], float]
    chance: Callable[[int, Array], float]
    loss: Array
    noise: float
    n_scored: int = 1

    def cost(self, i: int, values: Array) -> float:
        """True expected log excess, divergence included."""
        excess, chance = min(self.excess(i, values), MOST), self.chance(i, values)
        return excess + chance * (MOST - excess)


def case(kind: str, rng: np.random.Generator) -> Case:
    """A sweep of a kind."""
    group, kinds = next(item for item in GROUPS.items() if kind in item[1])
    if group not in ("gridded", "sampled"):  # kinds of these two share what a number draws
        rng = rng.spawn(len(kinds))[kinds.index(kind)]
    make = {"gridded": gridded, "sampled": sampled, "shaped": shaped, "mixed": mixed}
    return make.get(group, other)(kind, rng)


def of_world(world: World, table: pd.DataFrame, cliff: float = math.inf) -> Case:
    """A sweep over one tuned value; runs more than `cliff` octaves above the optimum diverge."""
    targets = np.vstack([world.beyond(ratio) for ratio in RATIOS])
    best = world.optimum(targets)[:, None]
    sizes = ("x", "z")[: targets.shape[1]]
    logs = np.log2(table[list(sizes)].to_numpy(dtype=float))
    off = np.log2(table["lr"].to_numpy()) - world.optimum(logs)
    return Case(
        table=table.assign(loss=np.where(off > cliff, math.inf, table["loss"])),
        sizes=sizes,
        tuned=("lr",),
        targets=targets,
        best=best,
        kept=world.optimum(world.doublings.max(axis=0)[None]),
        excess=lambda i, values: float(world.excess(values[0] - best[i, 0])),
        chance=lambda i, values: float(values[0] - best[i, 0] > cliff),
        loss=np.log(world.best_loss(targets.mean(axis=1))),
        noise=world.noise,
    )


def gridded(kind: str, rng: np.random.Generator) -> Case:
    """The kinds with one tuned value on a grid."""
    if kind == "two columns":
        world = draw_world(rng, n_sizes=4, n_columns=2, optimum="curved")
        return of_world(world, SimulatedSweep(world, rng).table)
    shape = kind if kind in ("curved", "kink", "step") else "straight"
    given = {"noisy": {"noise": 0.08}, "seeds": {"share": 0.5, "tail": 4.0}, "few": {"n_seeds": 1}}
    n = 3 if kind == "few" else int(rng.integers(4, 8))
    world = draw_world(rng, n_sizes=n, optimum=shape, **given.get(kind, {}))
    best, cliff, lowest = world.optimum(world.doublings), math.inf, None
    if kind == "leaves the grid":
        lowest = best[-1] + rng.uniform(-0.2, 1.0)
    if kind == "outside":
        lowest = best.max() + rng.uniform(0.3, 1.2)
    if kind == "monotone":
        world = replace(world, displaced=world.displaced - 6)
    if kind == "largest diverged":
        cliff = rng.uniform(0.5, 2.0)
        lowest = best[-1] + cliff + rng.uniform(0.05, 0.5)
    cliff = rng.uniform(0.3, 1.5) if kind == "cliff" else cliff
    table = SimulatedSweep(world, rng, lowest=lowest).table
    if kind == "coarse":
        step = np.round(np.log2(table["lr"]) - np.log2(table.groupby("x")["lr"].transform("min")))
        table = table[step.isin([0, 3, 6])].reset_index(drop=True)
    return of_world(world, table, cliff)


def soft(u: Array, k: Array | float, rise: float = 0.25) -> Array:
    """Costs k (√(1 + u²) − 1) below the optimum, k/2 u² e^(rise u) above it."""
    return np.where(u < 0, k * (np.sqrt(1 + u**2) - 1), 0.5 * k * u**2 * np.exp(rise * u))


class Several:
    """So many tuned values: optima on lines, turned axes; a column costs `soft` or k/2 u² e^(g u).

    Noise grows with the excess; runs diverge `cliff` octaves above the first optimum.
    """

    def __init__(self, kind: str, rng: np.random.Generator, n: int) -> None:
        self.rng, wide = rng, max(n, 2)
        self.k = np.exp(rng.uniform(np.log(0.01), np.log(0.06), n))
        self.k[1:] = 1e-5 if "flat" in kind else self.k[1:]
        self.g, self.is_soft = rng.uniform(0, 0.25, n), rng.integers(0, 2, n)
        ends = np.array([[-0.8, -0.3, -0.3], [0.0, 0.3, 0.3]])
        self.slope = rng.uniform(*ends[:, :wide])[:n]
        self.start = np.array([-6.0, -4.0, -4.0])[:n] + rng.uniform(-1.5, 1.5, n)
        self.cliff = rng.uniform(1.0, 3.0) if "cliff" in kind else math.inf
        self.turn = np.array([[1.0, 0.6], [-0.3, 1.0]]) if "ridge" in kind else np.eye(n)
        self.loss = rng.uniform(0.8, 1.8), rng.uniform(0.8, 2.5), rng.uniform(0.2, 0.6)
        self.noise = log_uniform(rng, 0.003, 0.02)

    def best(self, s: float) -> float:
        floor, height, power = self.loss
        return math.log(floor + height * 2 ** (-power * s))

    def optimum(self, s: float) -> Array:
        return self.start + self.slope * s

    def excess(self, s: float, values: Array) -> float:
        u = self.turn @ (values - self.start - self.slope * s)
        plain = 0.5 * self.k * u**2 * np.exp(self.g * np.minimum(u, 8))
        return float(np.where(self.is_soft, soft(u, self.k), plain).sum())

    def chance(self, s: float, values: Array) -> float:
        return float((values - self.start - self.slope * s)[0] > self.cliff)

    def run(self, s: float, values: Array, seed: int) -> Row:
        excess = math.inf if self.chance(s, values) else self.excess(s, values)
        scatter = self.noise * (1 + 3 * min(excess, 1.0)) * self.rng.normal()
        loss = math.exp(self.best(s) + min(excess, MOST_SEEN) + scatter)
        tuned = dict(zip(("lr", "wd", "beta"), 2.0**values, strict=False))
        return {"x": 2.0**s, **tuned, "seed": seed, "loss": loss if excess < math.inf else excess}


def sampled(kind: str, rng: np.random.Generator) -> Case:
    """The kinds with several tuned values, and those of samplers."""
    n = 3 if "three" in kind else 2 if "ridge" in kind or "flat" in kind else 1
    truth, sizes, rows = Several(kind, rng, n), np.arange(5.0), []
    low, high = np.array([-10.0, -8.0, -8.0])[:n], np.array([-1.0, 0.0, 0.0])[:n]
    if "grid" in kind:
        for s in sizes:
            middle = np.round(truth.start + truth.slope * s) + rng.uniform(-0.5, 0.5)
            for a, b in itertools.product(range(-3, 3), range(-2, 3)):
                rows.append(truth.run(s, middle + np.array([a, 1.5 * b]), 0))
    elif "tpe" in kind:
        rows = by_tpe(truth.run, [sizes] if n == 1 else sizes[:, None], low, high, rng)
    else:
        for s, i in itertools.product(sizes, range(12 if n == 1 else 30)):
            rows.append(truth.run(s, rng.uniform(low, high), i % 3))
    return of_lines(truth, rows, sizes[-1], n_scored=1 if "flat" in kind else n)


def of_lines(truth: Several | Other, rows: list[Row], last: float, n_scored: int = 1) -> Case:
    """A sweep of such runs, whose largest size is `last`."""
    at = [last + math.log2(ratio) for ratio in RATIOS]
    table = pd.DataFrame(rows)
    return Case(
        table=table,
        sizes=("x",),
        tuned=tuple(name for name in ("lr", "wd", "beta") if name in table),
        targets=np.array(at)[:, None],
        best=np.array([truth.optimum(s) for s in at]),
        kept=truth.optimum(last),
        excess=lambda i, values: truth.excess(at[i], values),
        chance=lambda i, values: truth.chance(at[i], values),
        loss=np.array([truth.best(s) for s in at]),
        noise=truth.noise,
        n_scored=n_scored,
    )


def by_tpe(
    run: Callable[[Any, Array, int], Row],
    studies: Sequence[Array],
    low: Array,
    high: Array,
    rng: np.random.Generator,
) -> list[Row]:
    """Runs of studies that draw the size too where they have several: 60 then, else 30 each."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    rows = []
    for sizes in studies:
        sampler = optuna.samplers.TPESampler(seed=int(rng.integers(1 << 30)))
        study = optuna.create_study(sampler=sampler)
        for i in range(60 if len(sizes) > 1 else 30):
            trial = study.ask()
            s = trial.suggest_categorical("x", sizes.tolist())
            ends = enumerate(zip(2.0**low, 2.0**high, strict=True))
            values = [trial.suggest_float(("lr", "wd")[j], *pair, log=True) for j, pair in ends]
            rows.append(run(s, np.log2(values), i % 3))
            study.tell(trial, rows[-1]["loss"])
    return rows


@dataclass(frozen=True, kw_only=True)
class Truth:
    """One tuned value at the sizes of a sweep and, last, at its targets: one entry each.

    Attributes:
        doublings: log2 of the sizes, (P, C).
        best: Log loss at the optimum.
        optimum: log2.
        curvature: Of the costs.
        curve: Octaves above the optimum and curvature → log excess.
        threshold: Octaves above the optimum from which on runs diverge.
        noise: Standard deviation of a log loss.
        seeds: Effects of the seeds.
        own: Standard deviation of a run's own.
    """

    doublings: Array
    best: Array
    optimum: Array
    curvature: Array
    curve: Callable[[Array, Array], Array]
    threshold: Array
    noise: float
    seeds: Array
    own: float

    @property
    def n(self) -> int:
        """Sizes of the sweep."""
        return len(self.optimum) - len(RATIOS)

    def runs(self, i: Array, octaves: Array, seed: Array, rng: np.random.Generator) -> Row:
        """Columns of runs at sizes of the numbers i."""
        u = octaves - self.optimum[i]
        logs = self.best[i] + np.minimum(self.curve(u, self.curvature[i]), MOST_SEEN)
        logs = logs + self.seeds[seed] + self.own * rng.normal(size=np.shape(u))
        loss = np.where(u > self.threshold[i], math.inf, np.exp(logs))
        sizes = dict(zip(("x", "z"), 2.0 ** self.doublings[i].T, strict=False))
        return {**sizes, "lr": 2.0**octaves, "seed": seed, "loss": loss}

    def on_grid(self, rng: np.random.Generator, steps: Sequence[int]) -> pd.DataFrame:
        """Octaves of a grid of each size's own, that lies up to half an octave off."""
        first = np.round(self.optimum) + rng.uniform(-0.5, 0.5) - 3
        cells = itertools.product(range(self.n), steps, range(len(self.seeds)))
        i, step, seed = np.array(list(cells)).T
        return pd.DataFrame(self.runs(i, first[i] + step, seed, rng))

    def searched(self, rng: np.random.Generator, *, is_tpe: bool) -> pd.DataFrame:
        """Sixty runs over nine octaves, by Optuna's sampler or at random."""
        low = self.optimum[: self.n].mean() - 4.5 + rng.uniform(-1.0, 1.0)
        ends, k = (np.array([low]), np.array([low + 9])), len(self.seeds)

        def run(i: int, values: Array, number: int) -> Row:
            return self.runs(np.array(i), values[0], np.array(number % k), rng)

        if is_tpe:
            return pd.DataFrame(by_tpe(run, [np.arange(self.n)], *ends, rng)).astype(float)
        i = np.repeat(np.arange(self.n), 60 // self.n)
        values, seed = rng.uniform(low, low + 9, len(i)), np.arange(len(i)) % k
        return pd.DataFrame(self.runs(i, values, seed, rng))

    def case(self, table: pd.DataFrame) -> Case:
        """A sweep of it."""
        attained = np.minimum(self.threshold, 0.0)  # octaves, of the best value that ends
        lost, n, k = self.curve(attained, self.curvature), self.n, self.curvature

        def excess(i: int, values: Array) -> float:
            u = values[0] - self.optimum[n + i]
            return max(float(self.curve(u, k[n + i]) - lost[n + i]), 0.0)

        return Case(
            table=table,
            sizes=("x", "z")[: self.doublings.shape[1]],
            tuned=("lr",),
            targets=self.doublings[n:],
            best=self.optimum[n:, None],
            kept=(self.optimum + attained)[n - 1 : n],
            excess=excess,
            chance=lambda i, v: float(v[0] - self.optimum[n + i] > self.threshold[n + i]),
            loss=(self.best + lost)[n:],
            noise=self.noise,
        )


def shaped(kind: str, rng: np.random.Generator) -> Case:
    """A straight law with other costs, or a threshold that falls faster than it."""
    n = int(rng.integers(4, 8))
    world = draw_world(rng, n_sizes=n)
    s = np.vstack([world.doublings, world.doublings[-1] + UP])
    k, threshold = np.full(len(s), world.curvature), np.full(len(s), math.inf)
    if kind == "steep":
        k[:n] *= np.exp(0.5 * rng.normal(size=n))
    while kind == "falling threshold" and not 2 <= threshold[0] <= 3:
        fall, left = rng.uniform(0.2, 0.5), rng.uniform(-0.3, 1.5)
        threshold = left + fall * (n + 1 - s[:, 0])
    curves = {"other shape": partial(soft, rise=0.35), "power 1.5": power}
    truth = Truth(
        doublings=s,
        best=np.log(world.best_loss(s[:, 0])),
        optimum=world.optimum(s),
        curvature=k,
        curve=curves.get(kind, lambda u, k: skewed(u, k, 3 * world.steepness + 0.01)),
        threshold=threshold,
        noise=world.noise,
        seeds=np.zeros(world.n_seeds),
        own=world.noise,
    )
    return truth.case(truth.on_grid(rng, range(7)))


def power(u: Array, k: Array | float) -> Array:
    """Costs k/2 |u|^1.5."""
    return 0.5 * k * np.abs(u) ** 1.5


def draw_law(s: Array, rng: np.random.Generator) -> Array:
    """Optima that bend, turn, jump and jitter as real ones do, octaves.

    A bend of sd .05 octave per doubling² with probability .5, a slope that changes by sd .4 with
    probability .15, a jump of sd .5 octave with .1, jitter of .03 to .2 octave.
    """
    mean, slopes = s.mean(axis=1), [rng.uniform(-0.8, 0.0), rng.uniform(-0.3, 0.3)]
    last = mean[: -len(RATIOS)].max()
    optimum = s @ np.array(slopes[: s.shape[1]])
    if rng.random() < 0.5:
        optimum = optimum + 0.05 * rng.normal() * mean**2
    if rng.random() < 0.15:
        turn = last * rng.uniform(0.25, 0.75)
        optimum = optimum + 0.4 * rng.normal() * np.maximum(mean - turn, 0)
    if rng.random() < 0.1:
        optimum = optimum + 0.5 * rng.normal() * (mean > rng.uniform(0, last))
    return optimum + log_uniform(rng, 0.03, 0.2) * rng.normal(size=len(s))


def draw_mixed(kind: str, rng: np.random.Generator) -> Truth:
    """A law of `draw_law` with costs of one of three families, and noise of .2 to 3 %.

    Curvature scatters by 20 % and drifts by sd .1 a doubling; up to .6 of the variance is the
    seed's; thresholds of "mix cliff" lie .3 to 2 octaves above the optimum, with sd .1.
    """
    n = 3 if "three" in kind else 5 if kind in ("mix random", "mix tpe") else rng.integers(4, 8)
    s = np.arange(n, dtype=float)[:, None]
    s = np.array([*itertools.product(range(4), range(3))], float) if "two" in kind else s
    s = np.vstack([s, s.max(axis=0) + UP])
    mean, noise, share = s.mean(axis=1), log_uniform(rng, 0.002, 0.03), rng.uniform(0, 0.6)
    drift, rise = rng.normal([0.0, 0.3], [0.1, 0.35])
    scatter = drift * mean + 0.2 * rng.normal(size=len(s))
    gap = rng.uniform(0.3, 2.0) + 0.1 * rng.normal(size=len(s))
    return Truth(
        doublings=s,
        best=np.log(draw_loss("power and floor", len(s), rng)(mean)),
        optimum=draw_law(s, rng),
        curvature=log_uniform(rng, 0.01, 0.06) * np.exp(scatter),
        curve=(partial(skewed, rise=rise), soft, power)[rng.integers(3)],
        threshold=gap if "cliff" in kind else np.full(len(s), math.inf),
        noise=noise,
        seeds=noise * math.sqrt(share) * rng.normal(size=rng.integers(1, 5)),
        own=noise * math.sqrt(1 - share),
    )


def mixed(kind: str, rng: np.random.Generator) -> Case:
    """The kinds of a mix."""
    truth = draw_mixed(kind, rng)
    if kind in ("mix random", "mix tpe"):
        return truth.case(truth.searched(rng, is_tpe=kind == "mix tpe"))
    return truth.case(truth.on_grid(rng, (0, 3, 6) if "coarse" in kind else range(7)))


class Other:
    """Another generator: nothing of it is shared with the other kinds.

    The optimum is a + b s + c/(1 + s); u octaves off it cost k ln cosh u, with another k above;
    the threshold of divergence is blurred; noise is Laplace's.
    """

    def __init__(self, kind: str, rng: np.random.Generator) -> None:
        self.rng, below = rng, math.exp(rng.uniform(-4.4, -3.0))
        self.law = rng.uniform(-9, -6), rng.uniform(-0.7, 0.1), 0.6 * rng.normal()
        self.slopes = below, below * math.exp(rng.uniform(-0.7, 1.2))
        self.threshold = rng.uniform(0.5, 2.0) if kind == "other cliff" else math.inf
        self.blur = rng.uniform(0.05, 0.3)
        self.loss = rng.uniform(0.7, 1.5), rng.uniform(0.02, 0.15)
        self.noise = 0.003 * math.exp(0.7 * rng.normal())

    def optimum(self, s: float) -> Array:
        a, b, c = self.law
        return np.array([a + b * s + c / (1 + s)])

    def excess(self, s: float, values: Array) -> float:
        u = float((values - self.optimum(s))[0])
        return float(self.slopes[int(u > 0)] * np.log(np.cosh(u)))

    def chance(self, s: float, values: Array) -> float:
        left = self.threshold - float((values - self.optimum(s))[0])
        return 0.5 * math.erfc(left / (self.blur * math.sqrt(2)))

    def best(self, s: float) -> float:
        return self.loss[0] - self.loss[1] * s

    def run(self, s: float, values: Array, _: int = 0) -> Row:
        noise = self.rng.laplace(0, self.noise / math.sqrt(2))
        loss = math.exp(self.best(s) + self.excess(s, values) + noise)
        is_lost = self.rng.random() < self.chance(s, values)
        return {"x": 2.0**s, "lr": float(2.0 ** values[0]), "loss": math.inf if is_lost else loss}


def other(kind: str, rng: np.random.Generator) -> Case:
    """Sparse sweeps of four uneven sizes, or three, by another generator."""
    truth = Other(kind, rng)
    sizes = np.cumsum([0.0, *rng.uniform(0.5, 2.0, 2 if "three" in kind else 3)])
    best = np.array([truth.optimum(s) for s in sizes])
    low, high = best.min(axis=0) - rng.uniform(1.5, 3), best.max(axis=0) + rng.uniform(1.5, 3)
    if kind == "other tpe":
        rows = by_tpe(truth.run, [sizes], low, high, rng)
    elif kind == "other random":
        rows = [truth.run(rng.choice(sizes), rng.uniform(low, high)) for _ in range(40)]
    else:
        values = np.arange(low[0], high[0], 2.0 if "coarse" in kind else 1.0)[:, None]
        cells = [cell for cell in itertools.product(sizes, values) if rng.random() < 0.75]
        rows = [truth.run(*cell) for cell in cells for _ in range(rng.integers(1, 3))]
    return of_lines(truth, rows, sizes[-1])
