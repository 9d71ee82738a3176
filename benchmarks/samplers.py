"""How many runs a sampler needs to know the slope of the optimal rate as well as a full grid.

    python -m benchmarks.samplers [DATA]

Five sweeps whose optima are known: simulated excess-loss curves as different as real ones, paths
of fixed tokens per parameter through Step Law's dense runs (Li et al. 2025, arXiv 2503.04715), and
the shipped sweep, the latter two smoothed and with noise added. The full grid is the default
study's:
9 rates .75 octave apart, 4 seeds. Every sampler's runs go through the package's own estimator; the
error is that of the fitted slope against the slope of the true optima of the same sizes, so it is
what sampling costs: that optima scatter about their law no sampler can mend.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
from scipy.interpolate import make_smoothing_spline

from benchmarks import optima
from benchmarks.optima import SIZES, TUNED, rms
from benchmarks.page import print_rows
from benchmarks.rows import DATA, Row
from extrap.errors import DataError
from extrap.fitting import (
    estimate_noise,
    estimate_optima,
    fit_optimum_law,
    place_runs,
    sharpen_noise,
)
from extrap.records import Cell, Runs, StudySpec, TunedRange, Workload

LEVEL = 0.9
RATES, STEP, SEEDS = 9, 0.75, (0, 1, 2, 3)
SPAN = (RATES - 1) * STEP
SHARES = (0.3, 0.4, 0.5)
"""Budgets of the law, besides its own end, as shares of the grid's runs."""
OPTUNA_SHARES = (0.25, 0.5, 1.0)
TARGET = 0.4
REPLICATES, OPTUNA_REPLICATES = 200, {"tpe": 100, "gp": 8}
PACKS = 4
"""Optuna learns between packs only, as in `extrap.study`."""
SMOOTHING = 0.02
SEED = 20261121


@dataclass(frozen=True, eq=False)
class Truth:
    """One sweep's curves_of_excess.

    Attributes:
        log2_sizes: Of each size.
        optima: log2 of its best rate.
        excess_curve: Number of the size and log2 rate → log loss without noise, infinite if it
            diverges.
        low: log2 of the grid's lowest rate.
        own_sd: Noise of a run.
        size_sd, shared_sd: What a seed does at one size only, and at all.
        slope: Of the law the optima scatter about, where there is one.
    """

    log2_sizes: np.ndarray
    optima: np.ndarray
    excess_curve: Callable[[int, float], float]
    low: float
    own_sd: float
    size_sd: float
    shared_sd: float
    slope: float | None = None


def exponential(u: float, right: float, left: float) -> float:
    """An asymmetric excess_curve of unit curvature (METHODS 3.4)."""
    rate = right if u > 0 else left
    v = abs(u) * rate
    return (math.exp(v) - 1 - v) / rate**2


def simulated(n: int, curvature: float, own_sd: float, rng: np.random.Generator) -> Truth:
    """Sizes over a factor of 16; curvature and asymmetry vary by e^.4, optima by .15 octave."""
    log2_sizes = np.linspace(0, 4, n)
    slope = rng.uniform(-0.75, -0.25)
    law = rng.uniform(-0.5, 0.5) + slope * (log2_sizes - log2_sizes.mean())
    optima = law + 0.15 * rng.normal(size=n)
    k, right, left = (c * np.exp(0.4 * rng.normal(size=n)) for c in (curvature, 0.5, 0.35))

    def excess_curve(i: int, rate: float) -> float:
        return (
            1
            - 0.1 * float(log2_sizes[i])
            + k[i] * exponential(rate - optima[i], right[i], left[i])
        )

    return Truth(log2_sizes, optima, excess_curve, -SPAN / 2, own_sd, own_sd, 1.3 * own_sd, slope)


@dataclass(frozen=True, eq=False)
class Curve:
    """A smoothed curve of log loss against log2 rate; linear below its rates, diverged above."""

    x: np.ndarray
    y: np.ndarray

    def spline(self) -> Callable[[np.ndarray], np.ndarray]:
        """Smoothing spline of the trained rates."""
        return make_smoothing_spline(self.x, self.y, lam=SMOOTHING)


def tabled(log2_sizes: np.ndarray, found: list[Curve], own_sd: float) -> Truth:
    """Excess-loss curves through trained runs, optima by the minimum of the smooth curve."""
    splines = [curve.spline() for curve in found]
    optima = []
    for curve, spline in zip(found, splines, strict=True):
        fine = np.linspace(curve.x[0], curve.x[-1], 4001)
        optima.append(fine[np.argmin(spline(fine))])

    def excess_curve(i: int, rate: float) -> float:
        curve, spline = found[i], splines[i]
        if rate > curve.x[-1] + 1e-9:
            return math.inf
        inside = max(rate, curve.x[0])
        slope = (spline(curve.x[0] + 0.1) - spline(curve.x[0])) / 0.1
        return float(spline(inside) + slope * (rate - inside))

    low = max(curve.x[-1] for curve in found) - SPAN
    return Truth(log2_sizes, np.array(optima), excess_curve, low, own_sd, own_sd, 1.3 * own_sd)


def shipped(rng: np.random.Generator) -> Truth:
    """The sweep of `examples/`, its seeds' mean, with the noise it has."""
    del rng
    table = pd.read_csv(Path(__file__).parents[1] / "examples" / "sweep.csv")
    table = table[table["status"] == "complete"]
    found = []
    for _, group in table.groupby("width"):
        mean = np.log(group["loss"]).groupby(group["lr"]).mean()
        found.append(Curve(np.log2(mean.index.to_numpy()), mean.to_numpy()))
    widths = np.log2(sorted(table["width"].unique()))
    return tabled(widths, found, 0.0045)


def paths(data: Path) -> list[list[tuple[float, Curve]]]:
    """Step Law at 19 tokens a parameter, one path a batch size: log2 parameters and curves."""
    by_cell: dict[float, list[Curve]] = {}
    table = optima.step_law(data)
    table = table[np.isfinite(table["loss"]) & (table["tokens"] / table["params"]).between(18, 19)]
    for (params, *_), group in table.groupby([*SIZES, TUNED[1]]):
        mean = np.log(group.groupby("lr")["loss"].mean())
        is_bracketed = 2 <= mean.argmin() <= len(mean) - 3
        if len(mean) >= 9 and is_bracketed:
            curve = Curve(np.log2(mean.index.to_numpy(dtype=float)), mean.to_numpy())
            by_cell.setdefault(np.log2(params), []).append(curve)
    n = min(len(found) for found in by_cell.values())
    return [[(size, by_cell[size][j]) for size in sorted(by_cell)] for j in range(n)]


def step_law(data: Path, rng: np.random.Generator) -> Truth:
    """One path, at .3 % noise."""
    found = paths(data)
    path = found[rng.integers(len(found))]
    return tabled(np.array([size for size, _ in path]), [curve for _, curve in path], 0.003)


def beds(data: Path) -> dict[str, Callable[[np.random.Generator], Truth]]:
    """Name → a draw of a sweep."""
    found: dict[str, Callable[[np.random.Generator], Truth]] = {
        "simulated, 8 sizes, .3 % noise": lambda rng: simulated(8, 0.0097, 0.003, rng),
        "simulated, 5 sizes, .3 % noise": lambda rng: simulated(5, 0.0097, 0.003, rng),
        "simulated, 8 sizes, 3 × as steep, .45 % noise": lambda rng: simulated(
            8, 0.03, 0.0045, rng
        ),
        "shipped sweep, 8 widths, .45 % noise": shipped,
    }
    if (data / "steplaw.csv").is_file():
        found["Step Law, 5 sizes, .3 % noise"] = lambda rng: step_law(data, rng)
    return found


class Trainer:
    """Trains cells of one truth; the same cell always gives the same loss."""

    def __init__(self, truth: Truth, seed: int) -> None:
        self.truth = truth
        self._seed = seed
        rng = np.random.default_rng([SEED, seed])
        self._shared = truth.shared_sd * rng.normal(size=len(SEEDS))
        self._own = truth.size_sd * rng.normal(size=(len(truth.log2_sizes), len(SEEDS)))
        self.spec = StudySpec(
            name="bench",
            question="?",
            workload=Workload(name="excess_curve"),
            sizes={"size": tuple(2.0**x for x in truth.log2_sizes)},
            tune={"lr": TunedRange(low=2**truth.low, high=2 ** (truth.low + SPAN), n=RATES)},
            seeds=SEEDS,
        )

    def log_loss(self, number: int, rate: float, seed: int) -> float:
        """Of one run; rates are log2."""
        key = [SEED, self._seed, number, round(1e6 * (rate + 64)), seed]
        noise = self.truth.own_sd * np.random.default_rng(key).normal()
        seeds = self._shared[seed] + self._own[number, seed]
        return float(self.truth.excess_curve(number, rate) + seeds + noise)

    def train(self, cells: Iterable[Cell]) -> Runs:
        """Their runs."""
        numbers = {point["size"]: i for i, point in enumerate(self.spec.size_points())}
        rows = []
        for cell in cells:
            size, lr = cell.size[0][1], cell.tuned[0][1]
            number = min(numbers, key=lambda known: abs(known - size))
            y = self.log_loss(numbers[number], math.log2(lr), cell.seed)
            rows.append({"size": number, "lr": lr, "seed": cell.seed, "loss": math.exp(y)})
        columns = ["size", "lr", "seed", "loss"]
        table = pd.DataFrame(rows, columns=columns).astype({"loss": float})
        return Runs.from_frame(table, sizes=["size"], tuned=["lr"])


def law_runs(trainer: Trainer, budget: int, runs: Runs) -> Runs:
    """Go on from some runs until the law's sampler wants no more."""
    while True:
        wanted = place_runs(trainer.spec, runs, budget=budget)
        if len(wanted) <= len(runs):
            return runs
        runs = trainer.train(wanted)


def random_runs(trainer: Trainer, budget: int, rng: np.random.Generator) -> Runs:
    """Rates at random over the grid's range; seeds take turns."""
    sizes = trainer.spec.size_points()
    return trainer.train(
        tuple(
            Cell.of(size, {"lr": 2 ** (trainer.truth.low + SPAN * rng.uniform())}, SEEDS[i % 4])
            for size in sizes
            for i in range(round(budget / len(sizes)))
        )
    )


def grid_runs(trainer: Trainer, n_seeds: int) -> Runs:
    """The grid with its first seeds."""
    return trainer.train(tuple(c for c in trainer.spec.grid_cells() if c.seed < n_seeds))


def optuna_runs(trainer: Trainer, sampler: str, seed: int) -> list[list[Cell]]:
    """The cells that TPE or the Gaussian process asks for at each size, in order."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    n_runs = RATES * len(SEEDS)
    low, high = 2**trainer.truth.low, 2 ** (trainer.truth.low + SPAN)
    asked = []
    for number, size in enumerate(trainer.spec.size_points()):
        chosen: optuna.samplers.BaseSampler = (
            optuna.samplers.GPSampler(seed=seed)
            if sampler == "gp"
            else optuna.samplers.TPESampler(constant_liar=True, seed=seed)
        )
        study = optuna.create_study(sampler=chosen)
        cells: list[Cell] = []
        while len(cells) < n_runs:
            trials = [study.ask() for _ in range(n_runs // PACKS)]
            for trial in trials:
                lr = trial.suggest_float("lr", low, high, log=True)
                cells.append(Cell.of(size, {"lr": lr}, SEEDS[trial.number % len(SEEDS)]))
            for trial, cell in zip(trials, cells[-len(trials) :], strict=True):
                y = trainer.log_loss(number, math.log2(cell.tuned[0][1]), cell.seed)
                study.tell(trial, y if math.isfinite(y) else 3.0)
        asked.append(cells)
    return asked


def judge(trainer: Trainer, runs: Runs, head: Mapping[str, object]) -> dict[str, object]:
    """Error of the slope and of the optima, in octaves, and whether intervals hold."""
    truth = trainer.truth
    row: dict[str, object] = {**head, "runs": len(runs) / len(trainer.spec.grid_cells())}
    optima = estimate_optima(runs, noise=sharpen_noise(runs, estimate_noise(runs)), level=LEVEL)
    rates = [o.tuned["lr"] for o in optima]
    row["bracketed"] = float(np.mean([rate.value is not None for rate in rates]))
    held, off, loss_off = [], [], []
    for i, (rate, true) in enumerate(zip(rates, truth.optima, strict=True)):
        if rate.value is not None:
            low, high = rate.ci.lower or 0.0, rate.ci.upper or math.inf
            held.append(low <= 2**true <= high)
            off.append(math.log2(rate.value) - true)
            loss_off.append(math.log(optima[i].loss or math.nan) - truth.excess_curve(i, true))
    row |= {"held": float(np.mean(held)), "position": rms(np.array(off))}
    row["loss"] = rms(np.array(loss_off))
    try:
        found = fit_optimum_law(optima, tuned="lr", columns=["size"])
    except DataError:
        return row
    row["error"] = found.values[1] - np.polyfit(truth.log2_sizes, truth.optima, 1)[0]
    row["law_error"] = found.values[1] - (math.nan if truth.slope is None else truth.slope)
    return row


def replicate(task: tuple[str, Path, int]) -> list[dict[str, object]]:
    """One sweep of a bed by every sampler but Optuna's."""
    name, data, number = task
    rng = np.random.default_rng([SEED, number])
    trainer = Trainer(beds(data)[name](rng), number)
    full = len(trainer.spec.grid_cells())
    found = []

    def keep(sampler: str, share: float, runs: Runs) -> None:
        found.append(judge(trainer, runs, {"bed": name, "sampler": sampler, "share": share}))

    for n_seeds in (1, 2, 4):
        keep("grid", n_seeds / 4, grid_runs(trainer, n_seeds))
    for share in (0.5, 1.0):
        keep("random", share, random_runs(trainer, round(share * full), rng))
    runs = trainer.train(())
    for share in (*SHARES, 1.0):
        runs = law_runs(trainer, round(share * full), runs)
        keep("law", share, runs)
    return found


def replicate_optuna(task: tuple[str, str, int]) -> list[dict[str, object]]:
    """One simulated sweep by one of Optuna's samplers, and what the first runs gave."""
    name, sampler, number = task
    trainer = Trainer(beds(Path("nowhere"))[name](np.random.default_rng([SEED, number])), number)
    asked = optuna_runs(trainer, sampler, number)
    found = []
    for share in OPTUNA_SHARES:
        cells = tuple(cell for here in asked for cell in here[: round(share * len(here))])
        head = {"bed": name, "sampler": sampler, "share": share}
        found.append(judge(trainer, trainer.train(cells), head))
    return found


def judge_all(
    data: Path = DATA,
    n_replicates: int = REPLICATES,
    optuna_replicates: Mapping[str, int] = OPTUNA_REPLICATES,
) -> pd.DataFrame:
    """One row a bed, sampler, budget and replicate; Optuna's samplers on the first bed."""
    names = list(beds(data))
    tasks = [(name, data, i) for name in names for i in range(n_replicates)]
    others = [(names[0], s, i) for s, n in optuna_replicates.items() for i in range(n)]
    with ProcessPoolExecutor(2) as pool:
        found = [*pool.map(replicate, tasks), *pool.map(replicate_optuna, others)]
    return pd.DataFrame([row for rows in found for row in rows])


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Root mean square errors, mean runs and coverage of every sampler and budget.

    `missed` counts sweeps without a law; they are left out of its errors.
    """
    squared = ["error", "law_error", "position", "loss"]
    groups = table.groupby(["bed", "sampler", "share"], sort=False)
    errors = groups[squared].agg(lambda e: float(np.sqrt((e**2).mean())))
    means = groups[["runs", "bracketed", "held"]].mean()
    counts = groups["error"].agg(n="size", missed=lambda e: int(e.isna().sum()))
    return pd.concat([means, errors, counts], axis=1).reset_index()


def share_needed(found: pd.DataFrame, bed: str, sampler: str) -> float:
    """Share of the grid's runs at which a sampler's slope is as good as the grid's.

    Interpolated on logarithms; the least share tried if that is good enough, NaN if none is.
    """
    here = found[found["bed"] == bed]
    aim = here.loc[(here["sampler"] == "grid") & (here["share"] == 1), "error"].item()
    mine = here[here["sampler"] == sampler].sort_values("runs")
    runs, error = mine["runs"].to_numpy(), np.minimum.accumulate(mine["error"].to_numpy())
    if error[0] <= aim:
        return float(runs[0])
    if error[-1] > aim:
        return math.nan
    # of the errors, falling, the first that is small enough
    j = int(np.argmax(error <= aim))
    weight = math.log(error[j - 1] / aim) / math.log(error[j - 1] / error[j])
    return float(np.exp(np.log(runs[j - 1]) + weight * np.log(runs[j] / runs[j - 1])))


NOTE = (
    "True error of the slope against that of the true optima of the sizes, by our estimator. "
    "Offsets and seeds of the law's sampler were chosen on simulated beds of this kind, with "
    "other draws; nothing was chosen on Step Law or the shipped sweep. With 200 sweeps a ratio of "
    "two errors is uncertain by some 8 %, and a share by more."
)
OPTUNA_NOTE = (
    "Optuna's samplers look for the best loss, not for the slope, and are asked a pack of nine "
    "runs at a time; no run is pruned here."
)


def rows(table: pd.DataFrame) -> list[Row]:
    """The figures."""
    found = summary(table)
    return [row for bed in found["bed"].unique() for row in _bed_rows(found, bed)]


def _bed_rows(found: pd.DataFrame, bed: str) -> list[Row]:
    part = f"samplers: {bed}"
    here = found[found["bed"] == bed].set_index(["sampler", "share"])
    ratios = here["error"] / here.loc[("grid", 1.0), "error"]
    share = share_needed(found, bed, "law")
    grid, end = here.loc[("grid", 1.0)], here.loc[("law", 1.0)]
    others = [s for s in ("random", "tpe", "gp") if s in ratios.index.get_level_values(0)]
    needs = {s: share_needed(found, bed, s) for s in others}
    beaten = [f"{sampler} {_share(need)}" for sampler, need in needs.items()]
    made = [
        Row(
            part=part,
            figure="share of the grid's runs for the slope's error of the full grid",
            beat=", ".join(beaten),
            target=f"≤ {TARGET:g}",
            reached=_share(share),
            met=bool(share <= TARGET),
            note=NOTE,
        ),
        Row(
            part=part,
            figure="error of the slope / that of the full grid, at shares of its runs",
            beat=f"grid {_ratios(ratios, 'grid')}",
            reached=_ratios(ratios, "law"),
        ),
        Row(
            part=part,
            figure="where the sampler ends by itself: share; 90 % intervals of the optima hold; "
            "sizes bracketed",
            beat=f"grid {grid['held']:.1%}; {grid['bracketed']:.1%}",
            reached=f"{end['runs']:.2f}; {end['held']:.1%}; {end['bracketed']:.1%}",
        ),
    ]
    for sampler in others:
        n = here.loc[sampler, "n"].iloc[0]
        made.append(
            Row(
                part=part,
                figure=f"{sampler}: error / that of the full grid, {n} sweeps",
                reached=_ratios(ratios, sampler),
                note=OPTUNA_NOTE if sampler != "random" else "",
            )
        )
    if here["law_error"].notna().any():
        law_ratios = here["law_error"] / grid["law_error"]
        made.append(
            Row(
                part=part,
                figure="error against the law that the optima scatter about, / the full grid's",
                beat=f"grid {_ratios(law_ratios, 'grid')}",
                reached=_ratios(law_ratios, "law"),
            )
        )
    return made


def _share(share: float) -> str:
    """A share in words."""
    if math.isnan(share):
        return "not reached"
    return f"{'≤ ' if share < min(SHARES) else ''}{share:.2f}"


def _ratios(ratios: pd.Series, sampler: str) -> str:
    """Of one sampler, by the budget it was given."""
    return ", ".join(f"{ratio:.2f} at {share:g}" for share, ratio in ratios[sampler].items())


def main() -> None:
    """Print every sampler and budget."""
    table = judge_all(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA)
    sys.stdout.write(summary(table).round(4).to_string(index=False) + "\n")
    print_rows(rows(table))


if __name__ == "__main__":
    main()
